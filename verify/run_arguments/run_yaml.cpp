#include "verify/run_arguments/run_yaml.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/run_manifest.h"
#include "verify/run_arguments/run_script.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

constexpr const char* kSection = "MODEL_ARGS";
constexpr const char* kEnvironment = "ENV_VARS";
/// The sections of a configuration of FlagScale, which makes an argument of each key in them, however deep.
constexpr std::array<std::string_view, 3> kSectionsOfFlagScale = {"system", "model", "data"};

int line_of(const YAML::Mark& mark) { return mark.line + 1; }

/// Collects the scalars of the map MODEL_ARGS, and those of the outermost map, as the parser meets them.
class Arguments : public YAML::EventHandler {
 public:
  std::vector<RunArgument> section;
  std::vector<RunArgument> outermost;
  std::map<std::string, std::string> environment;
  bool has_section = false;
  std::vector<RunArgument> of_flagscale;     // those of the sections of FlagScale
  std::set<std::string> flagscale_sections;  // those that are there
  std::optional<RunArgument> nested;  // the first argument in another section, with the name of the section
  std::string nested_sizes;           // the sizes of groups there, as options: " --context-parallel-size 2"

  /// The parser begins the same document again, for ever, at text that it cannot take.
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == document_) throw YAML::ParserException(mark, "text that is no document");
    document_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { take("null", line_of(mark)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    sim::refuse({.code = "run_yaml_alias",
                 .option = fmt::format("line {}", line_of(mark)),
                 .numbers = "an alias of an anchor",
                 .rule = "each argument is written out",
                 .hint = "the value in the place of the alias"});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    take(value, line_of(mark));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    enter(false, line_of(mark));
  }
  void OnSequenceEnd() override { leave(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    enter(true, line_of(mark));
  }
  void OnMapEnd() override { leave(); }

 private:
  struct Level {
    bool is_map = false;
    bool has_key = false;  // the next event is a value
    std::string key;
    int key_line = 0;
  };

  /// The list that values of the current level belong to; null where they are not arguments.
  std::vector<RunArgument>* target() {
    const std::size_t depth = levels_.size() - (levels_.back().is_map ? 0 : 1);
    if (depth == 0 || !levels_[depth - 1].is_map) return nullptr;
    if (depth == 1) return &outermost;
    return depth == 2 && levels_[0].is_map && levels_[0].key == kSection ? &section : nullptr;
  }

  void take(const std::string& value, int line) {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (level.is_map && !level.has_key) {
      level.key = value;
      level.key_line = line;
      level.has_key = true;
      return;
    }
    std::vector<RunArgument>* list = target();
    if (is_of_flagscale_section()) take_of_flagscale(level, value);
    if (level.is_map) {
      level.has_key = false;
      if (levels_.size() == 2 && levels_[0].is_map && levels_[0].key == kEnvironment)
        environment[level.key] = value;
      if (list != nullptr) add(*list, {run_argument_name(level.key), {value}, level.key_line});
      if (!nested && list == nullptr && is_used(level.key) && levels_[0].is_map)
        nested = {run_argument_name(level.key), {levels_[0].key}, level.key_line};
      if (list == nullptr) keep_nested_size(run_argument_name(level.key), value);
    } else if (list != nullptr && !list->empty()) {
      list->back().values.push_back(value);
    }
  }

  void enter(bool is_map, int line) {
    if (!levels_.empty() && levels_.back().is_map && !levels_.back().has_key) {
      levels_.back().key.clear();  // a key that is no scalar
      levels_.back().has_key = true;
    }
    levels_.push_back({is_map, false, {}, line});
    if (is_map) {
      has_section = has_section || (levels_.size() == 2 && levels_[0].key == kSection);
      return;
    }
    if (levels_.size() < 2) return;
    std::vector<RunArgument>* list = target();
    const Level& map = levels_[levels_.size() - 2];
    if (is_of_flagscale_section() && map.is_map)
      add(of_flagscale, {run_argument_name(map.key), {}, map.key_line});
    if (list != nullptr && map.is_map) add(*list, {run_argument_name(map.key), {}, map.key_line});
  }

  void leave() {
    levels_.pop_back();
    if (!levels_.empty()) levels_.back().has_key = false;
  }

  bool is_of_flagscale_section() const {
    return levels_.size() >= 2 && levels_[0].is_map && levels_[1].is_map &&
           std::ranges::find(kSectionsOfFlagScale, levels_[0].key) != kSectionsOfFlagScale.end();
  }

  void take_of_flagscale(const Level& level, const std::string& value) {
    flagscale_sections.insert(levels_[0].key);
    if (level.is_map && value != "null")
      add(of_flagscale, {run_argument_name(level.key), {value}, level.key_line});
    if (!level.is_map && !of_flagscale.empty()) of_flagscale.back().values.push_back(value);
  }

  void keep_nested_size(const std::string& name, const std::string& value) {
    constexpr std::string_view kSize = "-parallel-size";
    if (!name.ends_with(kSize) || !is_used(name) || !whole_number(value)) return;
    const std::string option = fmt::format(" --{} ", name);
    if (nested_sizes.find(option) == std::string::npos) nested_sizes += option + value;
  }

  static bool is_used(const std::string& key) {
    const ArgumentRow* row = find_argument(run_argument_name(key));
    return row != nullptr && row->use == ArgumentUse::used;
  }

  static void add(std::vector<RunArgument>& list, RunArgument argument) {
    if (list.size() == kMostRunArguments) {
      sim::refuse({.code = "run_file_size",
                   .option = fmt::format("line {}", argument.line),
                   .numbers = fmt::format("more than {} arguments", kMostRunArguments),
                   .rule = "Megatron has several hundred arguments",
                   .hint = "a file with the arguments of one run"});
    }
    list.push_back(std::move(argument));
  }

  std::vector<Level> levels_;
  int document_ = -1;  // where the current one begins
};

/// The sizes of a layout in a configuration of GPT-NeoX, and Megatron's names for them.
constexpr std::array<std::pair<const char*, const char*>, 2> kSizesOfNeox = {{
    {"model-parallel-size", "tensor-model-parallel-size"},
    {"pipe-parallel-size", "pipeline-model-parallel-size"},
}};

/// Refuses a configuration of DeepSpeed, which says nothing of the model and its layout.
void require_no_deepspeed(const std::vector<RunArgument>& given) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(given, name, &RunArgument::name) != given.end();
  };
  const bool is_of_deepspeed =
      has("train-micro-batch-size-per-gpu") || has("train-batch-size") || has("gradient-accumulation-steps");
  if (!is_of_deepspeed || has("num-layers") || has("pipe-parallel-size")) return;
  sim::refuse({.code = "run_deepspeed_config",
               .option = "--from",
               .numbers = "a configuration of DeepSpeed, which --deepspeed_config names",
               .rule =
                   "the sizes of the model and of its groups are arguments of the command that starts the "
                   "run",
               .hint = "the launch script, whose arguments have --deepspeed_config"});
}

