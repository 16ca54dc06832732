#include "verify/run_arguments/shell_words.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <optional>
#include <set>

#include "sim/base/error.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_braces.h"
#include "verify/run_arguments/shell_jobs.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

template <std::size_t kCount>
bool is_one_of(std::string_view word, const std::array<std::string_view, kCount>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct KeywordRow {
  std::string_view word;
  ShellKeyword keyword;
};
constexpr std::array<KeywordRow, 13> kKeywords = {{
    {"if", ShellKeyword::if_begins},
    {"then", ShellKeyword::condition_ends},
    {"elif", ShellKeyword::elif_begins},
    {"else", ShellKeyword::else_begins},
    {"fi", ShellKeyword::if_ends},
    {"case", ShellKeyword::case_begins},
    {"esac", ShellKeyword::case_ends},
    {"for", ShellKeyword::loop_begins},
    {"while", ShellKeyword::loop_begins},
    {"until", ShellKeyword::loop_begins},
    {"select", ShellKeyword::loop_begins},
    {"do", ShellKeyword::body_begins},
    {"done", ShellKeyword::loop_ends},
}};
constexpr std::string_view kIgnored = "in";
constexpr std::array<std::string_view, 3> kLocal = {"local", "declare", "typeset"};
constexpr std::array<std::string_view, 5> kDeclaring = {"export", "declare", "local", "readonly", "typeset"};

class Lexer : public ShellWordReader {
 public:
  Lexer(std::string_view text, int line) : ShellWordReader(text, line, 0) {}

  ShellScript script();

 private:
  void skip_blanks();
  void skip_comment();
  void end_command();
  void operate();
  void redirect();
  void redirect_input();
  void refuse_bare_bracket();
  ShellCommand& redirected();
  void skip_word();
  void skip_substituted_process();
  void read_documents();
  void begin_command();
  void read_word_of_command();
  bool read_arithmetic();
  bool takes_brace(const std::string& text, int line);
  bool takes_name_of_function(const ShellWord& word);
  ShellWord regular_expression();
  void read_test();
  void read_case(int line);
  void read_patterns();
  void read_extended_pattern(ShellWord& pattern);
  void read_list_of_loop();
  void read_steps_of_loop(ShellCommand& loop);
  void add_keyword(ShellKeyword keyword, std::vector<ShellWord> words, int line);
  bool read_assignment();
  void declare(const ShellWord& word);
  void keep_array(ShellAssignment assignment);
  std::vector<ShellWord> array_values();
  bool takes_keyword(const ShellWord& word);

  struct PendingDocument {
    std::string end;
    std::size_t command = 0;  // the index that the command gets to which it belongs
    bool strips_tabs = false;
    bool is_literal = false;
  };

  int cases_ = 0;            // those that are open
  std::string chain_;        // between the last command and the next one
  bool is_joining_ = false;  // a line that ends with && goes on in the next one
  bool negates_ = false;
  bool declares_ = false;
  bool is_local_ = false;
  bool is_associative_ = false;
  bool is_reference_ = false;
  bool is_integer_ = false;
  std::set<std::string> integers_;  // variables of `declare -i`, whose values are arithmetic
  bool redirects_errors_ = false;
  bool names_function_ = false;        // the next word does, behind `function`
  std::optional<ShellWord> function_;  // the name of one whose body begins next
  std::vector<bool> braces_;           // those that are open: whether each is of a function
  ShellScript script_;
  ShellCommand command_;
  std::vector<PendingDocument> pending_;
};

void Lexer::skip_blanks() {
  while (!at_end()) {
    if (is_shell_blank(peek())) {
      next();
    } else if (peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      while (next() != '\n') {
      }
    } else {
      return;
    }
  }
}

void Lexer::skip_comment() {
  const std::size_t end = std::min(text_.find('\n', at_), text_.size());
  const std::string_view comment = text_.substr(at_, end - at_);
  if (comment.starts_with("#SBATCH")) script_.directives.emplace_back(line_, comment.substr(1));
  at_ = end;
}

void Lexer::end_command() {
  const bool is_empty = command_.assignments.empty() && command_.words.empty() && command_.declared.empty() &&
                        command_.documents.empty();
  if (!is_empty) script_.commands.push_back(std::move(command_));
  command_ = {};
  declares_ = false;
  is_local_ = false;
  is_associative_ = false;
  is_reference_ = false;
  is_integer_ = false;
}

void Lexer::skip_substituted_process() { balanced('(', ')'); }

void Lexer::skip_word() {
  skip_blanks();
  if (peek() == '(') return skip_substituted_process();
  word();
}

/// Returns the command whose output a redirection sends elsewhere: the one that is being read, or the end of
/// the block that stands before it.
ShellCommand& Lexer::redirected() {
  using enum ShellKeyword;
  const bool is_begun = !command_.words.empty() || !command_.assignments.empty() || script_.commands.empty();
  if (is_begun) return command_;
  ShellCommand& last = script_.commands.back();
  const bool ends_block = last.keyword == group_ends || last.keyword == if_ends ||
                          last.keyword == case_ends || last.keyword == loop_ends ||
                          last.keyword == subshell_ends;
  return ends_block ? last : command_;
}

void Lexer::redirect() {
  const bool is_of_errors = std::exchange(redirects_errors_, false);
  if (peek() == '&') next();
  const char sign = next();
  if (sign == '>' && !is_of_errors) redirected().is_redirected = true;
  if (sign == '<' && peek() == '<' && peek(1) == '<') {
    at_ += 2;
    skip_blanks();
    redirected().input = std::make_shared<const ShellWord>(word());
    return;
  }
  if (sign == '<' && peek() == '<' && peek(1) != '<') {
    next();
    PendingDocument document;
    document.command = script_.commands.size() - (&redirected() == &command_ ? 0 : 1);
    document.strips_tabs = peek() == '-';
    if (document.strips_tabs) next();
    skip_blanks();
    for (const ShellPart& part : word().parts) {
      document.end += part.kind == ShellPart::Kind::literal ? part.text : part.source;
      document.is_literal = document.is_literal || part.is_quoted;
    }
    pending_.push_back(std::move(document));
    return;
  }
  if (sign == '<' && peek() != '(' && !is_of_errors) return redirect_input();
  while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '|') next();
  if (peek() == '(') return skip_substituted_process();
  skip_word();
}

