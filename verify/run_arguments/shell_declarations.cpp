// The assignments of a command, and the words behind `export`, `declare` and their like.

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_braces.h"
#include "verify/run_arguments/shell_lexer.h"

namespace verify {

std::vector<ShellWord> ShellLexer::array_values() {
  const int begun = line_;
  next();  // the "("
  std::vector<ShellWord> values;
  for (;;) {
    skip_blanks();
    if (at_end()) refuse(begun, "an array without its ')'");
    if (peek() == ')') break;
    if (peek() == '\n') {
      next();
    } else if (peek() == '#') {
      skip_comment();
    } else if (is_shell_operator(peek())) {
      refuse(line_, fmt::format("'{}' in an array", peek()));
    } else {
      for (ShellWord& one : words_of_braces(word())) values.push_back(std::move(one));
    }
    if (values.size() > kMostRunArguments) refuse(begun, "an array of too many words");
  }
  next();
  return values;
}

namespace {

/// Cuts "[key]=" from the beginning of an element of an array. Returns the key; null where there is none.
std::shared_ptr<const ShellWord> take_key(ShellWord& element) {
  ShellWord key{.parts = {}, .line = element.line};
  for (auto part = element.parts.begin(); part != element.parts.end(); ++part) {
    const bool is_plain = part->kind == ShellPart::Kind::literal && !part->is_quoted;
    if (part == element.parts.begin() && (!is_plain || !part->text.starts_with('['))) return nullptr;
    const std::size_t end = is_plain ? part->text.find("]=") : std::string::npos;
    key.parts.push_back(*part);
    if (end == std::string::npos) continue;
    key.parts.back().text.resize(end);
    key.parts.front().text.erase(0, 1);  // the "["
    part->text.erase(0, end + 2);
    element.parts.erase(element.parts.begin(), part);
    return std::make_shared<const ShellWord>(std::move(key));
  }
  return nullptr;
}

}  // namespace

/// Keeps the assignment of an array. Elements with a key of their own become assignments behind it.
void ShellLexer::keep_array(ShellAssignment assignment) {
  std::vector<ShellAssignment> with_key;
  std::vector<ShellWord> elements;
  for (ShellWord& element : array_values()) {
    std::shared_ptr<const ShellWord> key = take_key(element);
    if (key == nullptr) {
      elements.push_back(std::move(element));
      continue;
    }
    with_key.push_back(assignment);
    with_key.back().key = std::move(key);
    with_key.back().appends = false;
    with_key.back().values = {std::move(element)};
  }
  assignment.is_array = true;
  assignment.values = std::move(elements);
  command_.assignments.push_back(std::move(assignment));
  std::ranges::move(with_key, std::back_inserter(command_.assignments));
}

/// Reads NAME=value, NAME+=value, NAME[key]=value or NAME=( ... ), where one begins here.
bool ShellLexer::read_assignment() {
  std::size_t length = 0;
  if (!begins_shell_name(peek())) return false;
  while (is_of_shell_name(peek(length))) ++length;
  const std::size_t name_length = length;
  if (peek(length) == '[') {
    int open = 0;
    do {
      if (peek(length) == '[') ++open;
      if (peek(length) == ']') --open;
      if (peek(length) == '\0' || peek(length) == '\n') return false;
      ++length;
    } while (open > 0);
  }
  const bool appends = peek(length) == '+' && peek(length + 1) == '=';
  if (!appends && peek(length) != '=') return false;
  ShellAssignment assignment{.name = std::string(text_.substr(at_, name_length)),
                             .appends = appends,
                             .is_local = is_local_,
                             .is_associative = is_associative_,
                             .is_reference = is_reference_,
                             .line = line_};
  if (length > name_length) {
    ShellWordReader reader(text_.substr(at_ + name_length + 1, length - name_length - 2), line_, 1);
    assignment.key = std::make_shared<const ShellWord>(reader.whole_word(false));
  }
  at_ += length + (appends ? 2 : 1);
  if (peek() == '(') {
    keep_array(std::move(assignment));
    return true;
  }
  if (is_integer_) integers_.insert(assignment.name);
  const std::size_t begin = at_;
  assignment.values.push_back(word());
  // Behind `export` and its like, braces make several assignments, of which the last one counts.
  if (declares_) assignment.values = {words_of_braces(std::move(assignment.values.front())).back()};
  if (integers_.contains(assignment.name)) {
    const std::string_view written = text_.substr(begin, at_ - begin);
    const bool is_empty = written.find_first_not_of("\"' \t") == std::string_view::npos;
    const std::string_view value = is_empty ? std::string_view("0") : written;
    const std::string_view before = assignment.appends ? assignment.name : std::string_view("0");
    const std::string source = fmt::format("$(({} + ({})))", before, value);
    assignment.values = {ShellWordReader(source, assignment.line, 1).whole_word(true)};
    assignment.appends = false;
  }
  command_.assignments.push_back(std::move(assignment));
  return true;
}

/// Follows a word of `declare` that assigns nothing: an option, or a name without a value.
void ShellLexer::declare(const ShellWord& word) {
  const bool is_literal = word.parts.size() == 1 && word.parts[0].kind == ShellPart::Kind::literal;
  if (!is_literal || word.parts[0].text.find('=') != std::string::npos) {
    command_.declares_local = is_local_;
    command_.declared.push_back(word);
    return;
  }
  const std::string& text = word.parts[0].text;
  if (text.starts_with('-')) {
    is_associative_ = is_associative_ || text.find('A') != std::string::npos;
    is_reference_ = is_reference_ || (is_local_ && text.find('n') != std::string::npos);
    is_integer_ = is_integer_ || text.find('i') != std::string::npos;
    is_local_ = is_local_ && text.find('g') == std::string::npos;
    return;
  }
  if (text == "OPTIND" && is_local_) {  // `getopts` begins anew
    const ShellPart first{.kind = ShellPart::Kind::literal, .text = "1"};
    command_.assignments.push_back({.name = text,
                                    .is_local = true,
                                    .values = {{.parts = {first}, .line = word.line}},
                                    .line = word.line});
    return;
  }
  if (!begins_shell_name(text.empty() ? '0' : text.front())) command_.declared.push_back(word);
  if (is_integer_) integers_.insert(text);
  if (is_associative_ || is_reference_) {
    command_.assignments.push_back({.name = text,
                                    .appends = true,
                                    .is_array = true,
                                    .is_local = is_local_,
                                    .is_associative = is_associative_,
                                    .is_reference = is_reference_,
                                    .line = word.line});
  }
}

}  // namespace verify
