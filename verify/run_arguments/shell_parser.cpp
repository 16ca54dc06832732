#include "verify/run_arguments/shell_parser.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

constexpr std::string_view kOperators = "\n;&|()<>";
constexpr std::array<std::string_view, 8> kClosing = {"then", "elif", "else", "fi",
                                                      "do",   "done", "esac", "}"};
constexpr std::array<std::string_view, 5> kDeclaring = {"export", "declare", "local", "readonly", "typeset"};

bool is_one_of(char c, std::string_view signs) {
  return c != '\0' && signs.find(c) != std::string_view::npos;
}

/// Whether a shell makes several words of a word with braces: {1..3}, {a,b}.
bool has_braces(const ShellWord& word) {
  return std::ranges::any_of(word.parts, [](const ShellPart& part) {
    const bool is_bare = part.kind == ShellPart::Kind::literal && !part.is_quoted;
    const std::size_t begin = is_bare ? part.text.find('{') : std::string::npos;
    return begin != std::string::npos && (part.text.find(',', begin) != std::string::npos ||
                                          part.text.find("..", begin) != std::string::npos);
  });
}

}  // namespace

/// Skips blanks, joined lines and a comment. A line break begins the here-documents of its line.
void ShellParser::skip_blanks(bool also_lines) {
  for (;;) {
    while (peek() == ' ' || peek() == '\t' || looking_at("\\\n")) {
      if (next() == '\\') next();
    }
    if (peek() == '#') {
      const std::size_t start = at_;
      at_ = std::min(text_.find('\n', at_), text_.size());
      if (since(start).starts_with("#SBATCH")) directives_.emplace_back(line_, since(start + 1));
    }
    if (!also_lines || peek() != '\n') return;
    next();
    if (!pending_.empty()) read_documents();
  }
}

void ShellParser::skip_separators() {
  for (skip_blanks(true); !at_end() && !looking_at(";;") && !looking_at(";&") && !looking_at("&>");
       skip_blanks(true)) {
    if (peek() != ';' && peek() != '&' && peek() != '|') return;
    next();
  }
}

/// Returns the word without quotes that stands here, where a command may begin.
std::string_view ShellParser::keyword() const {
  return text_.substr(at_, text_.find_first_of(" \t\n;&|()<>", at_) - at_);
}

/// Returns the sign or the word that stands here and ends a list of commands; "" for others.
std::string_view ShellParser::closing() const {
  if (peek() == ')') return ")";
  if (looking_at(";;") || looking_at(";&")) return text_.substr(at_, 2);
  const std::string_view word = keyword();
  return std::ranges::find(kClosing, word) != kClosing.end() ? word : "";
}

ShellList ShellParser::list() {
  const Nested nested(*this);
  ShellList commands;
  for (skip_separators(); !at_end() && closing().empty(); skip_separators()) chain(commands);
  return commands;
}

/// Reads commands that && and || join. An & behind them sends all of them into the background.
void ShellParser::chain(ShellList& commands) {
  ShellList joined;
  for (std::string joint;;) {
    joined.push_back(pipeline());
    joined.back().chain = joint;
    if (!looking_at("&&") && !looking_at("||")) break;
    joint = {next(), next()};
    skip_blanks(true);
    if (at_end() || !closing().empty()) break;
  }
  if (peek() == '&' && peek(1) != '>') {
    next();
    commands.push_back({.kind = Kind::subshell, .line = joined.front().line, .name = "&"});
    commands.back().lists.push_back(std::move(joined));
  } else {
    std::ranges::move(joined, std::back_inserter(commands));
  }
}

ShellCommand ShellParser::pipeline() {
  ShellCommand all{.kind = Kind::pipeline, .line = line_};
  for (; keyword() == "!"; skip_blanks()) {
    next();
    all.is_negated = !all.is_negated;
  }
  for (;;) {
    all.lists.push_back({command()});
    skip_blanks();
    if (peek() != '|' || peek(1) == '|') break;
    next();
    takes("&");
    skip_blanks(true);
    if (at_end() || !closing().empty()) break;
  }
  if (all.lists.size() > 1) return all;
  ShellCommand one = std::move(all.lists[0][0]);
  one.is_negated = all.is_negated;
  return one;
}

