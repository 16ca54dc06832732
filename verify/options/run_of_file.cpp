#include "verify/options/run_of_file.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "sim/base/refusals.h"
#include "verify/options/hybrid_pattern.h"
#include "verify/options/memory_arguments.h"
#include "verify/options/nearest_name.h"
#include "verify/options/option_vocabulary.h"
#include "verify/options/pipeline_chunks.h"
#include "verify/options/run_rule.h"
#include "verify/output/phrases.h"
#include "verify/run_arguments/argument_shapes.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/run_file.h"
#include "verify/run_arguments/shell_values.h"

namespace verify {

namespace {

bool is_used(const RunAccount& account, const std::string& name) {
  return std::any_of(account.used.begin(), account.used.end(),
                     [&](const AccountedArgument& argument) { return argument.name == name; });
}

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
  Options(const RunValues& values, const RunAccount& account, std::optional<std::int64_t> world,
          std::optional<std::int64_t> gpus_per_node)
      : values_(values), account_(account), world_(world), gpus_per_node_(gpus_per_node) {}

  Settings settings();
  std::vector<std::string> notes() const { return notes_; }

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
  const RunAccount& account_;
  std::optional<std::int64_t> world_;
  std::optional<std::int64_t> gpus_per_node_;
  Settings settings_;
  std::vector<std::string> notes_;
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

Settings Options::settings() {
  for (const AccountedArgument& argument : account_.used) {
    if (!is_option_of_memory(argument.name)) copy(argument.name);
  }
  if (world_) replace("world-size", fmt::format("{}", *world_));
  if (gpus_per_node_) set("gpus-per-node", *gpus_per_node_);
  layers();
  context();
  model();
  dtypes();
  batch();
  step();
  shards();
  memory();
  return std::move(settings_);
}

/// The option that gave the run, as refusals name it.
std::string option_of(const RunOfFile& run) {
  return run.path.empty() ? "--command" : "--from " + sim::printable_text(run.path);
}

/// The sizes that the name of a file says: tp2 and pp4 in "gpt3_mcore_tp2_pp4.sh".
std::vector<std::string> contradictions_of_name(const std::string& path, const RunValues& values) {
  const std::string name = path.substr(path.rfind('/') + 1);
  static constexpr std::pair<const char*, const char*> kSizesOfNames[] = {
      {"tp", "tensor-model-parallel-size"},
      {"pp", "pipeline-model-parallel-size"},
      {"cp", "context-parallel-size"},
      {"ep", "expert-model-parallel-size"}};
  std::vector<std::string> notes;
  for (const auto& [prefix, option] : kSizesOfNames) {
    for (std::size_t at = name.find(prefix); at != std::string::npos; at = name.find(prefix, at + 1)) {
      const bool begins = at == 0 || std::isalpha(static_cast<unsigned char>(name[at - 1])) == 0;
      std::size_t end = at + 2;
      while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
      const auto said = whole_number(std::string_view(name).substr(at + 2, end - at - 2));
      if (!begins || !said) continue;
      const std::int64_t given = values.number(option).value_or(1);
      if (given == *said) break;
      notes.push_back(fmt::format("the name of the file says {}{}, and its arguments say --{} {}", prefix,
                                  *said, option, given));
      break;
    }
  }
  return notes;
}

/// Returns why a value is not known, of a file or of the text of a command, and which variable of a similar
/// name has a value.
std::string reason_of(const RunOfFile& run, const Unresolved& unknown) {
  if (unknown.reason != kNotAssigned) return unknown.reason;
  constexpr std::size_t kShortest = 4;  // TP and PP are no misspelling of each other
  const bool is_long = unknown.variable.size() >= kShortest;
  const std::string similar = is_long ? nearest_name(unknown.variable, run.run.variables) : "";
  const std::string reason = run.path.empty() ? "it is not assigned in the command" : unknown.reason;
  return similar.empty() ? reason : fmt::format("{}, but {} is", reason, sim::printable_text(similar));
}

void keep_unresolved(const RunOfFile& run, const Settings& command_line, sim::Refusals& refusals) {
  std::string what;
  bool is_of_world = false;
  std::vector<std::string> variables;
  for (const Unresolved& unknown : run.run.unresolved) {
    if (unknown.argument.empty()) continue;  // it may hold further arguments, which are listed
    const bool counts =
        unknown.is_of_world || is_used(run.account, unknown.argument) || is_hybrid_pattern(unknown.argument);
    if (!counts || command_line.has(unknown.is_of_world ? "world-size" : unknown.argument)) continue;
    const std::string text = sim::printable_text(unknown.text.substr(0, 80));
    const std::string option = text.starts_with("--") ? text : fmt::format("--{} {}", unknown.argument, text);
    what += fmt::format("{}line {}: {}, {}", what.empty() ? "" : "; ", unknown.line, option,
                        reason_of(run, unknown));
    is_of_world = is_of_world || unknown.is_of_world;
    const bool is_new = std::find(variables.begin(), variables.end(), unknown.variable) == variables.end();
    if (!unknown.variable.empty() && is_new) variables.push_back(unknown.variable);
  }
  if (what.empty()) return;
  refusals.keep([&] {
    sim::refuse(
        {.code = "run_unresolved",
         .option = option_of(run),
         .numbers = what,
         .rule = fmt::format("nothing is executed: the value of an argument that is used must be in the {}",
                             run.path.empty() ? "command" : "file"),
         .hint = variables.empty() && is_of_world ? "--world-size N"
                 : variables.empty()              ? "the argument on the command line"
                                     : fmt::format("--set {}=VALUE", fmt::join(variables, "=VALUE --set "))});
  });
}

RunVariables requested_variables(const Settings& line) {
  RunVariables variables;
  for (const std::string& given : line.given("set")) {
    const std::size_t equals = given.find('=');
    if (equals == std::string::npos || equals == 0) {
      sim::refuse({.code = "bad_set",
                   .option = "--set",
                   .numbers = fmt::format("'{}'", given),
                   .rule = "--set gives a variable of the script or command that is read its value",
                   .hint = "--set NNODES=16"});
    }
    variables[given.substr(0, equals)] = given.substr(equals + 1);
  }
  return variables;
}

/// Refuses an option that is about a run, where none is given.
[[noreturn]] void refuse_without_run(const std::string& option) {
  sim::refuse({.code = "option_without_effect",
               .option = "--" + option,
               .numbers = "neither --from nor a command behind '--' is given",
               .rule = "an option that a command would not read is refused",
               .hint = "--from FILE, or the command of the run behind '--'"});
}

/// Reads the text of --command. Its readers refuse texts of --from, and so name that option.
RunArguments read_command(const std::string& text, const RunVariables& variables) {
  sim::Refusals refusals;
  const auto keep_named = [&](sim::Refusal refusal) {
    if (refusal.option == "--from") refusal.option = "--command";
    refusals.keep([&] { sim::refuse(std::move(refusal)); });
  };
  try {
    return read_run_text(text, variables);
  } catch (const sim::Error& error) {
    keep_named(error.refusal());
    for (sim::Refusal& further : sim::further_refusals(error)) keep_named(std::move(further));
  }
  refusals.throw_if_any();
  return {};
}

/// Lists an argument with the number of ranks as one without effect where a launcher gives the number.
RunAccount account_under_launcher(const RunValues& values, const RunArguments& run) {
  RunAccount account = account_of(values);
  const auto found = std::ranges::find(account.used, "world-size", &AccountedArgument::name);
  if (run.kind == RunFileKind::log || !run.world_size || found == account.used.end()) return account;
  AccountedArgument argument = std::move(*found);
  argument.sentence = "the launcher gives the number of ranks";
  account.used.erase(found);
  const auto place =
      std::ranges::lower_bound(account.without_effect, argument.name, {}, &AccountedArgument::name);
  account.without_effect.insert(place, std::move(argument));
  return account;
}

/// Makes of the arguments that are judged all that follows from them.
void derive(RunOfFile& run, std::optional<std::int64_t> world_size) {
  const std::optional<std::int64_t>& of_file = run.run.world_size;
  run.judged_account = account_under_launcher(run.judged, run.run);
  Options options(run.judged, run.judged_account, world_size ? world_size : of_file, run.run.gpus_per_node);
  run.settings = options.settings();
  run.notes = run.run.notes;
  for (const std::vector<std::string>& more : {options.notes(), contradictions_of_name(run.path, run.values)})
    run.notes.insert(run.notes.end(), more.begin(), more.end());
  if (world_size && of_file && *world_size != *of_file)
    run.notes.push_back(fmt::format("--world-size {} of the command line replaces {}: {}", *world_size,
                                    *of_file, run.run.world_size_source));
}

/// Arguments of another name that say what an option says.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"num-layers", "encoder-num-layers"},
    {"seq-length", "encoder-seq-length"},
    {"vocab-size", "padded-vocab-size"},
    {"recompute-granularity", "recompute-activations"},
    {"recompute-granularity", "checkpoint-activations"},
    {"micro-batch-size", "batch-size"},
    {"tensor-model-parallel-size", "model-parallel-size"},
    {"position-embedding-type", "use-rotary-position-embeddings"}};

/// Whether an option stands for an argument of its name that is judged.
bool stands_for_argument(const OptionInfo& option) {
  const ArgumentRow* row = find_argument(option.name);
  return row != nullptr && (row->use == ArgumentUse::used || is_option_of_memory(option.name));
}

/// Gives the argument of an option's name the value that the option has.
void replace_argument(const OptionInfo& option, const Settings& settings, RunValues& values) {
  for (const auto& [name, other] : kOtherNames)
    if (option.name == std::string_view(name)) values.remove(other);
  const bool is_flag = option.kind == OptionKind::flag;
  if (!settings.has(option.name) || (is_flag && settings.text(option.name, "") == "false")) {
    values.remove(option.name);
  } else {
    values.replace(option.name, is_flag ? std::vector<std::string>() : settings.given(option.name));
  }
}

}  // namespace

