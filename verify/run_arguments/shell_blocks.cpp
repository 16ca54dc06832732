// What begins with a keyword: branches, loops, groups, functions and [[ ... ]].

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_parser.h"

namespace verify {

using CommandKind = ShellCommand::Kind;

const ShellParser::Block ShellParser::kIf = {"an `if`", "the `if`", "then", "fi"};
const ShellParser::Block ShellParser::kLoop = {"a loop", "the loop", "do", "done"};
const ShellParser::Block ShellParser::kCase = {"a `case`", "the `case`", "", "esac"};
const ShellParser::Block ShellParser::kGroup = {"a `{`", "the group", "", "}"};
const ShellParser::Block ShellParser::kFunction = {"the `{` of a function", "the function", "", "}"};
const ShellParser::Block ShellParser::kSubshell = {"a '('", "the subshell", "", ")"};

namespace {

[[noreturn]] void refuse_block(int line, std::string numbers, std::string rule, std::string hint) {
  sim::refuse({.code = "script_syntax",
               .option = fmt::format("line {}", line),
               .numbers = std::move(numbers),
               .rule = std::move(rule),
               .hint = std::move(hint)});
}

}  // namespace

void ShellParser::refuse_begin(const std::string& word) const {
  const Block* const blocks[] = {&kIf, &kLoop, &kCase, &kGroup, &kSubshell};
  const auto* const block = std::ranges::find_if(
      blocks, [&](const Block* one) { return one->last == word || one->second == word; });
  refuse_block(line_,
               fmt::format("`{}` without {}", word, block == std::end(blocks) ? "a `case`" : (*block)->name),
               "a shell runs nothing of a script with an end of a block that does not begin",
               fmt::format("the script without this `{}`", word));
}

/// Takes a word of a block, or refuses what stands in its place.
void ShellParser::expect(const Block& block, std::string_view word, int line) {
  const std::string_view found = closing();
  if (found == word || (word == "{" && keyword() == word)) {
    takes(word);
  } else if (word == block.second && (at_end() || found == block.last)) {
    refuse_block(line, fmt::format("{} without its `{}`", block.name, word),
                 "a shell runs nothing of a script with such a block",
                 fmt::format("`{}` before the commands of {}", word, block.named));
  } else if (at_end()) {
    refuse_block(line, fmt::format("{} without its `{}`", block.name, word),
                 "a shell runs nothing of a block that does not end",
                 fmt::format("`{}` behind the last command of {}", word, block.named));
  } else {
    refuse_block(line_, fmt::format("`{}` where {} of line {} has not ended", found, block.name, line),
                 "a shell runs nothing of a script whose blocks do not end in the order in which they begin",
                 fmt::format("`{}` before it", word));
  }
}

ShellCommand ShellParser::begun(CommandKind kind, std::string_view word) {
  takes(word);
  return {.kind = kind, .line = line_};
}

/// Reads what begins with a keyword; nothing where none stands here.
std::optional<ShellCommand> ShellParser::block() {
  if (looking_at("((")) {
    if (std::optional<ShellCommand> found = arithmetic()) return found;
  }
  const std::string word(keyword());
  if (peek() == '(') return group(CommandKind::subshell, "(", kSubshell);
  if (word == "{") return group(CommandKind::group, "{", kGroup);
  if (word == "if") return branch("if");
  if (word == "for" || word == "select") return each(word);
  if (word == "while" || word == "until") return repeat(word);
  if (word == "case") return choice();
  if (word == "[[") return test();
  if (word == "function" || is_function()) return function();
  return std::nullopt;
}

ShellCommand ShellParser::group(CommandKind kind, std::string_view first, const Block& block) {
  ShellCommand group = begun(kind, first);
  group.lists.push_back(list());
  expect(block, block.last, group.line);
  return group;
}

/// Reads a command ((...)); nothing where the brackets are those of subshells.
std::optional<ShellCommand> ShellParser::arithmetic() {
  const std::size_t length = bracketed();
  if (length < 4 || !text_.substr(at_, length).ends_with("))")) return std::nullopt;
  ShellCommand command{.kind = CommandKind::arithmetic, .line = line_};
  ShellWordReader inner(text_.substr(at_ + 2, length - 4), line_, counts_lines_);
  command.words.push_back(inner.expression());
  const std::size_t end = at_ + length;
  while (at_ < end) next();
  return command;
}

/// Reads a branch, of which the word is the first one: "if" or "elif". In a text that is no script, an `if`
/// behind which no `then` stands is a word.
std::optional<ShellCommand> ShellParser::branch(std::string_view word) {
  const Nested nested(*this);
  const std::size_t start = at_;
  ShellCommand branch = begun(CommandKind::branch, word);
  branch.lists.push_back(list());
  if (at_end() && !is_script_) {
    plain_words_.insert(start);
    at_ = start;
    line_ = branch.line;
    pending_.clear();
    if (plain_words_.size() > kMostPlainWords) refuse(line_, "more than 100 words `if` without their `then`");
    return std::nullopt;
  }
  expect(kIf, kIf.second, branch.line);
  branch.lists.push_back(list());
  if (closing() == "elif") {
    std::optional<ShellCommand> other = this->branch("elif");
    if (other) branch.lists.push_back({std::move(*other)});
    return branch;
  }
  const int line_of_else = line_;
  if (closing() == "else") {
    takes("else");
    branch.lists.push_back(list());
    const ShellList& other = branch.lists.back();
    const bool opens_another = at_end() && !other.empty() && other.front().kind == CommandKind::branch &&
                               other.front().line == line_of_else;
    if (opens_another) {
      refuse_block(
          branch.line, "an `if` without its `fi`", "a shell runs nothing of a block that does not end",
          fmt::format("`elif` in the place of the `else if` of line {}, or one more `fi`", line_of_else));
    }
  }
  expect(kIf, kIf.last, branch.line);
  return branch;
}

/// Reads the commands of a loop, which may stand in braces.
ShellList ShellParser::body_of_loop(int line) {
  skip_separators();
  const bool has_braces = keyword() == "{";
  const Block& block = has_braces ? kGroup : kLoop;
  expect(block, has_braces ? "{" : kLoop.second, line);
  ShellList body = list();
  expect(block, block.last, line);
  return body;
}

ShellCommand ShellParser::each(std::string_view word) {
  ShellCommand loop = begun(CommandKind::each, word);
  skip_blanks();
  if (looking_at("((")) {
    steps(loop);
  } else {
    loop.name = keyword();
    takes(loop.name);
    for (skip_blanks(); peek() == '\n'; skip_blanks()) new_line();
    const bool has_list = keyword() == "in";
    if (has_list) takes("in");
    for (skip_blanks(); has_list && argument(loop); skip_blanks()) {
    }
    const ShellPart all{.kind = ShellPart::Kind::parameter,
                        .is_quoted = true,
                        .text = "@",
                        .source = "$@",
                        .elements = ShellPart::Elements::all};
    if (!has_list) loop.words.push_back({{all}, loop.line});
  }
  if (word == "select")
    loop.words = {{{{.kind = ShellPart::Kind::unknown, .text = {}, .source = "select"}}, loop.line}};
  loop.lists.push_back(body_of_loop(loop.line));
  return loop;
}

/// Reads the three expressions of for ((I = 0; I < 4; I++)).
void ShellParser::steps(ShellCommand& loop) {
  loop.kind = CommandKind::counted;
  const std::size_t length = bracketed();
  if (length < 4) refuse(line_, "a '(' without its ')'");
  std::string_view inner = text_.substr(at_ + 2, length - 4);
  for (int i = 0; i < 3; ++i) {
    const std::size_t end = std::min(inner.find(';'), inner.size());
    loop.words.push_back(ShellWordReader(inner.substr(0, end), line_, counts_lines_).expression());
    inner.remove_prefix(std::min(end + 1, inner.size()));
  }
  at_ += length;
}

ShellCommand ShellParser::repeat(std::string_view word) {
  ShellCommand loop = begun(CommandKind::repeat, word);
  loop.is_opposite = word == "until";
  loop.lists.push_back(list());
  loop.lists.push_back(body_of_loop(loop.line));
  return loop;
}

/// Reads the patterns of a `case`, up to their ")".
ShellPattern ShellParser::patterns(int line) {
  ShellPattern patterns;
  takes("(");
  for (;;) {
    skip_blanks();
    patterns.words.push_back(word_of_test(false));
    skip_blanks();
    if (!takes("|")) break;
  }
  if (!takes(")")) {
    refuse_block(line, "a `case` without its `esac`", "a shell runs nothing of a block that does not end",
                 "`esac` behind the last command of the `case`");
  }
  return patterns;
}

ShellCommand ShellParser::choice() {
  ShellCommand choice = begun(CommandKind::choice, "case");
  skip_blanks();
  choice.words.push_back(word());
  skip_separators();
  if (keyword() == "in") takes("in");
  for (skip_separators(); keyword() != "esac" && !at_end(); skip_separators()) {
    choice.patterns.push_back(patterns(choice.line));
    choice.lists.push_back(list());
    if (peek() == ')') {
      refuse_block(line_, "a pattern of a `case` behind commands that do not end with `;;`",
                   "the commands of each pattern but the last one end with `;;`: a shell runs nothing of "
                   "this script",
                   "`;;` behind the last command before the pattern");
    }
    for (const std::string_view ending : {";;&", ";;", ";&"}) {
      if (!choice.patterns.back().ending.empty() || !takes(ending)) continue;
      choice.patterns.back().ending = ending;
    }
    if (choice.patterns.back().ending.empty()) break;
  }
  expect(kCase, kCase.last, choice.line);
  return choice;
}

/// Reads a pattern, or a word of [[ ... ]], in which brackets may stand.
ShellWord ShellParser::word_of_test(bool is_expression) {
  ShellWord word{.parts = {}, .line = line_};
  for (int open = 0; !at_end();) {
    const char c = peek();
    const bool is_bracket = c == '(' || c == ')';
    const bool ends =
        is_shell_blank(c) || (is_shell_operator(c) && !(c == '(' && !word.parts.empty()) && !is_expression);
    if (c == '\n' || (open == 0 && (ends || (c == ')' && !is_expression)))) break;
    open += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (is_bracket || is_shell_operator(c) || is_shell_blank(c)) {
      add(word, next(), false);
    } else {
      piece(word, false);
    }
  }
  return word;
}

ShellCommand ShellParser::test() {
  ShellCommand test = begun(CommandKind::test, "[[");
  bool is_expression = false;
  for (;;) {
    for (skip_blanks(); peek() == '\n'; skip_blanks()) new_line();
    if (at_end()) refuse(test.line, "a '[[' without its ']]'");
    if (keyword() == "]]") break;
    ShellWord word{.parts = {}, .line = line_};
    const bool is_double = looking_at("&&") || looking_at("||");
    if (!is_expression && is_shell_operator(peek())) {
      for (int i = is_double ? 2 : 1; i > 0; --i) add(word, next(), false);
    } else {
      word = word_of_test(is_expression);
    }
    is_expression = is_literal(word, "=~");
    test.words.push_back(std::move(word));
    if (test.words.size() > kMostRunArguments) refuse(test.line, "a command of too many words");
  }
  takes("]]");
  return test;
}

ShellCommand ShellParser::function() {
  ShellCommand function = begun(CommandKind::function, keyword() == "function" ? "function" : "");
  skip_blanks();
  function.name = keyword();
  takes(function.name);
  skip_blanks();
  if (takes("(")) {
    skip_blanks();
    takes(")");
  }
  skip_separators();
  if (keyword() == "{") {
    function.lists.push_back({group(CommandKind::group, "{", kFunction)});
  } else {
    function.lists.push_back({command()});
  }
  return function;
}

}  // namespace verify