ShellCommand ShellParser::command() {
  const Nested nested(*this);
  ShellCommand command;
  if (!block(command)) return simple();
  for (skip_blanks(); redirection(command); skip_blanks()) {
  }
  return command;
}

ShellCommand ShellParser::simple() {
  ShellCommand command{.line = line_};
  for (skip_blanks(); argument(command); skip_blanks())
    if (command.words.size() > kMostRunArguments) refuse(command.line, "a command of too many words");
  if (peek() == '(') refuse_bare_bracket(command);
  return command;
}

/// Reads a word. What braces make of it is not followed.
ShellWord ShellParser::plain_word() {
  const std::size_t start = at_;
  ShellWord word = this->word();
  if (has_braces(word)) word.parts = {{.kind = ShellPart::Kind::unknown, .source = since(start)}};
  return word;
}

/// Reads the next assignment, word or redirection of a command. Returns whether there is one.
bool ShellParser::argument(ShellCommand& command) {
  if (redirection(command)) return true;
  if (const std::size_t start = at_; process()) {
    command.words.push_back({{{.kind = ShellPart::Kind::unknown, .source = since(start)}}, line_});
    return true;
  }
  if (at_end() || is_one_of(peek(), kOperators)) return false;
  const bool begins = command.words.empty();
  const bool declares = !begins && std::ranges::any_of(kDeclaring, [&](std::string_view word) {
    return is_literal(command.words.front(), word);
  });
  if (begins && assignment(command.assignments)) return true;
  if (declares && assignment(command.declared)) return true;
  command.words.push_back(plain_word());
  return true;
}

/// Reads NAME=value, NAME+=value, NAME[index]=value or NAME=(...). Returns whether one stands here.
bool ShellParser::assignment(std::vector<ShellAssignment>& list) {
  const std::size_t start = at_;
  const int line = line_;
  ShellAssignment found{.line = line};
  if (begins_shell_name(peek()))
    while (is_of_shell_name(peek())) found.name += next();
  if (!found.name.empty() && takes("[")) {
    found.index = std::make_shared<const ShellWord>(word_to("]\n", true));
    takes("]");
  }
  found.appends = looking_at("+=");
  if (found.name.empty() || (!takes("+=") && !takes("="))) {
    at_ = start;
    line_ = line;
    return false;
  }
  found.is_array = takes("(");
  if (!found.is_array) found.values.push_back(word());
  list.push_back(std::move(found));
  if (list.back().is_array) array(list);
  return true;
}

/// Reads the elements of an array, up to its ")". One with an index is an assignment of its own.
void ShellParser::array(std::vector<ShellAssignment>& list) {
  const std::size_t whole = list.size() - 1;
  const int begun = list[whole].line;
  for (skip_blanks(true); !takes(")"); skip_blanks(true)) {
    if (at_end() || is_one_of(peek(), kOperators)) refuse(begun, "a '(' without its ')'");
    const std::size_t end = peek() == '[' ? keyword().find("]=") : std::string_view::npos;
    if (end == std::string_view::npos) {
      list[whole].values.push_back(plain_word());
    } else {
      next();
      ShellAssignment element{.name = list[whole].name, .line = line_};
      element.index = std::make_shared<const ShellWord>(word_to("]", true));
      takes("]=");
      element.values.push_back(word());
      list.push_back(std::move(element));
    }
    if (list[whole].values.size() + list.size() > kMostRunArguments)
      refuse(begun, "an array of too many words");
  }
}

/// Refuses a bracket among the arguments of a Python file, which no shell takes. In a text that is no script,
/// the name of a file has other signs around it.
void ShellParser::refuse_bare_bracket(const ShellCommand& command) const {
  bool starts_python = false, has_flag = false;
  for (const ShellWord& word : command.words) {
    const std::string text = word.parts.size() == 1 && !word.parts[0].is_quoted ? word.parts[0].text : "";
    starts_python = starts_python || text.ends_with(".py");
    has_flag = has_flag || text.starts_with("--");
  }
  if (!starts_python || !has_flag) return;
  sim::refuse(
      {.code = "bare_bracket",
       .option = fmt::format("line {}", line_),
       .numbers = "a '(' without quotes among the arguments of a command",
       .rule = "a shell takes a bracket for the begin of a subshell, and stops at one among arguments",
       .hint = "the whole value in quotes, as in \"([0]*3+[1]*29)\""});
}