RunOfFile run_of(const std::string& path, RunArguments run, std::optional<std::int64_t> world_size) {
  RunValues values(run);
  RunAccount account = account_under_launcher(values, run);
  RunOfFile made{.path = path,
                 .run = std::move(run),
                 .values = values,
                 .account = std::move(account),
                 .judged = std::move(values),
                 .judged_account = {},
                 .settings = {},
                 .notes = {}};
  derive(made, world_size);
  return made;
}

RunOfFile with_options(const RunOfFile& run, const Settings& settings) {
  RunOfFile changed = run;
  for (const OptionInfo& option : option_vocabulary()) {
    if (stands_for_argument(option) && settings.given(option.name) != run.settings.given(option.name))
      replace_argument(option, settings, changed.judged);
  }
  derive(changed, settings.number("world-size"));
  return changed;
}

Settings with_decreased_batch(const RunOfFile& run, Settings options) {
  if (!run.judged.flag("decrease-batch-size-if-needed") || !run.settings.has("global-batch-size"))
    return options;
  options.remove("global-batch-size");
  options.append("global-batch-size", run.settings.given("global-batch-size"));
  return options;
}

bool adds_nothing_that_counts(const Unresolved& unknown) {
  const std::size_t sign = unknown.text.find("+=");
  const bool is_cut = unknown.text.ends_with(" ...");
  const bool is_appended = unknown.reason.starts_with("it is appended in a branch");
  if (sign == std::string::npos || is_cut || !is_appended) return false;
  std::istringstream text(unknown.text.substr(sign + 2));
  bool awaits_value = false, has_flag = false;
  for (std::string word; text >> word;) {
    if (word.starts_with("--")) {
      const std::string name = run_argument_name(word.substr(0, word.find('=')));
      const ArgumentRow* row = find_argument(name);
      if (row == nullptr || row->use != ArgumentUse::without_effect) return false;
      awaits_value = shape_of_argument(name) != ArgumentShape::flag && word.find('=') == std::string::npos;
      has_flag = true;
      continue;
    }
    // A word that is no value, or is not known, may be more than one.
    if (!awaits_value || word.find_first_of("$`;|&") != std::string::npos) return false;
    awaits_value = false;
  }
  return has_flag;
}

