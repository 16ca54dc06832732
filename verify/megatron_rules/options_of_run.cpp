#include "verify/megatron_rules/options_of_run.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <utility>

#include "verify/megatron_rules/effective_values.h"
#include "verify/megatron_rules/memory_arguments.h"
#include "verify/output/phrases.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/hybrid_pattern.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/pipeline_chunks.h"

namespace verify {

namespace {

/// Returns a dtype as Megatron's arguments spell it, where a log has the name that PyTorch gives it.
std::string argument_of_dtype(const std::string& word) {
  static constexpr std::pair<const char*, const char*> kNames[] = {{"torch.float32", "fp32"},
                                                                   {"torch.float16", "fp16"},
                                                                   {"torch.bfloat16", "bf16"},
                                                                   {"torch.uint8", "fp8"}};
  for (const auto& [name, argument] : kNames)
    if (word == name) return argument;
  return word;
}

/// The makers of the options that have another name or form than the argument.
class Options {
 public:
  explicit Options(RunOfFile& run)
      : values_(run.values), world_(run.document.world_size), settings_(run.settings), notes_(run.notes) {}

  void add(const RunOfFile& run);

 private:
  void set(const char* option, const std::string& value) { settings_.append(option, {value}); }
  void set(const char* option, std::int64_t value) { set(option, fmt::format("{}", value)); }
  void copy(const std::string& name);
  void replace(const char* option, const std::string& value) {
    settings_.remove(option);
    set(option, value);
  }

  void layers();
  void context();
  void gate_by_gelu();
  void model();
  void experts_of_deepspeed();
  void vocabulary();
  void dtypes();
  void batch();
  void step();
  void shards();
  void memory();
  std::int64_t number(const char* name, std::int64_t fallback) const {
    return values_.number(name).value_or(fallback);
  }

