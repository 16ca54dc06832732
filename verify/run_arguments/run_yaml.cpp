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
#include <sstream>
#include <string>
#include <utility>
#include <vector>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "sim/base/printable_text.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/dialects.h"
#include "verify/run_arguments/run_script.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

// ---- YAML, and so JSON, as a tree of maps, lists and scalars
//
// yaml-cpp reads the text. Entries of a map are in the order of the text, and a name may stand several times.
// A scalar is text as it is written, without quotes, and "null" where nothing is written. Of a key that is no
// scalar the name is "".

constexpr std::size_t kMostYamlNodes = 200'000;

struct YamlEntry;

struct YamlNode {
  enum class Kind { scalar, list, map };
  Kind kind = Kind::scalar;
  int line = 0;                    // where it begins, from 1
  std::string text;                // of a scalar
  std::vector<YamlEntry> entries;  // of a map, and without names of a list

  bool is_map() const { return kind == Kind::map; }
};

struct YamlEntry {
  std::string name;
  int line = 0;  // of the name
  YamlNode value;
};

int line_of(const YAML::Mark& mark) { return mark.line + 1; }

/// Builds the documents, as the parser meets their parts.
class YamlBuilder : public YAML::EventHandler {
 public:
  std::vector<YamlNode> documents;

  /// The parser begins the same document again, for ever, at text that it cannot take.
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == document_) throw YAML::ParserException(mark, "text that is no document");
    document_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    put({YamlNode::Kind::scalar, line_of(mark), "null", {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    refuse_by("run_yaml_alias", fmt::format("line {}", line_of(mark)));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    put({YamlNode::Kind::scalar, line_of(mark), value, {}});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    open_.push_back({{YamlNode::Kind::list, line_of(mark), "", {}}, false});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    open_.push_back({{YamlNode::Kind::map, line_of(mark), "", {}}, false});
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    bool has_name = false;  // the next node is a value
  };

  void put(YamlNode node) {
    if (++nodes_ > kMostYamlNodes)
      refuse_by("run_file_size/yaml", fmt::format("line {}", node.line), kMostYamlNodes);
    if (open_.empty()) {
      documents.push_back(std::move(node));
      return;
    }
    Open& parent = open_.back();
    const bool is_name = parent.node.is_map() && !parent.has_name;
    if (is_name) {
      parent.node.entries.push_back({std::move(node.text), node.line, {}});
    } else if (parent.node.is_map()) {
      parent.node.entries.back().value = std::move(node);
    } else {
      parent.node.entries.push_back({"", node.line, std::move(node)});
    }
    parent.has_name = is_name;
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    put(std::move(node));
  }

  std::vector<Open> open_;  // the outermost one first
  std::size_t nodes_ = 0;
  int document_ = -1;  // where the current one begins
};

/// Returns the documents of a text.
std::vector<YamlNode> read_yaml(std::string_view text) {
  std::istringstream stream{std::string(text)};
  YamlBuilder builder;
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const bool is_too_deep =
        dynamic_cast<const YAML::DeepRecursion*>(&error) != nullptr;  // it says "bad file"
    refuse_by("run_yaml_syntax", fmt::format("line {}", line_of(error.mark)),
              is_too_deep ? "nested too deep" : sim::printable_text(error.msg));
  }
  return std::move(builder.documents);
}

/// Returns the words of an entry: that of a scalar, or those of the scalars in a list. A map has none.
std::vector<std::string> words_of(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar) return {node.text};
  std::vector<std::string> words;
  for (const YamlEntry& entry : node.entries)
    if (!node.is_map() && entry.value.kind == YamlNode::Kind::scalar) words.push_back(entry.value.text);
  return words;
}

// ---- arguments

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

// ---- manifests
//
// The commands of containers become the text of a launch script. A word stands in the line in which the
// manifest has it, as far as the order of the words allows. $(NAME), which Kubernetes replaces, and ${NAME},
// which whoever fills in a template does, are variables. The text after `bash -c` is left to that shell.

/// Whether a value of this key that starts a program of Python is text for a shell, as in a task of SkyPilot
/// (run) and a service of Docker Compose (command).
bool is_text_for_a_shell(std::string_view key, std::string_view text) {
  const bool is_key = key == "run" || key == "command" || key == "entrypoint" || key == "script";
  return is_key && text.find(".py") != std::string_view::npos;
}