void require_known_words(const RunOfFile& run) {
  constexpr std::size_t kMostTold = 3;
  std::vector<std::string> words;
  std::vector<std::string> variables;
  for (const Unresolved& unknown : run.run.unresolved) {
    if (!unknown.argument.empty() || unknown.is_of_world || adds_nothing_that_counts(unknown)) continue;
    words.push_back(fmt::format("line {}: {}, {}", unknown.line,
                                sim::printable_text(unknown.text.substr(0, 80)), reason_of(run, unknown)));
    const bool is_new = std::ranges::find(variables, unknown.variable) == variables.end();
    if (!unknown.variable.empty() && is_new) variables.push_back(unknown.variable);
  }
  if (words.empty()) return;
  const std::size_t told = std::min(words.size(), kMostTold);
  const std::string more = words.size() == told ? "" : fmt::format("; and {} more", words.size() - told);
  words.resize(told);
  sim::refuse({.code = "run_unresolved",
               .option = option_of(run),
               .numbers = fmt::format("{}{}", fmt::join(words, "; "), more),
               .rule =
                   "the word may hold further arguments, and nothing is executed: what else is refused may "
                   "follow from that",
               .hint = variables.empty() ? "these arguments in the place of the word"
                                         : fmt::format("--set {}=VALUE, and no VALUE where it is not set",
                                                       fmt::join(variables, "=VALUE --set "))});
}