/// Refuses a configuration of GPT-NeoX, whose keys look like Megatron's arguments and mostly are none.
void require_no_neox(const std::vector<RunArgument>& given) {
  const auto of = [&](std::string_view name) { return std::ranges::find(given, name, &RunArgument::name); };
  if (of("pipe-parallel-size") == given.end() && of("train-micro-batch-size-per-gpu") == given.end()) return;
  std::string sizes;
  for (const auto& [name, option] : kSizesOfNeox) {
    const auto argument = of(name);
    const auto size = argument == given.end() || argument->values.empty()
                          ? std::nullopt
                          : whole_number(argument->values.front());
    if (size) sizes += fmt::format(" --{} {}", option, std::max<std::int64_t>(*size, 1));
  }
  sim::refuse({.code = "run_yaml_neox",
               .option = "--from",
               .numbers = "YAML with keys of GPT-NeoX",
               .rule = "YAML holds Megatron's own arguments",
               .hint = fmt::format("the layout on the command line, as in --world-size N{}", sizes)});
}

/// Gives variables in values their values. Those that have none are unresolved.
void expand_variables(RunArguments& run, const RunVariables& set) {
  ShellValues values(set);
  for (const auto& [name, value] : run.environment) values.define(name, value, 0);
  for (RunArgument& argument : run.given) {
    for (std::string& value : argument.values) {
      if (value.find('$') == std::string::npos) continue;
      const ShellField expanded = values.whole(parse_document(value, argument.line));
      for (Unresolved& unknown : values.unresolved(expanded.text)) {
        unknown.argument = argument.name;
        run.unresolved.push_back(std::move(unknown));
      }
      value = values.shown(expanded.text);
    }
  }
}

