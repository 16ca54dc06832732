#include "verify/megatron_rules/program_warnings.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/printable_text.h"

namespace verify {

namespace {

/// Whether the name of a script has a word: letters and digits between other characters.
bool has_word(std::string_view name, std::string_view word) {
  const auto is_of_a_word = [&](std::size_t at) {
    return at < name.size() && std::isalnum(static_cast<unsigned char>(name[at])) != 0;
  };
  for (std::size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1))
    if (!(at > 0 && is_of_a_word(at - 1)) && !is_of_a_word(at + word.size())) return true;
  return false;
}

std::vector<sim::Warning> warnings_of_other_models(const std::string& script) {
  static constexpr std::pair<const char*, const char*> kModels[] = {
      {"bert", "a BERT"},           {"t5", "a T5"},
      {"mamba", "a Mamba"},         {"vlm", "a vision model"},
      {"ict", "a retriever"},       {"retro", "a retrieval model"},
      {"vision", "a vision model"}, {"mimo", "a model of several modalities"}};
  for (const auto& [word, model] : kModels) {
    if (!has_word(script, word)) continue;
    return {{"other_model",
             fmt::format("the model of {} is {} by its name, and is taken for a GPT with the same arguments: "
                         "what that model has more or less is neither proved nor counted",
                         sim::printable_text(script), model)}};
  }
  return {};
}

/// Whether arguments say that a run generates text, and does not train.
bool only_generates(const RunOfFile& run) {
  const RunValues& values = run.values;
  for (const char* training : {"train-iters", "train-samples", "perform-rl-step"})
    if (values.has(training)) return false;
  return std::ranges::any_of(values.all(), [](const auto& argument) {
    return argument.first.starts_with("inference-dynamic-batching");
  });
}

}  // namespace

std::vector<sim::Warning> warnings_of_program(const RunOfFile& run) {
  const std::string& script = run.document.script;
  std::vector<sim::Warning> warnings = warnings_of_other_models(script);
  if (has_word(script, "inference") || only_generates(run)) {
    warnings.push_back({"no_training",
                        "the run looks like inference, and is taken for a training with the same arguments, "
                        "which keeps gradients, optimizer states and activations, and no cache of keys"});
  }
  return warnings;
}

}  // namespace verify
