// Proves that what would help a run has the figures of the changed run: on drawn settings, given as options and
// as a launch script, each change is put into the same command, whose own figures are those that were told.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <sstream>
#include <string>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

/// The options of a command by their names, with their values; "" for one that has none.
using Options = std::map<std::string, std::string>;

std::string text_of(const Options& options) {
  std::string text;
  for (const auto& [name, value] : options) text += name + (value.empty() ? " " : " " + value + " ");
  return text;
}

/// Returns the options with those of a change: "no --option" and "--option=false" leave it out.
Options with_change(Options options, const std::string& change) {
  std::istringstream words(change);
  std::string last;
  bool leaves_out = false;
  for (std::string word; words >> word;) {
    if (word == "no") {
      leaves_out = true;
    } else if (leaves_out || word.ends_with("=false")) {
      options.erase(word.substr(0, word.find('=')));
      leaves_out = false;
    } else if (word.starts_with("--")) {
      last = word;
      options[last] = "";
    } else {
      options[last] += (options[last].empty() ? "" : " ") + word;
    }
  }
  return options;
}

std::string number(std::int64_t n) { return fmt::format("{}", n); }

/// Options that the command line and Megatron spell alike.
Options drawn(std::int64_t& world) {
  const int tp = *rc::gen::element(1, 2), pp = *rc::gen::element(1, 2, 4), cp = *rc::gen::element(1, 2);
  const bool has_experts = *rc::gen::element(false, false, true);
  world = std::int64_t{8} * tp * pp * cp;
  Options options{{"--tensor-model-parallel-size", number(tp)},
                  {"--pipeline-model-parallel-size", number(pp)},
                  {"--context-parallel-size", number(cp)},
                  {"--num-layers", "16"},
                  {"--hidden-size", number(512 * *rc::gen::inRange(1, 5))},
                  {"--num-attention-heads", "16"},
                  {"--vocab-size", *rc::gen::element<std::string>("1000", "50257")},
                  {"--seq-length", *rc::gen::element<std::string>("512", "4096")},
                  {"--max-position-embeddings", "4096"},
                  {"--micro-batch-size", number(*rc::gen::inRange(1, 5))},
                  {"--disable-bias-linear", ""},
                  {"--bf16", ""}};
  const auto maybe = [&](const std::string& name, const std::string& value = "") {
    if (*rc::gen::arbitrary<bool>()) options[name] = value;
  };
  maybe("--swiglu");
  maybe("--untie-embeddings-and-output-weights");
  maybe("--position-embedding-type", "rope");
  maybe("--no-create-attention-mask-in-dataloader");
  maybe("--cross-entropy-loss-fusion");
  maybe("--hidden-dropout", "0");
  if (cp == 1) maybe("--attention-backend", "unfused");
  if (tp > 1 && !has_experts) maybe("--sequence-parallel");
  if (*rc::gen::arbitrary<bool>()) options["--recompute-granularity"] = "selective";
  if (!has_experts) return options;
  if (tp > 1) options["--sequence-parallel"] = "";
  options["--num-experts"] = "8";
  options["--expert-model-parallel-size"] = number(*rc::gen::element(1, 2));
  options["--expert-tensor-parallel-size"] = "1";
  options["--moe-token-dispatcher-type"] = *rc::gen::element<std::string>("allgather", "alltoall");
  return options;
}

ordered_json memory_document(const std::string& words) {
  return ordered_json::parse(test::run("memory --format json " + words).out);
}

std::int64_t peak_of(const ordered_json& document) {
  std::int64_t most = 0;
  for (const auto& stage : document["stages"]) most = std::max(most, stage["peak_bytes"].get<std::int64_t>());
  return most;
}

/// Holds one change that is told for a run against the changed run. `judged` is the document of the options,
/// with this much memory.
template <typename Judged>
void hold_advice(const Options& options, const Judged& judged) {
  const std::int64_t peak = peak_of(judged(options, 0));
  const std::int64_t memory = peak / 100 * *rc::gen::inRange(40, 100);
  const ordered_json told = judged(options, memory)["advice"];
  RC_PRE(!told.empty());
  const ordered_json advice = told[*rc::gen::inRange<std::size_t>(0, told.size())];
  const std::string change = advice["options"];
  RC_LOG() << change << "\n" << text_of(options) << "\n";
  const ordered_json own = judged(with_change(options, change), memory);
  RC_ASSERT(own.contains("stages"));
  RC_ASSERT(peak_of(own) == advice["peak_bytes"].get<std::int64_t>());
  RC_ASSERT(own["fullest_pipeline_rank"] == advice["pipeline_rank"]);
  RC_ASSERT(own["fits"] == advice["fits"]);
  RC_ASSERT(peak_of(own) < peak);
}

std::string with_memory(std::int64_t world, std::int64_t memory) {
  return fmt::format("--world-size {} {}", world, memory > 0 ? fmt::format("--gpu-memory {} ", memory) : "");
}

RC_GTEST_PROP(MemoryAdvice, WhatIsToldForOptionsIsWhatTheyNeed, ()) {
  std::int64_t world = 0;
  Options options = drawn(world);
  if (*rc::gen::arbitrary<bool>()) options["--no-distributed-optimizer"] = "";
  hold_advice(options, [&](const Options& given, std::int64_t memory) {
    return memory_document(with_memory(world, memory) + text_of(given));
  });
}

/// A script without --global-batch-size has one microbatch on each replica, and another batch on another layout.
RC_GTEST_PROP(MemoryAdvice, WhatIsToldForAScriptIsWhatItNeeds, ()) {
  std::int64_t world = 0;
  Options options = drawn(world);
  if (*rc::gen::arbitrary<bool>()) options["--use-distributed-optimizer"] = "";
  if (*rc::gen::arbitrary<bool>()) options["--recompute-activations"] = "";
  if (*rc::gen::arbitrary<bool>()) options["--global-batch-size"] = "768";
  hold_advice(options, [&](const Options& given, std::int64_t memory) {
    const test::TemporaryFile file(
        "run.sh", "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun pretrain_gpt.py " + text_of(given) + "\n");
    return memory_document(with_memory(world, memory) + "--from " + file.path());
  });
}

}  // namespace