/// Reads <(...) or >(...), where one stands here. It is not followed.
bool ShellParser::process() {
  if (!looking_at("<(") && !looking_at(">(")) return false;
  const int begun = line_;
  at_ += 2;
  list();
  if (!takes(")")) refuse(begun, "a '(' without its ')'");
  return true;
}

/// Reads a redirection, where one stands here. Of files only that of the output is kept.
bool ShellParser::redirection(ShellCommand& command) {
  std::size_t digits = 0;
  while (std::isdigit(static_cast<unsigned char>(peek(digits))) != 0) ++digits;
  const bool is_here = peek(digits) == '<' || peek(digits) == '>' || (digits == 0 && looking_at("&>"));
  const bool is_process = digits == 0 && (looking_at("<(") || looking_at(">("));
  if (!is_here || is_process) return false;
  const bool is_of_errors = digits > 0 && peek() != '1';
  at_ += digits;
  std::string sign;
  while (is_one_of(peek(), "<>&") || (peek() == '|' && !sign.empty())) sign += next();
  if (sign == "<<") return here_document(command);
  skip_blanks();
  const bool is_output = !is_of_errors && sign[0] != '<';
  if (process()) return true;
  ShellWord target = word();
  const bool is_text = sign == "<<<", is_copy = sign == ">&";
  if (sign == "<") target.parts = {{.kind = ShellPart::Kind::unknown, .source = "<"}};
  if (is_copy) target.parts.insert(target.parts.begin(), {.text = "&"});
  if (is_output) command.appends = sign.find(">>") != std::string::npos;
  if (is_output) command.output = {std::move(target)};
  if (is_text || sign == "<") command.input.push_back(std::move(target));
  return true;
}

/// Reads the last word of a here-document, whose text begins behind the line.
bool ShellParser::here_document(ShellCommand& command) {
  PendingDocument pending{std::make_shared<HereDocument>(), "", takes("-")};
  skip_blanks();
  for (const ShellPart& part : word().parts) {
    pending.end += part.kind == ShellPart::Kind::literal ? part.text : part.source;
    pending.document->is_literal = pending.document->is_literal || part.is_quoted;
  }
  command.documents.push_back(pending.document);
  pending_.push_back(std::move(pending));
  return true;
}

/// Reads the here-documents whose text begins on this line.
void ShellParser::read_documents() {
  for (const PendingDocument& pending : std::exchange(pending_, {})) {
    const int begun = line_;
    std::string indented;  // where a last word has blanks beside it
    pending.document->line = line_;
    for (;;) {
      if (at_end())
        refuse(begun, fmt::format("a here-document without its last line '{}'{}", pending.end, indented));
      const int line_of_text = line_;
      std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
      at_ += line.size();
      if (!at_end()) next();
      if (pending.strips_tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line == pending.end) break;
      pending.document->text.append(line).append("\n");
      const std::size_t first = std::min(line.find_first_not_of(" \t"), line.size());
      line = line.substr(first, line.find_last_not_of(" \t") + 1 - first);
      if (line == pending.end && indented.empty() && !line.empty())
        indented = fmt::format(": line {} has blanks beside it", line_of_text);
    }
  }
}

ShellScript ShellParser::script() {
  ShellScript script;
  for (;;) {
    std::ranges::move(list(), std::back_inserter(script.commands));
    if (at_end()) break;
    const std::string found(closing());
    if (is_script_) refuse_end(found);
    takes(found);
  }
  if (!pending_.empty()) read_documents();
  script.directives = std::move(directives_);
  return script;
}

ShellScript parse_shell(std::string_view text, int first_line, bool counts_lines) {
  return ShellParser(text, first_line, counts_lines).script();
}

}  // namespace verify