  const RunValues& values_;
  const std::optional<std::int64_t> world_;
  Settings& settings_;
  std::vector<std::string>& notes_;
};

/// Copies an argument to the option of its name.
void Options::copy(const std::string& name) {
  const OptionInfo* option = find_option(name);
  if (option == nullptr) return;
  const std::vector<std::string> words = values_.words(name);
  if (option->kind == OptionKind::flag) {
    settings_.append(name, {words.empty() ? "true" : words.front()});
  } else if (option->kind == OptionKind::numbers || option->kind == OptionKind::words) {
    settings_.append(name, words);
  } else if (option->kind == OptionKind::text && words.size() > 1) {
    settings_.append(name, {fmt::format("[{}]", fmt::join(words, ","))});  // a list of Python
  } else {
    settings_.append(name, {values_.text(name)});
  }
}

void Options::layers() {
  if (!values_.has("num-layers") && values_.has("encoder-num-layers"))
    replace("num-layers", values_.text("encoder-num-layers"));
  const std::string pattern = values_.text("hybrid-layer-pattern", values_.text("hybrid-override-pattern"));
  if (!pattern.empty()) replace("num-layers", fmt::format("{}", parse_hybrid_pattern(pattern).layers()));
  // The pattern is no option: its segments are the chunks of an interleaved schedule.
  const auto chunks = pattern.empty() ? std::nullopt : chunks_of_rank(values_);
  if (chunks && number("pipeline-model-parallel-size", 1) > 1)
    replace("virtual-pipeline-model-parallel-size", fmt::format("{}", *chunks));
  // A log also has the number of chunks that Megatron derived.
  const bool says_chunks = values_.has("num-layers-per-virtual-pipeline-stage") ||
                           values_.has("num-virtual-stages-per-pipeline-rank") ||
                           values_.has("pipeline-model-parallel-layout");
  if (says_chunks) settings_.remove("virtual-pipeline-model-parallel-size");
  if (values_.number("mtp-num-layers") == 0) settings_.remove("mtp-num-layers");
}

/// Megatron reads how attention communicates over context-parallel ranks where there are several. Sparse
/// attention (dsa) takes other spellings of one way.
void Options::context() {
  if (!settings_.has("cp-comm-type")) return;
  std::vector<std::string> kinds = settings_.given("cp-comm-type");
  settings_.remove("cp-comm-type");
  if (number("context-parallel-size", 1) <= 1) return;
  if (values_.text("experimental-attention-variant") == "dsa")
    std::ranges::replace_if(kinds, gathers_tokens, std::string("all_gather"));
  settings_.append("cp-comm-type", kinds);
}

void Options::vocabulary() {
  if (const auto given = values_.number("vocab-size"); given && *given < 1) settings_.remove("vocab-size");
  if (number("make-vocab-size-divisible-by", 1) < 1) settings_.remove("make-vocab-size-divisible-by");
  const auto padded = values_.number("padded-vocab-size");
  if (!padded || *padded < 1) return;
  replace("vocab-size", fmt::format("{}", *padded));
  replace("make-vocab-size-divisible-by", "1");
}

/// Megatron-DeepSpeed takes numbers of experts layer by layer, and one expert is a dense layer.
void Options::experts_of_deepspeed() {
  if (const auto ranks = values_.number("moe-expert-parallel-size"); ranks && *ranks > 1) {
    notes_.push_back(fmt::format(
        "--moe-expert-parallel-size {}: the groups that DeepSpeed makes for experts are not shown", *ranks));
  }
  const std::vector<std::string> numbers = values_.words("num-experts");
  const bool is_dense = std::ranges::all_of(numbers, [](const std::string& word) { return word == "1"; });
  if (!values_.has("deepspeed") || (numbers.size() == 1 && !is_dense)) return;
  settings_.remove("num-experts");
  if (is_dense) return;
  notes_.push_back(fmt::format("--num-experts {}: experts that differ from layer to layer are not shown",
                               fmt::join(numbers, " ")));
}

/// A run is in bf16 only where it says so.
void Options::dtypes() {
  if (!values_.flag("bf16")) replace("bf16", "false");
  for (const char* name : {"main-grads-dtype", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype"})
    if (settings_.has(name)) replace(name, argument_of_dtype(values_.text(name)));
}

/// The gate of --quick-geglu has the sizes of SwiGLU's, but not its usual F. Its kernel comes with the biases
/// of --bias-gelu-fusion.
void Options::gate_by_gelu() {
  const auto hidden = product_of({4, number("hidden-size", 0)});
  if (!values_.has("ffn-hidden-size") && hidden && *hidden > 0) set("ffn-hidden-size", *hidden);
  replace("swiglu", "true");
  if (values_.flag("no-bias-gelu-fusion") || values_.flag("disable-bias-linear"))
    replace("no-bias-swiglu-fusion", "true");
}

void Options::model() {
  experts_of_deepspeed();
  vocabulary();
  if (!values_.has("seq-length") && values_.has("encoder-seq-length"))
    replace("seq-length", values_.text("encoder-seq-length"));
  if (!values_.flag("group-query-attention")) {
    if (values_.has("num-query-groups") && values_.number("num-query-groups") != std::int64_t{1}) {
      notes_.push_back(fmt::format("--num-query-groups {} has no effect without --group-query-attention",
                                   values_.text("num-query-groups")));
    }
    settings_.remove("num-query-groups");
  }
  if (values_.flag("quick-geglu")) gate_by_gelu();
  if (values_.flag("use-rotary-position-embeddings")) replace("position-embedding-type", "rope");
  // Positions of all other types have no parameters that are learned.
  const std::string positions = values_.text("position-embedding-type");
  const bool is_known = positions != "" && positions.find('$') == std::string::npos;
  if (is_known && positions != "learned_absolute") replace("position-embedding-type", "rope");
  if (settings_.text("seq-length", "") == "0") {
    notes_.emplace_back("--seq-length 0: Megatron takes it, and a sequence of no tokens is no training");
    settings_.remove("seq-length");
  }
  for (const char* size : {"num-experts", "moe-router-group-topk"})
    if (values_.number(size) == 0) settings_.remove(size);
}

/// The batch of --decrease-batch-size-if-needed is the next smaller one that the replicas can share. A run
/// without a batch has one microbatch on each replica.
void Options::batch() {
  const auto global = values_.number("global-batch-size"), micro = values_.number("micro-batch-size");
  const auto grid =
      product_of({number("tensor-model-parallel-size", 1), number("pipeline-model-parallel-size", 1),
                  number("context-parallel-size", 1)});
  if (!micro || *micro < 1 || !world_ || !grid || *grid < 1 || *world_ < *grid) return;
  const std::int64_t replicas = *world_ / *grid;
  const auto round = product_of({*micro, replicas});
  if (!round) return;
  const bool is_missing = !values_.has("global-batch-size") && !values_.has("step-batch-size-schedule") &&
                          !values_.has("num-microbatches");
  if (is_missing && *world_ % *grid == 0) {
    set("global-batch-size", *round);
    notes_.push_back(
        fmt::format("without --global-batch-size Megatron takes {}: one microbatch on each of {}", *round,
                    counted(replicas, "replica")));
  }
  if (!values_.flag("decrease-batch-size-if-needed") || !global) return;
  settings_.remove("global-batch-size");
  if (*global >= *round) set("global-batch-size", *global / *round * *round);
}

void Options::step() {
  // Megatron refuses --moe-layer-recompute beside full recomputation.
  const bool is_full = values_.text("recompute-granularity") == "full";
  const bool selects = values_.flag("moe-layer-recompute") && !is_full;
  if (selects || values_.flag("recompute-activations")) replace("recompute-granularity", "selective");
  if (selects && !values_.has("recompute-granularity")) {
    // It becomes selective when Megatron has checked the method and the number of layers.
    settings_.remove("recompute-method");
    settings_.remove("recompute-num-layers");
  }
  if (values_.flag("apply-query-key-layer-scaling")) replace("attention-softmax-in-fp32", "true");
  const bool has_tp = values_.has("tensor-model-parallel-size");
  const auto tp = values_.number("tensor-model-parallel-size");
  if (values_.flag("sequence-parallel") && (!has_tp || tp == std::int64_t{1}))
    notes_.emplace_back("--sequence-parallel has no effect with tp 1: Megatron turns it off");
}

/// What the command shards reads: the ranks that share a bucket, and the options of the buckets.
void Options::shards() {
  if (const auto size = values_.number("ddp-bucket-size"); size && *size > 0) {
    set("bucket-size", *size);
  } else {
    settings_.remove("ddp-bucket-size");
  }
  if (values_.flag("ddp-pad-buckets-for-high-nccl-busbw")) set("pad-buckets-for-high-nccl-busbw", "true");
  if (!values_.flag("use-distributed-optimizer")) set("no-distributed-optimizer", "true");
  const auto model_parallel =
      product_of({std::max<std::int64_t>(1, number("tensor-model-parallel-size", 1)),
                  std::max<std::int64_t>(1, number("pipeline-model-parallel-size", 1))});
  if (world_ && model_parallel && *world_ % *model_parallel == 0 && *world_ >= *model_parallel)
    set("data-parallel-size", *world_ / *model_parallel);
}

/// What only the count of memory reads, where the file says it; it is not judged elsewhere.
void Options::memory() {
  for (const auto& [name, value] : values_.all()) {
    const bool is_known = value.words.empty() || value.words.front().find('$') == std::string::npos;
    if (!is_option_of_memory(name) || !is_known) continue;
    copy(name);
    // A log spells the choice as Python does: AttnBackend.flash.
    const std::string word = settings_.text(name, "");
    if (const std::size_t dot = word.rfind("Backend."); dot != std::string::npos)
      replace(name.c_str(), word.substr(dot + std::string_view("Backend.").size()));
  }
  if (values_.flag("moe-layer-recompute")) {
    std::vector<std::string> modules = {"core_attn"};
    if (settings_.has("recompute-modules")) modules = settings_.given("recompute-modules");
    modules.emplace_back("moe");
    settings_.remove("recompute-modules");
    settings_.append("recompute-modules", modules);
  }
  if (values_.has("use-flash-attn") && !values_.has("attention-backend")) set("attention-backend", "flash");
}

void Options::add(const RunOfFile& run) {
  for (const AccountedArgument& argument : run.account.used) {
    if (!is_option_of_memory(argument.name)) copy(argument.name);
  }
  if (world_) replace("world-size", fmt::format("{}", *world_));
  if (run.document.gpus_per_node) set("gpus-per-node", *run.document.gpus_per_node);
  layers();
  context();
  model();
  dtypes();
  batch();
  step();
  shards();
  memory();
}

}  // namespace

void add_options(RunOfFile& run) { Options(run).add(run); }

}  // namespace verify
