#include "verify/run_arguments/shell_words.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_blocks.h"
#include "verify/run_arguments/shell_braces.h"
#include "verify/run_arguments/shell_jobs.h"
#include "verify/run_arguments/shell_lexer.h"

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

}  // namespace

void ShellLexer::skip_blanks() {
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

void ShellLexer::skip_comment() {
  const std::size_t end = std::min(text_.find('\n', at_), text_.size());
  const std::string_view comment = text_.substr(at_, end - at_);
  if (comment.starts_with("#SBATCH")) script_.directives.emplace_back(line_, comment.substr(1));
  at_ = end;
}

void ShellLexer::end_command() {
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

void ShellLexer::operate() {
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
void ShellLexer::refuse_bare_bracket() {
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
      {.code = "bare_bracket",
       .option = fmt::format("line {}", line_),
       .numbers = "a '(' without quotes among the arguments of a command",
       .rule = "a shell takes a bracket for the begin of a subshell, and stops at one among arguments",
       .hint = "the whole value in quotes, as in \"([0]*3+[1]*29)\""});
}

void ShellLexer::add_keyword(ShellKeyword keyword, std::vector<ShellWord> words, int line) {
  end_command();
  ShellCommand command{.keyword = keyword, .assignments = {}, .words = std::move(words), .documents = {}};
  command.line = line;
  command.chain = std::exchange(chain_, {});
  command.is_negated = negates_;
  script_.commands.push_back(std::move(command));
  negates_ = false;
}

/// Follows a word that is a keyword where a command begins. Returns whether it was one.
bool ShellLexer::takes_keyword(const ShellWord& word) {
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
bool ShellLexer::takes_brace(const std::string& text, int line) {
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
bool ShellLexer::takes_name_of_function(const ShellWord& word) {
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

void ShellLexer::begin_command() {
  command_.line = line_;
  command_.chain = chain_;
  command_.is_negated = negates_;
  is_joining_ = false;
}

/// Reads a command ((...)), where one begins here.
bool ShellLexer::read_arithmetic() {
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

void ShellLexer::read_word_of_command() {
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

ShellScript ShellLexer::script() {
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
    if (braces_.back()) add_keyword(ShellKeyword::function_ends, {}, kLineOfNoBrace);
  if (!pending_.empty()) read_documents();
  script_.commands = with_shells_of_jobs(std::move(script_.commands));
  return std::move(script_);
}

ShellScript parse_shell(std::string_view text, int first_line) {
  return ShellLexer(text, first_line).script();
}

}  // namespace verify
