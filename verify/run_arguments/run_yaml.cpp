#include "verify/run_arguments/run_yaml.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/printable_text.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/dialects.h"
#include "verify/run_arguments/run_manifest.h"
#include "verify/run_arguments/run_script.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"
#include "verify/run_arguments/yaml_tree.h"

namespace verify {

namespace {

constexpr const char* kSection = "MODEL_ARGS";
constexpr const char* kEnvironment = "ENV_VARS";
/// Where a config.json has what belongs to the layers of a text model.
constexpr std::array<std::string_view, 4> kTextSections = {"text_config", "llm_config", "language_config",
                                                           "rope_parameters"};
constexpr std::size_t kMostNamed = 12;

/// Calls `take(path, entry)` for each entry that is no map, with the path of the maps around it.
using Take = std::function<void(const std::string& path, const YamlEntry& entry)>;
void visit(const YamlNode& node, const std::string& path, const Take& take) {
  for (const YamlEntry& entry : node.entries) {
    if (!node.is_map()) return;
    const std::string inner = path.empty() ? entry.name : path + "." + entry.name;
    if (!entry.value.is_map()) take(inner, entry);
    visit(entry.value, inner, take);
  }
}

bool is_outermost(std::string_view path) { return path.find('.') == std::string_view::npos; }

void require_few(std::size_t arguments, int line) {
  if (arguments < kMostRunArguments) return;
  refuse_by("run_file_size/arguments", fmt::format("line {}", line), kMostRunArguments);
}

/// Returns the arguments in the entries of a map.
std::vector<RunArgument> arguments_in(const YamlNode& map) {
  std::vector<RunArgument> arguments;
  for (const YamlEntry& entry : map.entries) {
    if (!map.is_map() || entry.value.is_map()) continue;
    require_few(arguments.size(), entry.line);
    arguments.push_back({run_argument_name(entry.name), words_of(entry.value), entry.line});
  }
  return arguments;
}

/// Returns the first map of this name among the outermost entries; null where there is none.
const YamlNode* section_of(const std::vector<YamlNode>& documents, std::string_view name) {
  for (const YamlNode& document : documents) {
    for (const YamlEntry& entry : document.entries)
      if (document.is_map() && entry.name == name && entry.value.is_map()) return &entry.value;
  }
  return nullptr;
}

/// The sizes of a layout in a configuration of GPT-NeoX, and Megatron's names for them.
constexpr std::array<std::pair<const char*, const char*>, 2> kSizesOfNeox = {{
    {"model-parallel-size", "tensor-model-parallel-size"},
    {"pipe-parallel-size", "pipeline-model-parallel-size"},
}};

/// Refuses configurations of other programs, whose keys look like Megatron's arguments: those of DeepSpeed,
/// which say nothing of the model and its layout, and those of GPT-NeoX, which mostly are none.
void require_no_other_program(const std::vector<RunArgument>& given) {
  const auto of = [&](std::string_view name) { return std::ranges::find(given, name, &RunArgument::name); };
  const auto has = [&](std::string_view name) { return of(name) != given.end(); };
  const bool has_pipeline = has("pipe-parallel-size"), has_batch = has("train-micro-batch-size-per-gpu");
  const bool is_of_deepspeed = has_batch || has("train-batch-size") || has("gradient-accumulation-steps");
  if (is_of_deepspeed && !has("num-layers") && !has_pipeline) refuse_by("run_deepspeed_config", "--from");
  if (!has_pipeline && !has_batch) return;
  std::string sizes;
  for (const auto& [name, option] : kSizesOfNeox) {
    const auto size =
        !has(name) || of(name)->values.empty() ? std::nullopt : whole_number(of(name)->values.front());
    if (size) sizes += fmt::format(" --{} {}", option, std::max<std::int64_t>(*size, 1));
  }
  refuse_by("run_yaml_neox", "--from", sizes);
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

/// Returns the path in "${model.sizes.layers}" or, of a value beside it, "${.layers}"; "" of another value.
std::string path_meant(const NamedValue& one) {
  const std::string text = one.values.size() == 1 ? one.values.front() : "";
  if (!text.starts_with("${") || text.find('}') + 1 != text.size()) return "";
  const std::string path = text.substr(2, text.size() - 3);
  return path.starts_with('.') ? one.path.substr(0, one.path.rfind('.')) + path : path;
}

/// Returns the values in all maps, however deep. A short value that stands for one of another path has that
/// one's.
std::vector<NamedValue> named_values(const std::vector<YamlNode>& documents) {
  std::vector<NamedValue> named;
  for (const YamlNode& document : documents) {
    visit(document, "", [&](const std::string& path, const YamlEntry& entry) {
      require_few(named.size(), entry.line);
      named.push_back({path, words_of(entry.value), entry.line});
    });
  }
  constexpr std::size_t kMostLetters = 100;
  constexpr int kMostSteps = 8;
  std::map<std::string, std::string> values;
  for (int step = 0; step < kMostSteps; ++step) {
    for (const NamedValue& one : named)
      if (one.values.size() == 1 && one.values.front().size() <= kMostLetters)
        values[one.path] = one.values.front();
    for (NamedValue& one : named) {
      const auto meant = values.find(path_meant(one));
      if (meant != values.end()) one.values = {meant->second};
    }
  }
  return named;
}

RunArguments run_of(Translation translation, std::string note) {
  if (!translation.unused.empty())
    note += fmt::format("; not used: {}", first_names(translation.unused, kMostNamed));
  return {.kind = RunFileKind::yaml,
          .given = std::move(translation.given),
          .unresolved = std::move(translation.unresolved),
          .notes = {std::move(note)}};
}

bool is_used(const RunArgument& argument) {
  const ArgumentRow* row = find_argument(argument.name);
  return row != nullptr && row->use == ArgumentUse::used;
}
bool is_of_megatron(const RunArgument& argument) { return find_argument(argument.name) != nullptr; }

/// Whether the outermost keys are those of a config.json of Hugging Face.
bool is_of_huggingface(const std::vector<NamedValue>& named) {
  const auto has = [&](std::string_view path) {
    return std::ranges::find(named, path, &NamedValue::path) != named.end();
  };
  return has("model_type") && (has("hidden_size") || has("n_embd") || has("text_config.hidden_size"));
}

/// Reads the model of a config.json. What its sections say of images and sound is no part of it.
RunArguments run_of_huggingface(std::vector<NamedValue> named) {
  std::erase_if(named, [](const NamedValue& one) {
    const std::string_view section = std::string_view(one.path).substr(0, one.path.find('.'));
    return !is_outermost(one.path) && std::ranges::find(kTextSections, section) == kTextSections.end();
  });
  Translation translation = translated("huggingface", named);
  std::string note =
      "a config.json of Hugging Face is read: it has the sizes of a model, and no layout, batch and sequence";
  const auto is_known_type = [&](const NamedValue& one) {
    return one.path.ends_with("model_type") &&
           std::ranges::find(translation.unused, one.path) == translation.unused.end();
  };
  if (std::ranges::none_of(named, is_known_type))
    note += "; the layers of this model_type are not known here, and have what the other keys say";
  return run_of(std::move(translation), std::move(note));
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

/// Whether a section has an argument that is used.
bool has_used_section(const std::vector<NamedValue>& named) {
  std::vector<NamedValue> inner;
  std::ranges::copy_if(named, std::back_inserter(inner),
                       [](const NamedValue& one) { return !is_outermost(one.path); });
  return std::ranges::any_of(translated("nested", inner).given, is_used);
}

}  // namespace

RunArguments read_run_yaml(std::string_view text, const RunVariables& set) {
  const std::vector<YamlNode> documents = read_yaml(text);
  RunArguments run{.kind = RunFileKind::yaml};
  std::string script;
  if (const YamlNode* section = section_of(documents, kSection)) {
    run.given = arguments_in(*section);
  } else {
    for (const YamlNode& document : documents)
      std::ranges::move(arguments_in(document), std::back_inserter(run.given));
    require_no_other_program(run.given);
    script = script_of_manifest(documents);
    const std::vector<NamedValue> named = named_values(documents);
    if (is_of_huggingface(named)) {
      run = run_of_huggingface(named);
    } else if (script.empty() && has_used_section(named)) {
      run = run_of(translated("nested", named), "sections are read by the names of arguments in them");
    }
  }
  if (const YamlNode* environment = section_of(documents, kEnvironment)) {
    for (const YamlEntry& entry : environment->entries)
      if (entry.value.kind == YamlNode::Kind::scalar) run.environment[entry.name] = entry.value.text;
  }
  expand_variables(run, set);
  if (std::ranges::any_of(run.given, is_of_megatron)) return run;
  if (!script.empty()) return read_manifest(script, set);
  if (run.given.empty()) refuse_by("run_without_arguments/yaml", "--from");
  refuse_by("run_without_arguments/keys", "--from", sim::printable_text(run.given.front().name));
}

}  // namespace verify
