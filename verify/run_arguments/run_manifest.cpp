#include "verify/run_arguments/run_manifest.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "verify/output/phrases.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

struct ManifestWord {
  std::string text;
  int line = 0;
};

struct Container {
  std::vector<std::pair<ManifestWord, ManifestWord>> environment;
  std::vector<ManifestWord> command;
  std::vector<ManifestWord> arguments;
  std::vector<ManifestWord> texts;  // each for a shell
};

/// Whether a value of this key that starts a program of Python is text for a shell, as in a task of SkyPilot
/// (run) and a service of Docker Compose (command).
bool is_text_for_a_shell(std::string_view key, std::string_view text) {
  const bool is_key = key == "run" || key == "command" || key == "entrypoint" || key == "script";
  return is_key && text.find(".py") != std::string_view::npos;
}

ManifestWord word_of(const YamlNode& node) {
  const int below = node.text.ends_with('\n') ? 1 : 0;  // the text of a block begins in the next line
  return {node.text == "null" ? "" : node.text, node.line + below};
}

/// Returns the scalars of a list.
std::vector<ManifestWord> words_in(const YamlNode& node) {
  std::vector<ManifestWord> words;
  for (const YamlEntry& entry : node.entries)
    if (entry.value.kind == YamlNode::Kind::scalar) words.push_back(word_of(entry.value));
  return words;
}

/// Returns the variables in a list of maps {name: A, value: B}.
std::vector<std::pair<ManifestWord, ManifestWord>> variables_in(const YamlNode& node) {
  std::vector<std::pair<ManifestWord, ManifestWord>> variables;
  for (const YamlEntry& variable : node.entries) {
    ManifestWord name, value;
    for (const YamlEntry& entry : variable.value.entries) {
      if (entry.name == "name") name = word_of(entry.value);
      if (entry.name == "value") value = word_of(entry.value);
    }
    if (!name.text.empty() && !value.text.empty()) variables.emplace_back(name, value);
  }
  return variables;
}

/// Adds the containers in a node, those that are further inside first: the maps with a command or arguments.
void add_containers(const YamlNode& node, std::vector<Container>& found) {
  Container container;
  for (const auto& [key, line, value] : node.entries) {
    const bool is_list = value.kind == YamlNode::Kind::list;
    if (is_list && key == "command") container.command = words_in(value);
    if (is_list && key == "args") container.arguments = words_in(value);
    if (is_list && key == "env") container.environment = variables_in(value);
    if (is_text_for_a_shell(key, value.text)) container.texts.push_back(word_of(value));
    add_containers(value, found);
  }
  const bool is_container =
      !container.command.empty() || !container.arguments.empty() || !container.texts.empty();
  if (is_container) found.push_back(std::move(container));
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

/// Whether the word behind this one is text for a shell: -c, -xc.
bool hands_text_on(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '-' && word.ends_with('c');
}

/// A text whose words stand in given lines.
class Script {
 public:
  void begin(int line) {
    for (; line_ < line; ++line_) text_ += '\n';
  }
  void add(const std::string& word, int line) {
    for (; line_ < line; ++line_) text_ += "\\\n";
    text_ += word + " ";
    line_ += static_cast<int>(std::ranges::count(word, '\n'));
  }
  void end() {
    text_ += '\n';
    ++line_;
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
  int line_ = 1;
};

void add(const Container& container, Script& script) {
  for (const auto& [name, value] : container.environment) {
    if (name.text.empty() || !std::ranges::all_of(name.text, is_of_shell_name)) continue;
    script.begin(name.line);
    script.add(fmt::format("export {}={}", name.text, in_double_quotes(value.text)), name.line);
    script.end();
  }
  for (const ManifestWord& text : container.texts) {
    script.begin(text.line);
    script.add(text.text, text.line);
    script.end();
  }
  std::vector<ManifestWord> words = container.command;
  words.insert(words.end(), container.arguments.begin(), container.arguments.end());
  if (words.empty()) return;
  script.begin(words.front().line);
  bool is_text = false;
  for (const ManifestWord& word : words) {
    script.add(is_text ? in_single_quotes(word.text) : in_double_quotes(word.text), word.line);
    is_text = hands_text_on(word.text);
  }
  script.end();
}

}  // namespace

std::string script_of_manifest(const std::vector<YamlNode>& documents) {
  std::vector<Container> containers;
  for (const YamlNode& document : documents) add_containers(document, containers);
  Script script;
  for (const Container& container : containers) add(container, script);
  return std::move(script).text();
}

}  // namespace verify
