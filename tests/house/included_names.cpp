#include "tests/house/included_names.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "tests/house/rooms.h"
#include "tests/house/source_tokens.h"

namespace test {

namespace {

enum class Kind { other, function, scope };  // a scope is a namespace

struct Declared {
  std::string_view name;
  Kind kind = Kind::other;
};

/// Returns what the declaration that begins at `at` declares, if it is of a kind that the rule judges.
std::optional<Declared> declared_at(const Tokens& tokens, std::size_t at) {
  if (text_at(tokens, at) == "template") at = behind_brackets(tokens, at + 1, "<", ">");
  while (text_at(tokens, at) == "[") at = behind_brackets(tokens, at, "[", "]");
  const std::string_view first = text_at(tokens, at);
  if (first == "namespace") {
    while (at < tokens.size() && tokens[at].text != "{") ++at;
    return Declared{tokens[at - 1].text, Kind::scope};
  }
  if (first == "using") {
    if (text_at(tokens, at + 2) != "=") return std::nullopt;
    return Declared{text_at(tokens, at + 1)};
  }
  if (is_one_of(first, {"struct", "class", "enum", "union"})) {
    ++at;
    if (is_one_of(text_at(tokens, at), {"class", "struct"})) ++at;
    if (text_at(tokens, at) == "alignas") at = behind_brackets(tokens, at + 1, "(", ")");
    if (!is_one_of(text_at(tokens, at + 1), {"{", ":", "final"})) return std::nullopt;
    return Declared{text_at(tokens, at)};
  }
  bool is_constant = false;
  for (std::size_t k = at; k < tokens.size(); ++k) {
    const std::string_view text = tokens[k].text;
    is_constant = is_constant || is_one_of(text, {"const", "constexpr"});
    if (text == "<") k = behind_brackets(tokens, k, "<", ">") - 1;
    if (!is_one_of(text, {"(", "=", "{", "[", ";", ":"})) continue;
    const bool has_name = k > at + 1 && tokens[k - 1].is_word && tokens[k - 2].text != "::";
    if (!has_name || text == ":") return std::nullopt;
    if (text == "(") return Declared{tokens[k - 1].text, Kind::function};
    if (is_constant && text != ";") return Declared{tokens[k - 1].text};
    return std::nullopt;
  }
  return std::nullopt;
}

/// Adds the enumerators of the enum that begins at `at`. Those of an enum class are named with its name.
void add_enumerators(const Tokens& tokens, std::size_t at, std::vector<Declared>& all) {
  if (is_one_of(text_at(tokens, at + 1), {"class", "struct"})) return;
  for (; at < tokens.size() && !is_one_of(tokens[at].text, {"}", ";"}); ++at) {
    if (is_one_of(tokens[at].text, {"{", ","}) && at + 1 < tokens.size() && tokens[at + 1].is_word)
      all.push_back({tokens[at + 1].text});
  }
}

std::vector<Declared> declared_in(const Tokens& tokens) {
  std::vector<Declared> all;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    if (!tokens[at].begins_line || (!tokens[at].is_word && tokens[at].text != "[")) continue;
    if (const std::optional<Declared> one = declared_at(tokens, at)) all.push_back(*one);
    if (tokens[at].text == "enum") add_enumerators(tokens, at, all);
  }
  return all;
}

std::vector<std::string> macros_in(const std::string& text) {
  std::vector<std::string> macros;
  for (const std::string& line : lines_with(text, {"#define "})) {
    std::istringstream rest(line.substr(line.find("#define ") + 8));
    std::string name;
    while (is_in_word(static_cast<char>(rest.peek()))) name += static_cast<char>(rest.get());
    macros.push_back(name);
  }
  return macros;
}

/// Whether the `&` or `*` at `at` belongs to the type of a statement that begins with it, as in
/// `const T& f(`, and is no operator, as in `return x && f(`.
bool ends_type_of_statement(const Tokens& tokens, std::size_t at) {
  while (at > 0 && is_one_of(tokens[at].text, {"&", "*"})) --at;
  int depth = 0;  // of the arguments of templates
  for (;; --at) {
    const Token& token = tokens[at];
    if (token.text == ">") ++depth;
    const bool is_of_type = depth > 0 || token.text == "::" ||
                            (token.is_word && !is_one_of(token.text, {"return", "case", "throw", "new"}));
    if (!is_of_type) return is_one_of(token.text, {";", "{", "}", "]", ":"});
    if (token.text == "<") --depth;
    if (at == 0) return true;
  }
}

/// Returns the names that a source gives to something of its own: types and their parameters, variables,
/// parameters, members and functions.
std::set<std::string_view> given_in(const Tokens& tokens) {
  std::set<std::string_view> given;
  for (std::size_t at = 1; at < tokens.size(); ++at) {
    if (!tokens[at].is_word) continue;
    const std::string_view before = tokens[at - 1].text;
    const std::string_view of_pack = before == "." && at >= 4 ? tokens[at - 4].text : std::string_view();
    const bool is_type = is_one_of(before, {"struct", "class", "enum", "typename", "using", "concept"}) ||
                         is_one_of(of_pack, {"class", "typename"});
    const bool follows_a_type = (tokens[at - 1].is_word &&
                                 !is_one_of(before, {"return", "else", "case", "throw", "new", "delete"})) ||
                                is_one_of(before, {">", "&", "*", "]"});
    const std::string_view next = text_at(tokens, at + 1);
    const bool is_declared = is_one_of(next, {";", ",", ")", "=", "{", "(", "[", ":"});
    const bool is_operand =
        next == "(" && is_one_of(before, {"&", "*"}) && !ends_type_of_statement(tokens, at - 1);
    if (is_type || (follows_a_type && is_declared && !is_operand)) given.insert(tokens[at].text);
  }
  return given;
}

/// Whether the word at `at` can be a name that a namespace of this project has: it is no member, and is not
/// qualified with the name of something else.
bool is_free(const Tokens& tokens, std::size_t at) {
  if (!tokens[at].is_word) return false;
  if (at == 0) return true;
  if (tokens[at - 1].text == "::")
    return at >= 2 && is_one_of(tokens[at - 2].text, {"sim", "verify", "reference", "gpu"});
  return !is_one_of(tokens[at - 1].text, {".", "->", "~"});
}

/// Whether a name of this kind can be meant where `next` follows it.
bool is_used_as(Kind kind, std::string_view next) {
  if (kind == Kind::function) return is_one_of(next, {"(", "<"});
  return kind != Kind::scope || next == "::";
}

/// All that the rule has read of the sources. The tokens view the texts of `files`.
class Names {
 public:
  explicit Names(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files) {
      Read& read = read_[file.path];
      read.tokens = tokens_of(file.text);
      read.given = given_in(read.tokens);
      read.included = included_files(file);
      if (file.path.ends_with(".h") && !is_of_tests(file.path)) add_declared(file, read.tokens);
    }
    std::erase_if(declared_, [](const auto& entry) { return entry.second.header.empty(); });
  }