/// Reads what stands behind a '<': a file, or <(...), whose commands print the input.
void Lexer::redirect_input() {
  ShellCommand& command = redirected();
  skip_blanks();
  if (looking_at("<(")) {
    next();
    const int line = line_;
    const std::string source = fmt::format("$({})", balanced('(', ')'));
    const ShellPart output{
        .kind = ShellPart::Kind::unknown, .is_quoted = true, .text = source, .source = source};
    command.input = std::make_shared<const ShellWord>(ShellWord{.parts = {output}, .line = line});
    command.input_is_output = true;
    return;
  }
  command.reads_file = true;
  while (peek() == '<' || peek() == '>' || peek() == '&') next();
  skip_word();
}

/// Reads the here-documents whose text begins on this line.
void Lexer::read_documents() {
  for (const PendingDocument& pending : pending_) {
    const int begun = line_;
    HereDocument document{.text = {}, .line = line_, .is_literal = pending.is_literal};
    for (;;) {
      if (at_end()) refuse(begun, fmt::format("a here-document without its last line '{}'", pending.end));
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string line(text_.substr(at_, end - at_));
      at_ = end;
      if (!at_end()) next();
      if (line.ends_with('\r')) line.pop_back();
      if (pending.strips_tabs) line.erase(0, line.find_first_not_of('\t'));
      if (line == pending.end) break;
      document.text += line + "\n";
    }
    if (script_.commands.empty()) script_.commands.emplace_back();
    const std::size_t of = std::min(pending.command, script_.commands.size() - 1);
    script_.commands[of].documents.push_back(std::move(document));
  }
  pending_.clear();
}

void Lexer::operate() {
  const char c = peek();
  if (c == '<' || c == '>' || (c == '&' && peek(1) == '>')) return redirect();
  if (c == '(') refuse_bare_bracket();
  end_command();
  if (c == '(' || c == ')') {
    next();
    return add_keyword(c == '(' ? ShellKeyword::subshell_begins : ShellKeyword::subshell_ends, {}, line_);
  }
  const bool is_double = peek(1) == c && (c == '&' || c == '|' || c == ';');
  const bool pipes_errors = c == '|' && peek(1) == '&';  // |&
  const bool is_joined = c == '|' || (c == '&' && is_double);
  if (c == '&' && !is_double && !script_.commands.empty()) script_.commands.back().is_background = true;
  if (c != '\n' || !is_joining_) chain_ = is_joined ? std::string(is_double ? 2 : 1, c) : "";
  is_joining_ = is_joined || (c == '\n' && is_joining_);
  negates_ = false;
  next();
  if (is_double || pipes_errors) next();
  if (c == '\n') read_documents();
  if (c != ';' || cases_ == 0) return;
  const bool goes_on = peek() == '&';  // ;& or ;;&
  if (goes_on) next();
  if (goes_on) chain_ = is_double ? ";;&" : ";&";
  if (goes_on || is_double) read_patterns();
}

