#include "verify/megatron_rules/run_argument_values.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/run_arguments/argument_shapes.h"
#include "verify/vocabulary/batch_schedule.h"
#include "verify/vocabulary/fork_choices.h"
#include "verify/vocabulary/number_hint.h"

namespace verify {

namespace {

struct Choices {
  const char* argument;
  std::vector<const char*> words;
};

const std::vector<Choices>& all_choices() {
  static const std::vector<Choices> choices = {
      {"position-embedding-type", {"learned_absolute", "rope", "yarn", "mrope", "relative", "none"}},
      {"transformer-impl", {"local", "transformer_engine", "inference_optimized"}},
      {"ckpt-format", {"torch", "torch_dist", "torch_dcp", "fsdp_dtensor"}},
      {"attention-backend", {"flash", "fused", "unfused", "local", "auto"}},
      {"data-parallel-sharding-strategy", {"no_shard", "optim", "optim_grads", "optim_grads_params"}},
      {"dataloader-type", {"single", "cyclic", "external"}},
      {"distributed-backend", {"nccl", "gloo"}},
      {"fp8-format", {"e4m3", "hybrid"}},
      {"fp8-recipe", {"tensorwise", "delayed", "mxfp8", "blockwise", "custom"}},
      {"cross-entropy-fusion-impl", {"native", "te"}},
      {"cuda-graph-impl", {"none", "local", "transformer_engine", "full_iteration"}},
      {"main-grads-dtype", {"fp32", "bf16"}},
      {"main-params-dtype", {"fp32", "fp16"}},
      {"exp-avg-dtype", {"fp32", "fp16", "bf16", "fp8"}},
      {"exp-avg-sq-dtype", {"fp32", "fp16", "bf16", "fp8"}},
      {"moe-router-dtype", {"fp32", "fp64"}},
      {"rope-type", {"rope", "yarn"}},
      {"sharp-enabled-group", {"dp", "dp_replica"}},
      {"moe-flex-dispatcher-backend", {"deepep", "hybridep", "ncclep"}},
      {"softmax-type", {"vanilla", "off-by-one", "learnable"}},
      {"fp4-format", {"e2m1"}},
      {"fp4-recipe", {"nvfp4", "custom"}},
      {"fp8-amax-compute-algo", {"most_recent", "max"}},
      {"non-persistent-ckpt-type", {"global", "local", "in_memory"}},
      {"lr-wsd-decay-style", {"exponential", "linear", "cosine", "minus_sqrt"}},
      {"timing-log-level", {"0", "1", "2"}},
      {"timing-log-option", {"max", "minmax", "all"}},
      {"empty-unused-memory-level", {"0", "1", "2"}},
      {"rerun-mode", {"disabled", "validate_results", "report_stats"}},
      {"weight-decay-incr-style", {"constant", "linear", "cosine"}},
      {"lr-decay-style", {"constant", "linear", "cosine", "inverse-square-root", "WSD"}},
      {"pipeline-model-parallel-comm-backend", {"nccl", "ucc"}},
      {"tp-comm-bootstrap-backend", {"nccl", "mpi", "gloo"}},
      {"DDP-impl", {"local", "torch"}},
      {"dist-ckpt-strictness",
       {"assume_ok_unexpected", "log_unexpected", "log_all", "raise_unexpected", "raise_all",
        "return_unexpected", "return_all", "ignore_all"}},
      {"ckpt-convert-format", {"torch", "torch_dist", "zarr"}},
      {"non-persistent-local-ckpt-algo", {"fully_parallel", "atomic"}},
      {"error-injection-type", {"correct_result", "transient_error", "persistent_error"}},
      {"inprocess-granularity", {"node", "rank"}},
      {"symmetric-ar-type", {"two_shot", "one_shot", "multimem_all_reduce"}},
      {"muon-scale-mode", {"spectral", "unit_rms_norm", "shape_scaling"}},
      {"muon-fp32-matmul-prec", {"low", "medium", "high"}},
      {"muon-tp-mode", {"blockwise", "duplicated", "distributed"}},
      {"rl-sequence-packing-algo", {"fifo", "round-robin"}},
      {"langrl-inference-server-type", {"inplace_megatron", "inplace_megatron_chat"}},
      {"bert-embedder-type", {"megatron", "huggingface"}},
      {"vision-pretraining-type", {"classify", "inpaint", "dino"}},
      {"vision-backbone-type", {"vit", "mit", "swin"}},
      {"swin-backbone-type", {"tiny", "base", "h3"}},
      {"mask-type", {"random", "row"}},
  };
  return choices;
}

/// Those to which forks and older versions add words of their own.
const std::vector<Choices>& open_choices() {
  static const std::vector<Choices> choices = {
      {"optimizer", {"adam", "sgd", "muon", "dist_muon", "lion", "soap", "adaptive_muon"}},
      {"tokenizer-type",
       {"BertWordPieceLowerCase", "BertWordPieceCase", "GPT2BPETokenizer", "SentencePieceTokenizer",
        "GPTSentencePieceTokenizer", "HuggingFaceTokenizer", "Llama2Tokenizer", "Llama3Tokenizer",
        "MistralTokenizer", "TikTokenizer", "MultimodalTokenizer", "NullTokenizer", "NullMultimodalTokenizer",
        "SFTTokenizer"}},
  };
  return choices;
}

[[noreturn]] void refuse_number(const std::string& argument, const std::string& word, const char* kind) {
  sim::refuse({.code = "not_a_number",
               .option = fmt::format("--{}", argument),
               .numbers = fmt::format("'{}'", sim::printable_text(word).substr(0, 100)),
               .rule = fmt::format("the value is a {} number", kind),
               .hint = hint_for_number(argument, word)});
}

/// Refuses "--num-layers= 24".
[[noreturn]] void refuse_blank_behind_sign(const std::string& argument,
                                           const std::vector<std::string>& words) {
  const std::string value = sim::printable_text(words[1]).substr(0, 100);
  sim::refuse({.code = "not_a_number",
               .option = fmt::format("--{}", argument),
               .numbers = fmt::format("no value behind the '=', and '{}' as a word of its own", value),
               .rule = "no blank stands behind the '=' of an argument",
               .hint = fmt::format("--{}={}", argument, value)});
}

/// Returns what Python reads of a number behind blanks and a sign.
std::string_view without_sign_and_blanks(std::string_view word) {
  constexpr std::string_view kBlanks = " \t\n";
  word.remove_prefix(std::min(word.find_first_not_of(kBlanks), word.size()));
  word = word.substr(0, word.find_last_not_of(kBlanks) + 1);
  if (word.starts_with('+') || word.starts_with('-')) word.remove_prefix(1);
  return word;
}

/// Refuses a word that is no number where one is read. No word and several are refused otherwise.
void require_number(const std::string& argument, const std::vector<std::string>& words) {
  const NumberKind kind = number_kind_of_argument(argument);
  if (kind != NumberKind::none && words.size() > 1 && words[0].empty())
    refuse_blank_behind_sign(argument, words);
  if (kind == NumberKind::none || words.size() != 1) return;
  const std::string_view number = without_sign_and_blanks(words[0]);
  const bool are_digits = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
  if (are_digits) return;
  if (kind == NumberKind::whole) refuse_number(argument, words[0], "whole");
  if (!decimal_number(number)) refuse_number(argument, words[0], "decimal");
}

bool is_choice(const Choices& choices, const std::string& word) {
  return std::ranges::find(choices.words, word) != choices.words.end();
}

void require_choice(const RunValues& values, const Choices& choices) {
  for (const std::string& word : values.words(choices.argument)) {
    if (is_choice(choices, word)) continue;
    const ChoiceHelp help =
        help_with_choice(choices.argument, word, {choices.words.begin(), choices.words.end()});
    sim::refuse({.code = "bad_choice",
                 .option = fmt::format("--{}", choices.argument),
                 .numbers = fmt::format("'{}'", sim::printable_text(word).substr(0, 100)),
                 .rule = fmt::format("the value is one of: {}{}", fmt::join(choices.words, ", "), help.known),
                 .hint = help.hint});
  }
}

}  // namespace

bool is_choice_argument(std::string_view name) {
  return std::ranges::any_of(all_choices(), [&](const Choices& one) { return one.argument == name; });
}

bool is_number_argument(std::string_view name) { return number_kind_of_argument(name) != NumberKind::none; }

bool keep_unreadable_values(const RunValues& values, sim::Refusals& refusals) {
  bool are_readable = true;
  for (const Choices& choices : all_choices())
    are_readable &= refusals.keep([&] { require_choice(values, choices); });
  for (const auto& [name, value] : values.all())
    are_readable &=
        refusals.keep([&, &argument = name, &words = value.words] { require_number(argument, words); });
  return !are_readable;
}

std::vector<std::string> words_of_forks(const RunValues& values, std::string_view argument) {
  std::vector<std::string> words;
  for (const Choices& choices : open_choices()) {
    if (choices.argument != argument) continue;
    for (const std::string& word : values.words(argument))
      if (!is_choice(choices, word) && word.find('$') == std::string::npos) words.push_back(word);
  }
  return words;
}

std::vector<std::string> open_choice_arguments() {
  std::vector<std::string> names;
  for (const Choices& choices : open_choices()) names.emplace_back(choices.argument);
  return names;
}

}  // namespace verify