bool is_configuration_of_flagscale(const Arguments& arguments) {
  const std::set<std::string>& sections = arguments.flagscale_sections;
  const bool has_sizes = std::ranges::any_of(arguments.of_flagscale, [](const RunArgument& argument) {
    return argument.name == "num-layers" || argument.name == "tensor-model-parallel-size";
  });
  return !arguments.has_section && sections.contains("system") && sections.contains("model") && has_sizes;
}

RunArguments arguments_of_flagscale(Arguments arguments, const RunVariables& set) {
  RunArguments run{.kind = RunFileKind::yaml, .given = std::move(arguments.of_flagscale)};
  expand_variables(run, set);
  run.notes.emplace_back(
      "the sections system, model and data are read as FlagScale makes arguments of them: one of each key, "
      "and "
      "none of the names of sections; its experiment gives the number of ranks");
  return run;
}

/// Reads the commands of a manifest. What torchrun's command does not say of the world, the operator of the
/// job gives it in variables.
RunArguments read_manifest(const std::string& script, const RunVariables& set) {
  RunArguments run = read_run_script(script, set);
  run.notes.emplace_back("the commands of the containers in the manifest are read");
  const std::string& source = run.world_size_source;
  const bool is_whole =
      source.find(" x ") != std::string::npos || script.find("--standalone") != std::string::npos;
  if (source.find("torchrun") == std::string::npos || is_whole) return run;
  run.notes.push_back(fmt::format("{} is not the number of ranks where an operator adds nodes", source));
  run.world_size.reset();
  run.world_size_source.clear();
  return run;
}

}  // namespace

RunArguments read_run_yaml(std::string_view text, const RunVariables& set) {
  std::istringstream stream{std::string(text)};
  Arguments arguments;
  try {
    YAML::Parser parser(stream);
    while (!arguments.has_section && parser.HandleNextDocument(arguments)) {
    }
  } catch (const YAML::Exception& error) {
    const bool is_too_deep =
        dynamic_cast<const YAML::DeepRecursion*>(&error) != nullptr;  // it says "bad file"
    sim::refuse({.code = "run_yaml_syntax",
                 .option = fmt::format("line {}", line_of(error.mark)),
                 .numbers = is_too_deep ? "nested too deep" : sim::printable_text(error.msg),
                 .rule = "the text is YAML",
                 .hint = "a map of flags: '--num-layers: 12'"});
  }
  if (is_configuration_of_flagscale(arguments)) return arguments_of_flagscale(std::move(arguments), set);
  if (!arguments.has_section && arguments.nested) {
    sim::refuse(
        {.code = "run_yaml_nested",
         .option = fmt::format("line {}", arguments.nested->line),
         .numbers = fmt::format("{} in the section '{}'", arguments.nested->name,
                                sim::printable_text(arguments.nested->values.front())),
         .rule = "YAML holds the flags in MODEL_ARGS, or is a flat map of flags",
         .hint = fmt::format("the log of the run, which has all arguments{}",
                             arguments.nested_sizes.empty()
                                 ? ""
                                 : fmt::format(", or the layout on the command line, as in --world-size "
                                               "N{}",
                                               arguments.nested_sizes))});
  }
  RunArguments run{
      .kind = RunFileKind::yaml,
      .given = arguments.has_section ? std::move(arguments.section) : std::move(arguments.outermost)};
  run.environment = std::move(arguments.environment);
  require_no_deepspeed(run.given);
  require_no_neox(run.given);
  expand_variables(run, set);
  const auto is_known = [](const RunArgument& argument) { return find_argument(argument.name) != nullptr; };
  if (std::ranges::any_of(run.given, is_known)) return run;
  if (const std::string script = script_of_manifest(text); !script.empty()) return read_manifest(script, set);
  if (run.given.empty()) {
    sim::refuse({.code = "run_without_arguments",
                 .option = "--from",
                 .numbers = "YAML without a map MODEL_ARGS and without flags at its outermost level",
                 .rule = "YAML holds the flags in MODEL_ARGS, or is a flat map of flags",
                 .hint = "MODEL_ARGS:, and below it '--num-layers: 12'"});
  }
  sim::refuse({.code = "run_without_arguments",
               .option = "--from",
               .numbers = fmt::format("YAML with keys such as '{}', and none of an argument of Megatron",
                                      sim::printable_text(run.given.front().name)),
               .rule = "YAML holds the flags in MODEL_ARGS, or is a flat map of flags",
               .hint = "the command line that the job runs, as a text file"});
}

}  // namespace verify