void require_judgeable(const RunOfFile& run, const Settings& command_line) {
  sim::Refusals refusals;
  keep_unresolved(run, command_line, refusals);
  refusals.throw_if_any();
}

void require_modelled(const RunOfFile& run, Unproved what) {
  const std::string reason = not_proved(run.judged_account, what);
  if (reason.empty()) return;
  sim::refuse({.code = "run_not_modelled",
               .option = reason.substr(0, reason.find(':')),
               .numbers = reason.substr(reason.find(':') + 2),
               .rule = fmt::format("{} are judged where they are as Megatron makes them",
                                   what == Unproved::groups ? "groups of ranks" : "layers"),
               .hint = "the run without this argument"});
}

std::string source_name(const RunOfFile& run) {
  if (run.path.empty()) return "the command";
  return run.path == kStandardInput ? "standard input" : sim::printable_text(run.path);
}

std::shared_ptr<const RunOfFile> requested_run(const Settings& line) {
  const bool is_command = line.has("command");
  if (!line.has("from") && !is_command) {
    for (const char* option : {"set", "from-as"})
      if (line.has(option)) refuse_without_run(option);
    return nullptr;
  }
  if (line.has("from") && is_command) {
    sim::refuse({.code = "two_runs",
                 .option = "--from, --command",
                 .numbers = "both are given",
                 .rule = "the options of one run are read, from a file or from a command line",
                 .hint = "one of them, and options of this program for what differs"});
  }
  const std::string path = line.text("from", "");
  const auto world = line.number("world-size");
  const RunVariables variables = requested_variables(line);
  RunArguments arguments =
      is_command ? read_command(line.text("command", ""), variables) : read_run_file(path, variables);
  if (arguments.kind == RunFileKind::log && !variables.empty()) {
    sim::refuse({.code = "bad_set",
                 .option = fmt::format("--set {}", variables.begin()->first),
                 .numbers = "the file is a log",
                 .rule = "a log has the values of all arguments, and no variables",
                 .hint = "the argument on the command line"});
  }
  const RunOfFile run = run_of(path, std::move(arguments), world);
  return std::make_shared<const RunOfFile>(with_options(run, run.settings.overridden_by(line)));
}

}  // namespace verify