  std::vector<std::string> violations() const {
    std::vector<std::string> found;
    for (const auto& [path, read] : read_) {
      if (is_of_tests(path)) continue;
      const std::string own = path.substr(0, path.rfind('.')) + ".h";
      const bool lacks_own = path.ends_with(".cpp") && read_.contains(own) &&
                             (read.included.empty() || read.included.front() != own);
      if (lacks_own) found.push_back(path + ": its first include is not " + own);
      for (const auto& [name, header] : not_included(path, read))
        found.push_back(path + ": it names " + name + " and does not include " + header);
    }
    return found;
  }

 private:
  struct Read {
    Tokens tokens;
    std::set<std::string_view> given;
    std::vector<std::string> included;
  };
  struct Declaration {
    std::string header;  // "" if several declare the name
    Kind kind = Kind::other;
  };

  static bool is_of_tests(const std::string& path) { return path.starts_with("tests/"); }

  void add_declared(const SourceFile& file, const Tokens& tokens) {
    const auto add = [&](std::string name, Kind kind) {
      const auto [entry, is_new] = declared_.try_emplace(std::move(name), Declaration{file.path, kind});
      if (!is_new && entry->second.header != file.path) entry->second.header.clear();
    };
    for (const Declared& one : declared_in(tokens)) add(std::string(one.name), one.kind);
    for (const std::string& macro : macros_in(file.text)) add(macro, Kind::other);
  }

  /// Adds a file and all that it includes, itself or through others.
  void add_included(const std::string& path, std::set<std::string>& all) const {
    const auto read = read_.find(path);
    if (read == read_.end() || !all.insert(path).second) return;
    for (const std::string& included : read->second.included) add_included(included, all);
  }

  /// Returns the names, with their headers, that a file uses and does not include.
  std::map<std::string, std::string> not_included(const std::string& path, const Read& read) const {
    std::set<std::string> included;
    add_included(path, included);
    const auto is_given = [&](std::string_view name) {
      return std::any_of(included.begin(), included.end(),
                         [&](const std::string& file) { return read_.at(file).given.contains(name); });
    };
    std::map<std::string, std::string> missing;
    for (std::size_t at = 0; at < read.tokens.size(); ++at) {
      if (!is_free(read.tokens, at)) continue;
      const auto declared = declared_.find(read.tokens[at].text);
      if (declared == declared_.end() || included.contains(declared->second.header)) continue;
      if (!is_used_as(declared->second.kind, text_at(read.tokens, at + 1))) continue;
      if (!is_given(declared->first)) missing.emplace(declared->first, declared->second.header);
    }
    return missing;
  }

  std::map<std::string, Read> read_;                          // by path
  std::map<std::string, Declaration, std::less<>> declared_;  // by name
};

}  // namespace

std::vector<std::string> names_not_included(const std::vector<SourceFile>& files) {
  return Names(files).violations();
}

}  // namespace test