ShellField word_of(const YamlNode& node) {
  const int below = node.text.ends_with('\n') ? 1 : 0;  // the text of a block begins in the next line
  return {node.text == "null" ? "" : node.text, node.line + below};
}

/// Appends the scalars of a list.
void append_words(const YamlNode& list, ShellFields& words) {
  for (const YamlEntry& entry : list.entries)
    if (entry.value.kind == YamlNode::Kind::scalar) words.push_back(word_of(entry.value));
}

/// Returns a word in whose double quotes a shell replaces variables, and nothing else.
std::string in_double_quotes(std::string_view text) {
  std::string quoted = "\"";
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with("$(")) {
      const std::size_t end = std::min(text.find(')', at), text.size());
      const std::string_view name = text.substr(at + 2, end - at - 2);
      const bool is_variable =
          end < text.size() && !name.empty() && std::ranges::all_of(name, is_of_shell_name);
      quoted += is_variable ? fmt::format("${{{}}}", name) : "\\$";
      at = is_variable ? end : at;
      continue;
    }
    if (text[at] == '"' || text[at] == '\\' || text[at] == '`') quoted += '\\';
    quoted += text[at];
  }
  return quoted + "\"";
}

/// Whether the word after this one is text for a shell: -c, -xc.
bool hands_text_on(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '-' && word.ends_with('c');
}

/// A text whose words stand in given lines.
class Script {
 public:
  /// Adds words as a command.
  void add(const ShellFields& words) {
    for (; line_ < words.front().line; ++line_) text += '\n';
    for (const ShellField& word : words) {
      for (; line_ < word.line; ++line_) text += "\\\n";
      text += word.text + " ";
      line_ += static_cast<int>(std::ranges::count(word.text, '\n'));
    }
    text += '\n';
    ++line_;
  }

  std::string text;

 private:
  int line_ = 1;
};

/// Adds the variables in a list of maps {name: A, value: B}.
void add_variables(const YamlNode& list, Script& script) {
  for (const YamlEntry& variable : list.entries) {
    ShellField name, value;
    for (const YamlEntry& entry : variable.value.entries) {
      if (entry.name == "name") name = word_of(entry.value);
      if (entry.name == "value") value = word_of(entry.value);
    }
    if (name.text.empty() || value.text.empty() || !std::ranges::all_of(name.text, is_of_shell_name))
      continue;
    script.add({{fmt::format("export {}={}", name.text, in_double_quotes(value.text)), name.line}});
  }
}

/// Adds the words of a command; one that is text for a shell is left to that.
void add_words(ShellFields words, Script& script) {
  bool is_text = false;
  for (ShellField& word : words) {
    const bool is_followed_by_text = hands_text_on(word.text);
    word.text = is_text ? in_single_quotes(word.text) : in_double_quotes(word.text);
    is_text = is_followed_by_text;
  }
  if (!words.empty()) script.add(words);
}

/// Adds the commands of the containers in a node, those that are further inside first. A container is a map
/// with a command or arguments.
void add_containers(const YamlNode& node, Script& script) {
  ShellFields command, arguments, texts;
  const YamlNode* environment = nullptr;
  for (const auto& [key, line, value] : node.entries) {
    const bool is_list = value.kind == YamlNode::Kind::list;
    if (is_list && key == "command") append_words(value, command = {});
    if (is_list && key == "args") append_words(value, arguments = {});
    if (is_list && key == "env") environment = &value;
    if (is_text_for_a_shell(key, value.text)) texts.push_back(word_of(value));
    add_containers(value, script);
  }
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (command.empty() && texts.empty()) return;
  if (environment != nullptr) add_variables(*environment, script);
  for (const ShellField& text : texts) script.add({text});
  add_words(command, script);
}

/// Returns the script; "" where no document has a container with a command.
std::string script_of_manifest(const std::vector<YamlNode>& documents) {
  Script script;
  for (const YamlNode& document : documents) add_containers(document, script);
  return std::move(script.text);
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
  return gives_used_argument(inner);
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
