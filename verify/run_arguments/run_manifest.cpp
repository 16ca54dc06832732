#include "verify/run_arguments/run_manifest.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "verify/output/phrases.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

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

/// Whether the word behind this one is text for a shell: -c, -xc.
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

}  // namespace

std::string script_of_manifest(const std::vector<YamlNode>& documents) {
  Script script;
  for (const YamlNode& document : documents) add_containers(document, script);
  return std::move(script.text);
}

}  // namespace verify