/// Refuses a bracket among the arguments of a Python file, which no shell takes. In a text that is no script,
/// the name of a file has other signs around it.
void Lexer::refuse_bare_bracket() {
  const auto is_plain = [](const ShellWord& word) {
    return word.parts.size() == 1 && word.parts[0].kind == ShellPart::Kind::literal &&
           !word.parts[0].is_quoted;
  };
  const bool starts_python = std::ranges::any_of(command_.words, [&](const ShellWord& word) {
    return is_plain(word) && word.parts[0].text.ends_with(".py");
  });
  const bool has_flag = std::ranges::any_of(command_.words, [&](const ShellWord& word) {
    return is_plain(word) && word.parts[0].text.starts_with("--");
  });
  if (!starts_python || !has_flag) return;
  sim::refuse(
      {.code = "script_syntax",
       .option = fmt::format("line {}", line_),
       .numbers = "a '(' without quotes among the arguments of a command",
       .rule = "a shell takes a bracket for the begin of a subshell, and stops at one among arguments",
       .hint = "the whole value in quotes, as in \"([0]*3+[1]*29)\""});
}

std::vector<ShellWord> Lexer::array_values() {
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

/// Keeps the assignment of an array. Elements with a key of their own become assignments behind it.
void Lexer::keep_array(ShellAssignment assignment) {
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
bool Lexer::read_assignment() {
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
    std::string value(text_.substr(begin, at_ - begin));
    if (value.find_first_not_of("\"' \t") == std::string::npos) value = "0";
    const std::string_view before = assignment.appends ? assignment.name : std::string_view("0");
    const std::string source = fmt::format("$(({} + ({})))", before, value);
    assignment.values = {ShellWordReader(source, assignment.line, 1).whole_word(true)};
    assignment.appends = false;
  }
  command_.assignments.push_back(std::move(assignment));
  return true;
}

void Lexer::add_keyword(ShellKeyword keyword, std::vector<ShellWord> words, int line) {
  end_command();
  ShellCommand command{.keyword = keyword, .assignments = {}, .words = std::move(words), .documents = {}};
  command.line = line;
  command.chain = std::exchange(chain_, {});
  command.is_negated = negates_;
  script_.commands.push_back(std::move(command));
  negates_ = false;
}

/// Reads the subject of a `case`, and the patterns that follow.
void Lexer::read_case(int line) {
  skip_blanks();
  std::vector<ShellWord> subject;
  subject.push_back(word());
  add_keyword(ShellKeyword::case_begins, std::move(subject), line);
  ++cases_;
  while (!at_end() && (is_shell_blank(peek()) || peek() == '\n')) next();
  if (looking_at("in")) at_ += 2;
  read_patterns();
}

/// Reads the rest of a pattern with brackets, as in +([0-9])b, which shell_pattern.h knows as not followed.
void Lexer::read_extended_pattern(ShellWord& pattern) {
  while (peek() == '(' && !pattern.parts.empty()) {
    const std::string& before = pattern.parts.back().text;
    const bool is_extended = pattern.parts.back().kind == ShellPart::Kind::literal && !before.empty() &&
                             std::string_view("?*+@!").find(before.back()) != std::string_view::npos;
    if (!is_extended) return;
    for (const char c : fmt::format("({})", balanced('(', ')'))) add(pattern, c, false);
    for (ShellPart& part : word().parts) pattern.parts.push_back(std::move(part));
  }
}

/// Reads "a | b)", or the `esac` that ends a case.
void Lexer::read_patterns() {
  std::vector<ShellWord> patterns;
  const auto skip = [&] {
    for (;;) {
      skip_blanks();
      if (peek() == '#') skip_comment();
      if (peek() != '\n') return;
      next();
      if (!pending_.empty()) read_documents();
    }
  };
  skip();
  const int begun = line_;
  if (looking_at("esac") && !is_of_shell_name(peek(4))) return;  // the next word ends the case
  if (peek() == '(') next();
  while (!at_end() && peek() != ')') {
    if (peek() == '|' || is_shell_blank(peek())) {
      next();
    } else if (is_shell_operator(peek())) {
      break;  // no pattern of a case
    } else {
      patterns.push_back(word());
      read_extended_pattern(patterns.back());
    }
    if (patterns.size() > kMostRunArguments) refuse(begun, "a case of too many patterns");
  }
  if (peek() == ')') next();
  add_keyword(ShellKeyword::pattern_begins, std::move(patterns), begun);
}

/// Reads the word behind =~, of which operators are a part, up to a blank outside of its brackets.
ShellWord Lexer::regular_expression() {
  ShellWord expression{.parts = {}, .line = line_};
  int open = 0;
  while (!at_end() && (open > 0 || (!is_shell_blank(peek()) && peek() != '\n'))) {
    if (open == 0 && (peek() == ')' || looking_at("&&"))) break;
    if (peek() == '(') ++open;
    if (peek() == ')') --open;
    if (is_shell_operator(peek()) || is_shell_blank(peek())) {
      add(expression, next(), false);
    } else {
      piece(expression, false);
    }
  }
  return expression;
}

/// Reads the rest of [[ ... ]], in which operators are words.
void Lexer::read_test() {
  const int begun = line_;
  for (;;) {
    while (!at_end() && (is_shell_blank(peek()) || peek() == '\n')) next();
    if (at_end()) refuse(begun, "a '[[' without its ']]'");
    ShellWord next_word{.parts = {}, .line = line_};
    if (is_literal(command_.words.back(), "=~") && !command_.words.back().parts[0].is_quoted) {
      next_word = regular_expression();
    } else if (is_shell_operator(peek())) {
      const char c = peek();
      add(next_word, next(), false);
      if (peek() == c && (c == '&' || c == '|')) add(next_word, next(), false);
    } else {
      next_word = word();
    }
    const auto& parts = next_word.parts;
    const bool ends = parts.size() == 1 && !parts[0].is_quoted && parts[0].text == "]]";
    command_.words.push_back(std::move(next_word));
    if (ends) return;
    if (command_.words.size() > kMostRunArguments) refuse(begun, "a '[[' of too many words");
  }
}

/// Reads ((I = 0; I < 4; I++)) behind `for`.
void Lexer::read_steps_of_loop(ShellCommand& loop) {
  std::string_view inner = balanced('(', ')');
  inner.remove_prefix(1);
  if (inner.ends_with(')')) inner.remove_suffix(1);
  for (std::size_t at = 0; at <= inner.size();) {
    const std::size_t end = std::min(inner.find(';', at), inner.size());
    loop.steps.emplace_back(inner.substr(at, end - at));
    at = end + 1;
  }
}

/// Reads "NAME in words" behind `for`.
void Lexer::read_list_of_loop() {
  ShellCommand& loop = script_.commands.back();
  skip_blanks();
  if (looking_at("((")) return read_steps_of_loop(loop);
  while (is_of_shell_name(peek())) loop.loop_variable += next();
  skip_blanks();
  if (loop.loop_variable.empty() || !looking_at("in") || is_of_shell_name(peek(2))) return;
  at_ += 2;
  for (skip_blanks(); !at_end() && !is_shell_operator(peek()); skip_blanks()) {
    for (ShellWord& one : words_of_braces(word())) loop.words.push_back(std::move(one));
    if (loop.words.size() > kMostRunArguments) refuse(loop.line, "a loop over too many words");
  }
}

/// Follows a word that is a keyword where a command begins. Returns whether it was one.
bool Lexer::takes_keyword(const ShellWord& word) {
  if (word.parts.size() != 1 || word.parts[0].kind != ShellPart::Kind::literal || word.parts[0].is_quoted)
    return false;
  const std::string& text = word.parts[0].text;
  const auto* const row = std::ranges::find(kKeywords, text, &KeywordRow::word);
  if (row != kKeywords.end() && row->keyword == ShellKeyword::case_begins) {
    read_case(word.line);
    return true;
  }
  if (row != kKeywords.end()) {
    add_keyword(row->keyword, {}, word.line);
    if (row->keyword == ShellKeyword::loop_begins) script_.commands.back().loop = text;
    if (row->keyword == ShellKeyword::case_ends) cases_ = std::max(0, cases_ - 1);
    if (text == "for") read_list_of_loop();
    return true;
  }
  if (is_one_of(text, kDeclaring)) {
    declares_ = true;
    is_local_ = is_one_of(text, kLocal);
    return true;
  }
  if (text == "function") {
    names_function_ = true;
    return true;
  }
  if (takes_brace(text, word.line)) return true;
  if (text == "!") negates_ = !negates_;
  return text == "!" || text == kIgnored;
}

/// Follows a brace where a command begins: that of a function, or of a group.
bool Lexer::takes_brace(const std::string& text, int line) {
  if (text == "{") {
    braces_.push_back(function_.has_value());
    if (function_) {
      add_keyword(ShellKeyword::function_begins, {*std::exchange(function_, {})}, line);
    } else {
      add_keyword(ShellKeyword::group_begins, {}, line);
    }
    return true;
  }
  if (text != "}") return false;
  if (braces_.empty()) return true;
  add_keyword(braces_.back() ? ShellKeyword::function_ends : ShellKeyword::group_ends, {}, line);
  braces_.pop_back();
  return true;
}

/// Follows the name of a function: "name ()" or "function name".
bool Lexer::takes_name_of_function(const ShellWord& word) {
  const bool is_named = std::exchange(names_function_, false);
  const std::size_t at = at_;
  while (!at_end() && is_shell_blank(peek())) next();
  bool has_brackets = peek() == '(';
  if (has_brackets) {
    next();
    while (!at_end() && is_shell_blank(peek())) next();
    has_brackets = peek() == ')';
    if (has_brackets) next();
  }
  if (!has_brackets) at_ = at;
  if (!has_brackets && !is_named) return false;
  function_ = word;
  return true;
}

void Lexer::begin_command() {
  command_.line = line_;
  command_.chain = chain_;
  command_.is_negated = negates_;
  is_joining_ = false;
}

/// Reads a command ((...)), where one begins here.
bool Lexer::read_arithmetic() {
  if (!looking_at("((") || !command_.words.empty() || !command_.assignments.empty()) return false;
  const std::size_t at = at_;
  const int line = line_;
  const std::string inner(balanced('(', ')'));
  if (!inner.ends_with(')')) {  // a subshell
    at_ = at;
    line_ = line;
    return false;
  }
  begin_command();
  command_.line = line;
  command_.words.push_back({{{.kind = ShellPart::Kind::literal, .text = "(("}}, line});
  command_.words.push_back({{arithmetic(inner, "(" + inner + ")", true)}, line});
  return true;
}

/// Follows a word of `declare` that assigns nothing: an option, or a name without a value.
void Lexer::declare(const ShellWord& word) {
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

void Lexer::read_word_of_command() {
  const bool begins = command_.words.empty();
  if (begins && command_.assignments.empty() && !declares_) begin_command();
  if (begins && read_assignment()) return;
  ShellWord word = this->word();
  const bool is_number = word.parts.size() == 1 && whole_number(word.parts[0].text).has_value();
  if (is_number && (peek() == '<' || peek() == '>')) {  // the number of a redirected file
    redirects_errors_ = word.parts[0].text == "2";
    return;
  }
  if (begins && !names_function_ && takes_keyword(word)) return;
  if (begins && command_.assignments.empty() && !declares_ && takes_name_of_function(word)) return;
  if (begins) function_.reset();
  if (declares_) return declare(word);
  const bool is_test = begins && word.parts.size() == 1 && word.parts[0].source.empty() &&
                       !word.parts[0].is_quoted && word.parts[0].text == "[[";
  for (ShellWord& one : words_of_braces(std::move(word))) command_.words.push_back(std::move(one));
  if (is_test) read_test();
  if (command_.words.size() > kMostRunArguments) refuse(command_.line, "a command of too many words");
}

ShellScript Lexer::script() {
  for (;;) {
    skip_blanks();
    if (at_end()) break;
    if (peek() == '#') {
      skip_comment();
    } else if (read_arithmetic()) {
      continue;
    } else if (is_shell_operator(peek())) {
      operate();
    } else {
      read_word_of_command();
    }
  }
  end_command();
  for (; !braces_.empty(); braces_.pop_back())
    if (braces_.back()) add_keyword(ShellKeyword::function_ends, {}, line_);
  if (!pending_.empty()) read_documents();
  script_.commands = with_shells_of_jobs(std::move(script_.commands));
  return std::move(script_);
}

}  // namespace

ShellScript parse_shell(std::string_view text, int first_line) { return Lexer(text, first_line).script(); }

}  // namespace verify
