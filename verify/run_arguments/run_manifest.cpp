#include "verify/run_arguments/run_manifest.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <sstream>
#include <utility>
#include <vector>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "verify/output/phrases.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

struct Word {
  std::string text;
  int line = 0;
};

struct Container {
  std::vector<std::pair<Word, Word>> environment;
  std::vector<Word> command;
  std::vector<Word> arguments;
  std::vector<Word> texts;  // each for a shell
};

/// Whether a value of this key that starts a program of Python is text for a shell, as in a task of SkyPilot
/// (run) and a service of Docker Compose (command).
bool is_text_for_a_shell(std::string_view key, std::string_view text) {
  const bool is_key = key == "run" || key == "command" || key == "entrypoint" || key == "script";
  return is_key && text.find(".py") != std::string_view::npos;
}

/// Collects the containers, as the parser meets them: the maps with a command or arguments.
class Containers : public YAML::EventHandler {
 public:
  std::vector<Container> found;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == document_) throw YAML::ParserException(mark, "text that is no document");
    document_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { take({"", mark.line + 1}); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { take({"", mark.line + 1}); }
  void OnScalar(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    const int below = value.ends_with('\n') ? 1 : 0;  // the text of a block begins in the next line
    take({value, mark.line + 1 + below});
  }
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    levels_.push_back({});
  }
  void OnSequenceEnd() override { leave(); }
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    levels_.push_back({});
    levels_.back().is_map = true;
  }
  void OnMapEnd() override {
    Level& map = levels_.back();
    if (!map.name.text.empty()) keep_variable(map);
    const Container& container = map.container;
    const bool is_container =
        !container.command.empty() || !container.arguments.empty() || !container.texts.empty();
    if (is_container) found.push_back(std::move(map.container));
    leave();
  }

 private:
  struct Level {
    bool is_map = false;
    bool has_key = false;  // the next event is a value
    std::string key;
    Word name, value;     // of a map {name: A, value: B}
    Container container;  // of a map with a command
  };

  void take(Word word) {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (level.is_map && !level.has_key) {
      level.key = std::move(word.text);
      level.has_key = true;
      return;
    }
    level.has_key = false;
    if (!level.is_map) {
      if (levels_.size() > 1) take_of_list(levels_[levels_.size() - 2], std::move(word));
    } else if (level.key == "name") {
      level.name = std::move(word);
    } else if (level.key == "value") {
      level.value = std::move(word);
    } else if (is_text_for_a_shell(level.key, word.text)) {
      level.container.texts.push_back(std::move(word));
    }
  }

  static void take_of_list(Level& map, Word word) {
    if (!map.is_map) return;
    if (map.key == "command") map.container.command.push_back(std::move(word));
    if (map.key == "args") map.container.arguments.push_back(std::move(word));
  }

  /// Keeps the variable that a map in the list `env` of a container gives.
  void keep_variable(Level& map) {
    if (levels_.size() < 3) return;
    Level& container = levels_[levels_.size() - 3];
    if (container.is_map && container.key == "env" && !map.value.text.empty())
      container.container.environment.emplace_back(std::move(map.name), std::move(map.value));
  }

  void leave() {
    levels_.pop_back();
    if (!levels_.empty()) levels_.back().has_key = false;
  }

  std::vector<Level> levels_;
  int document_ = -1;  // where the current one begins
};

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
  for (const Word& text : container.texts) {
    script.begin(text.line);
    script.add(text.text, text.line);
    script.end();
  }
  std::vector<Word> words = container.command;
  words.insert(words.end(), container.arguments.begin(), container.arguments.end());
  if (words.empty()) return;
  script.begin(words.front().line);
  bool is_text = false;
  for (const Word& word : words) {
    script.add(is_text ? in_single_quotes(word.text) : in_double_quotes(word.text), word.line);
    is_text = hands_text_on(word.text);
  }
  script.end();
}

}  // namespace

std::string script_of_manifest(std::string_view yaml) {
  std::istringstream stream{std::string(yaml)};
  Containers containers;
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(containers)) {
    }
  } catch (const YAML::Exception&) {
    return "";
  }
  Script script;
  for (const Container& container : containers.found) add(container, script);
  return std::move(script).text();
}

}  // namespace verify
