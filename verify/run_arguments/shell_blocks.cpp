// What begins with a keyword: branches, loops, groups, functions and [[ ... ]].

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_parser.h"

namespace verify {

const ShellParser::Block ShellParser::kIf = {"an `if`", "then", "fi"};
const ShellParser::Block ShellParser::kLoop = {"a loop", "do", "done"};
const ShellParser::Block ShellParser::kCase = {"a `case`", "", "esac"};
const ShellParser::Block ShellParser::kGroup = {"a `{`", "", "}"};
const ShellParser::Block ShellParser::kFunction = {"the `{` of a function", "", "}"};
const ShellParser::Block ShellParser::kSubshell = {"a '('", "", ")"};

/// Takes a word of a block, or refuses what stands in its place.
void ShellParser::expect(const Block& block, std::string_view word, int line) {
  const std::string found(closing());
  if (found == word || keyword() == word) {
    takes(word);
    return;
  }
  const bool is_missing = found.empty() || (word == block.second && found == block.last);
  sim::refuse(
      {.code = "script_syntax",
       .option = fmt::format("line {}", is_missing ? line : line_),
       .numbers = is_missing ? fmt::format("{} without its `{}`", block.name, word)
                             : fmt::format("`{}` where {} of line {} has not ended", found, block.name, line),
       .rule = "a shell runs nothing of a script whose blocks do not end in the order in which they begin",
       .hint = fmt::format("`{}` behind the command before it", word)});
}

void ShellParser::refuse_end(const std::string& word) const {
  std::string name = kCase.name;
  for (const Block* block : {&kIf, &kLoop, &kGroup, &kSubshell})
    if (word == block->last || word == block->second) name = block->name;
  refuse(line_, fmt::format("`{}` without {}", word, name));
}

ShellCommand ShellParser::begun(Kind kind, std::string_view word) {
  takes(word);
  ShellCommand command{.kind = kind, .line = line_};
  skip_blanks();
  return command;
}

/// Reads a command that begins with a keyword. Returns whether one stands here.
bool ShellParser::block(ShellCommand& command) {
  const std::string word(keyword());
  if (begins_arithmetic()) {
    command = begun(Kind::arithmetic, "((");
    command.words.push_back(expression(")"));
    takes("))");
  } else if (peek() == '(') {
    command = group(Kind::subshell, "(", kSubshell);
  } else if (word == "{") {
    command = group(Kind::group, word, kGroup);
  } else if (word == "if") {
    command = branch(word);
  } else if (word == "for" || word == "select") {
    command = each(word);
  } else if (word == "while" || word == "until") {
    command = begun(Kind::repeat, word);
    command.name = word;
    ShellList condition = list();
    command.lists = {body_of_loop(command.line), std::move(condition)};
  } else if (word == "case") {
    command = choice();
  } else if (word == "[[") {
    command = test();
  } else if (word == "function" || is_function()) {
    command = function();
  } else {
    return false;
  }
  return true;
}

ShellCommand ShellParser::group(Kind kind, std::string_view first, const Block& block) {
  ShellCommand group = begun(kind, first);
  group.lists.push_back(list());
  expect(block, block.last, group.line);
  return group;
}

/// Reads a branch, whose first word is "if" or "elif".
ShellCommand ShellParser::branch(std::string_view word) {
  const Nested nested(*this);
  ShellCommand branch = begun(Kind::branch, word);
  branch.lists.push_back(list());
  expect(kIf, kIf.second, branch.line);
  branch.lists.push_back(list());
  if (closing() == "elif") {
    branch.lists.push_back({this->branch("elif")});
    return branch;
  }
  if (closing() == "else") {
    takes("else");
    branch.lists.push_back(list());
  }
  expect(kIf, kIf.last, branch.line);
  return branch;
}

/// Reads the commands of a loop, which may stand in braces.
ShellList ShellParser::body_of_loop(int line) {
  skip_separators();
  const bool has_braces = keyword() == "{";
  expect(kLoop, has_braces ? "{" : kLoop.second, line);
  ShellList body = list();
  expect(has_braces ? kGroup : kLoop, has_braces ? "}" : kLoop.last, line);
  return body;
}

/// Reads `for NAME in words`, `for NAME` and for ((I = 0; I < 4; I++)).
ShellCommand ShellParser::each(std::string_view word) {
  ShellCommand loop = begun(Kind::each, word);
  if (takes("((")) {
    loop.kind = Kind::counted;
    for (int i = 0; i < 3; ++i) {
      loop.words.push_back(expression(";)"));
      takes(";");
    }
    if (!takes("))")) refuse(loop.line, "a '(' without its ')'");
  } else {
    loop.name = keyword();
    takes(loop.name);
    skip_blanks(true);
    const bool has_list = keyword() == "in" && takes("in");
    for (skip_blanks(); has_list && argument(loop); skip_blanks()) {
    }
    if (!has_list)
      loop.words.push_back({{{.kind = ShellPart::Kind::parameter,
                              .is_quoted = true,
                              .text = "@",
                              .source = "$@",
                              .elements = '@'}},
                            loop.line});
    if (word == "select")
      loop.words = {{{{.kind = ShellPart::Kind::unknown, .source = "select"}}, loop.line}};
  }
  loop.lists.push_back(body_of_loop(loop.line));
  return loop;
}

ShellCommand ShellParser::choice() {
  ShellCommand choice = begun(Kind::choice, "case");
  choice.words.push_back(word());
  skip_separators();
  if (keyword() == "in") takes("in");
  for (skip_separators(); keyword() != "esac" && !at_end(); skip_separators()) {
    ShellPattern& pattern = choice.patterns.emplace_back();
    takes("(");
    do {
      skip_blanks();
      pattern.words.push_back(this->pattern("|)"));
      skip_blanks();
    } while (takes("|"));
    if (!takes(")")) expect(kCase, kCase.last, choice.line);
    choice.lists.push_back(list());
    if (peek() == ')') refuse(line_, "a pattern of a `case` behind commands that do not end with `;;`");
    for (const std::string_view ending : {";;&", ";;", ";&"})
      if (pattern.ending.empty() && takes(ending)) pattern.ending = ending;
    if (pattern.ending.empty()) break;
  }
  expect(kCase, kCase.last, choice.line);
  return choice;
}

/// Reads a word in which brackets may stand, up to a blank or one of these signs.
ShellWord ShellParser::pattern(std::string_view ends) {
  ShellWord word{.line = line_};
  for (int open = 0; !at_end() && peek() != '\n';) {
    const char c = peek();
    const bool is_end = c == ' ' || c == '\t' || ends.find(c) != std::string_view::npos;
    if (open == 0 && is_end) break;
    open += c == '(' ? 1 : c == ')' ? -1 : 0;
    piece(word, false);
  }
  return word;
}

ShellCommand ShellParser::test() {
  ShellCommand test = begun(Kind::test, "[[");
  for (skip_blanks(true); keyword() != "]]"; skip_blanks(true)) {
    if (at_end()) refuse(test.line, "a '[[' without its ']]'");
    const bool is_expression = !test.words.empty() && is_literal(test.words.back(), "=~");
    ShellWord word = pattern(is_expression ? "" : "&|()<>");
    const bool is_double = looking_at("&&") || looking_at("||");
    if (word.parts.empty() && !at_end()) add(word, next(), false);
    if (is_literal(word, std::string(1, peek())) && is_double) add(word, next(), false);
    test.words.push_back(std::move(word));
    if (test.words.size() > kMostRunArguments) refuse(test.line, "a command of too many words");
  }
  takes("]]");
  return test;
}

/// Whether the name of a function stands here: name ().
bool ShellParser::is_function() const {
  const std::string_view name = keyword();
  std::size_t at = std::min(text_.find_first_not_of(" \t", at_ + name.size()), text_.size());
  if (name.empty() || name.find_first_of("$'\"`=\\") != std::string_view::npos || text_.substr(at, 1) != "(")
    return false;
  at = std::min(text_.find_first_not_of(" \t", at + 1), text_.size());
  return text_.substr(at, 1) == ")";
}

ShellCommand ShellParser::function() {
  ShellCommand function = begun(Kind::function, keyword() == "function" ? "function" : "");
  function.name = keyword();
  takes(function.name);
  skip_blanks();
  if (takes("(")) {
    skip_blanks();
    takes(")");
  }
  skip_separators();
  const bool is_group = keyword() == "{";
  function.lists.push_back({is_group ? group(Kind::group, "{", kFunction) : command()});
  return function;
}

}  // namespace verify
