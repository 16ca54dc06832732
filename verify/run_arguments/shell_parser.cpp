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

constexpr std::array<std::string_view, 8> kClosing = {"then", "elif", "else", "fi",
                                                      "do",   "done", "esac", "}"};
constexpr std::array<std::string_view, 5> kDeclaring = {"export", "declare", "local", "readonly", "typeset"};

bool declares(const ShellCommand& command) {
  return !command.words.empty() && std::ranges::any_of(kDeclaring, [&](std::string_view word) {
    return is_literal(command.words.front(), word);
  });
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

[[noreturn]] void refuse_document(int line, const std::string& end, int line_of_indented) {
  const bool is_indented = line_of_indented != 0;
  sim::refuse({.code = "script_syntax",
               .option = fmt::format("line {}", line),
               .numbers = fmt::format(
                   "a here-document without its last line '{}'{}", end,
                   is_indented ? fmt::format(": line {} has blanks beside it", line_of_indented) : ""),
               .rule = "a here-document ends with a line that holds this word alone, without a blank",
               .hint = is_indented ? fmt::format("'{}' at the begin of line {}, or '<<-' and tabs", end,
                                                 line_of_indented)
                                   : "the whole script, or the command line alone"});
}

}  // namespace

/// Skips blanks, joined lines and a comment.
void ShellParser::skip_blanks() {
  while (is_shell_blank(peek()) || looking_at("\\\n")) {
    if (next() == '\\') next();
  }
  if (peek() != '#') return;
  const std::size_t end = std::min(text_.find('\n', at_), text_.size());
  const std::string_view comment = text_.substr(at_, end - at_);
  if (comment.starts_with("#SBATCH")) script_.directives.emplace_back(line_, comment.substr(1));
  at_ = end;
}

/// Takes a line break, behind which the here-documents of its line begin.
void ShellParser::new_line() {
  next();
  if (!pending_.empty()) read_documents();
}

void ShellParser::skip_separators() {
  for (skip_blanks(); !at_end(); skip_blanks()) {
    const bool is_sign = (peek() == ';' && peek(1) != ';' && peek(1) != '&') ||
                         ((peek() == '&' || peek() == '|') && !looking_at("&>"));
    if (peek() == '\n') {
      new_line();
    } else if (is_sign) {
      next();
    } else {
      return;
    }
  }
}

/// Returns the word without quotes that stands here, where a command may begin.
std::string_view ShellParser::keyword() const {
  if (plain_words_.contains(at_)) return "";
  std::size_t end = at_;
  while (end < text_.size() && !is_shell_blank(text_[end]) && !is_shell_operator(text_[end])) ++end;
  return text_.substr(at_, end - at_);
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
  const auto first = static_cast<std::ptrdiff_t>(commands.size());
  for (std::string joint;;) {
    commands.push_back(pipeline());
    commands.back().chain = joint;
    skip_blanks();
    joint = looking_at("&&") || looking_at("||") ? std::string(text_.substr(at_, 2)) : "";
    if (joint.empty() || at_end()) break;
    takes(joint);
    for (skip_blanks(); peek() == '\n'; skip_blanks()) new_line();
    if (at_end() || !closing().empty()) break;
  }
  if (peek() != '&' || peek(1) == '>') return;
  next();
  ShellCommand job{.kind = ShellCommand::Kind::subshell,
                   .line = commands[static_cast<std::size_t>(first)].line};
  job.lists.emplace_back(std::make_move_iterator(commands.begin() + first),
                         std::make_move_iterator(commands.end()));
  job.name = "&";
  commands.resize(static_cast<std::size_t>(first));
  commands.push_back(std::move(job));
}

ShellCommand ShellParser::pipeline() {
  bool is_negated = false;
  for (; keyword() == "!"; skip_blanks()) {
    next();
    is_negated = !is_negated;
  }
  ShellCommand first = command();
  skip_blanks();
  if (peek() == '|' && peek(1) != '|') {
    ShellCommand all{.kind = ShellCommand::Kind::pipeline, .line = first.line};
    all.lists.push_back({std::move(first)});
    while (peek() == '|' && peek(1) != '|') {
      next();
      takes("&");
      for (skip_blanks(); peek() == '\n'; skip_blanks()) new_line();
      if (at_end() || !closing().empty()) break;
      all.lists.push_back({command()});
      skip_blanks();
    }
    first = std::move(all);
  }
  first.is_negated = is_negated;
  return first;
}

ShellCommand ShellParser::command() {
  const Nested nested(*this);
  skip_blanks();
  std::optional<ShellCommand> block = this->block();
  if (!block) return simple();
  for (skip_blanks(); redirection(*block); skip_blanks()) {
  }
  return std::move(*block);
}

/// Whether the name of a function stands here: name ().
bool ShellParser::is_function() {
  std::size_t at = at_ + keyword().size();
  const std::string_view name = text_.substr(at_, at - at_);
  while (at < text_.size() && is_shell_blank(text_[at])) ++at;
  if (name.empty() || at == text_.size() || text_[at++] != '(') return false;
  while (at < text_.size() && is_shell_blank(text_[at])) ++at;
  return at < text_.size() && text_[at] == ')' && name.find_first_of("$'\"`=\\") == std::string_view::npos;
}

ShellCommand ShellParser::simple() {
  ShellCommand command{.line = line_};
  reads_file_ = false;
  for (skip_blanks(); argument(command); skip_blanks()) {
    if (command.words.size() > kMostRunArguments) refuse(command.line, "a command of too many words");
  }
  if (peek() == '(') refuse_bare_bracket(command);
  const bool prints_file = command.words.empty() && command.assignments.empty() && reads_file_;
  if (prints_file)
    command.words = {{{{.text = "cat", .source = {}}}, line_}, {{{.text = "-", .source = {}}}, line_}};
  return command;
}

/// Reads a word. What braces make of it is not followed.
ShellWord ShellParser::word_or_several() {
  const std::size_t start = at_;
  ShellWord word = this->word();
  if (!has_braces(word)) return word;
  word.parts = {{.kind = ShellPart::Kind::unknown,
                 .text = {},
                 .source = std::string(text_.substr(start, at_ - start))}};
  return word;
}

/// Reads the next assignment, word or redirection of a command. Returns whether there is one.
bool ShellParser::argument(ShellCommand& command) {
  if (redirection(command)) return true;
  const bool is_process = looking_at("<(") || looking_at(">(");
  if (at_end() || (is_shell_operator(peek()) && !is_process)) return false;
  const bool begins = command.words.empty();
  if (begins || declares(command)) {
    if (std::optional<ShellAssignment> found = assignment()) {
      keep(std::move(found), begins ? command.assignments : command.declared);
      return true;
    }
  }
  if (is_process) {
    const std::size_t start = at_;
    command.words.push_back(
        {.parts = {{.kind = ShellPart::Kind::unknown, .text = {}, .source = {}}}, .line = line_});
    process();
    command.words.back().parts[0].source = text_.substr(start, at_ - start);
    return true;
  }
  command.words.push_back(word_or_several());
  return true;
}

/// Reads NAME=value, NAME+=value, NAME[index]=value or NAME=(...).
std::optional<ShellAssignment> ShellParser::assignment() {
  if (!begins_shell_name(peek())) return std::nullopt;
  const std::size_t start = at_;
  const int line = line_;
  ShellAssignment found{.name = {}, .line = line};
  while (is_of_shell_name(peek())) found.name += next();
  if (peek() == '[') {
    next();
    found.index = std::make_shared<const ShellWord>(word_to("]\n", false));
    takes("]");
  }
  found.appends = looking_at("+=");
  if (!takes("+=") && !takes("=")) {
    at_ = start;
    line_ = line;
    return std::nullopt;
  }
  found.is_array = peek() == '(';
  if (!found.is_array) found.values.push_back(word());
  return found;
}

/// Keeps an assignment. The elements of an array that have keys are assignments of their own.
void ShellParser::keep(std::optional<ShellAssignment> assignment, std::vector<ShellAssignment>& list) {
  std::vector<ShellAssignment> keyed;
  if (assignment->is_array) keyed = elements(*assignment);
  list.push_back(std::move(*assignment));
  std::ranges::move(keyed, std::back_inserter(list));
}

/// Reads the elements of an array, and returns those that have keys.
std::vector<ShellAssignment> ShellParser::elements(ShellAssignment& array) {
  std::vector<ShellAssignment> keyed;
  next();
  for (;;) {
    for (skip_blanks(); peek() == '\n'; skip_blanks()) new_line();
    if (at_end()) refuse(array.line, "a '(' without its ')'");
    if (takes(")")) return keyed;
    if (peek() == '[' &&
        text_.substr(at_, text_.find_first_of(" \n)", at_) - at_).find("]=") != std::string_view::npos) {
      next();
      ShellAssignment element{.name = array.name, .line = line_};
      element.index = std::make_shared<const ShellWord>(word_to("]", false));
      takes("]");
      takes("=");
      element.values.push_back(word());
      keyed.push_back(std::move(element));
      continue;
    }
    array.values.push_back(word_or_several());
    const bool is_stuck = is_shell_operator(peek()) && peek() != ')' && peek() != '\n';
    if (is_stuck) refuse(line_, fmt::format("a '{}' without quotes among the elements of an array", peek()));
    if (array.values.size() > kMostRunArguments) refuse(array.line, "an array of too many words");
  }
}

/// Refuses a bracket among the arguments of a Python file, which no shell takes. In a text that is no script,
/// the name of a file has other signs around it.
void ShellParser::refuse_bare_bracket(const ShellCommand& command) const {
  const auto has = [&](auto fits) {
    return std::ranges::any_of(command.words, [&](const ShellWord& word) {
      return word.parts.size() == 1 && is_literal(word, word.parts[0].text) && fits(word.parts[0].text);
    });
  };
  const bool starts_python = has([](std::string_view text) { return text.ends_with(".py"); });
  if (!starts_python || !has([](std::string_view text) { return text.starts_with("--"); })) return;
  sim::refuse(
      {.code = "bare_bracket",
       .option = fmt::format("line {}", line_),
       .numbers = "a '(' without quotes among the arguments of a command",
       .rule = "a shell takes a bracket for the begin of a subshell, and stops at one among arguments",
       .hint = "the whole value in quotes, as in \"([0]*3+[1]*29)\""});
}

/// Reads <(...) or >(...), which is not followed.
void ShellParser::process() {
  at_ += 2;
  list();
  if (!takes(")")) refuse(line_, "a '(' without its ')'");
}

/// Reads a redirection of a command, where one stands here. Of files only that of the output is kept.
bool ShellParser::redirection(ShellCommand& command) {
  std::size_t digits = 0;
  while (std::isdigit(static_cast<unsigned char>(peek(digits))) != 0) ++digits;
  const char sign = peek(digits);
  const bool is_of_both = digits == 0 && looking_at("&>");
  const bool is_process = digits == 0 && (looking_at("<(") || looking_at(">("));
  if (is_process || (sign != '<' && sign != '>' && !is_of_both)) return false;
  const bool is_output = is_of_both || (sign == '>' && (digits == 0 || peek() == '1'));
  at_ += digits + (is_of_both ? 1 : 0);
  if (looking_at("<<") && !looking_at("<<<")) {
    here_document(command);
    return true;
  }
  const bool is_text = takes("<<<");
  bool appends = false;
  if (!is_text) {
    next();
    appends = takes(">");
    takes("|");
  }
  const bool is_copy = !is_text && takes("&");
  skip_blanks();
  if (looking_at("<(") || looking_at(">(")) {
    process();
    return true;
  }
  ShellWord target = word();
  if (is_text) command.input.push_back(std::move(target));
  reads_file_ = reads_file_ || (sign == '<' && !is_text);
  if (!is_output || is_text) return true;
  if (is_copy) target.parts.insert(target.parts.begin(), {.text = "&", .source = {}});
  command.output = std::make_shared<const ShellWord>(std::move(target));
  command.appends = appends;
  return true;
}

void ShellParser::here_document(ShellCommand& command) {
  at_ += 2;
  PendingDocument pending{std::make_shared<HereDocument>(), "", takes("-")};
  skip_blanks();
  for (const ShellPart& part : word().parts) {
    pending.end += part.kind == ShellPart::Kind::literal ? part.text : part.source;
    pending.document->is_literal = pending.document->is_literal || part.is_quoted;
  }
  command.documents.push_back(pending.document);
  pending_.push_back(std::move(pending));
}

/// Reads the here-documents whose text begins on this line.
void ShellParser::read_documents() {
  constexpr std::string_view kBlanks = " \t";
  for (const PendingDocument& pending : std::exchange(pending_, {})) {
    const int begun = line_;
    int line_of_indented = 0;  // of a last word that has blanks beside it
    pending.document->line = line_;
    for (;;) {
      if (at_end()) refuse_document(begun, pending.end, line_of_indented);
      const int line_of_text = line_;
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = end;
      if (!at_end()) next();
      if (pending.strips_tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line == pending.end) break;
      const std::size_t first = line.find_first_not_of(kBlanks);
      const bool is_indented = first != std::string::npos && !pending.end.empty() &&
                               line.substr(first, line.find_last_not_of(kBlanks) + 1 - first) == pending.end;
      if (is_indented && line_of_indented == 0) line_of_indented = line_of_text;
      pending.document->text.append(line).append("\n");
    }
  }
}

ShellScript ShellParser::script() {
  for (;;) {
    ShellList commands = list();
    std::ranges::move(commands, std::back_inserter(script_.commands));
    if (at_end()) break;
    const std::string found(closing());
    if (is_script_) refuse_begin(found);
    takes(found);
  }
  if (!pending_.empty()) read_documents();
  return std::move(script_);
}

ShellList ShellParser::commands_of(std::string_view text, int line, const ShellWordReader& around) {
  ShellParser parser(around);
  parser.text_ = text;
  parser.at_ = 0;
  parser.line_ = line;
  ShellList commands = parser.list();
  if (!parser.at_end() || !parser.pending_.empty()) refuse(line, "a '`' that does not end");
  return commands;
}

ShellList ShellParser::commands_to_bracket(ShellWordReader& reader) {
  ShellParser parser(reader);
  const int begun = parser.line_;
  ShellList commands = parser.list();
  if (!parser.takes(")") || !parser.pending_.empty()) refuse(begun, "a '(' without its ')'");
  reader = static_cast<const ShellWordReader&>(parser);
  return commands;
}

ShellScript parse_shell(std::string_view text, int first_line, bool counts_lines) {
  return ShellParser(text, first_line, counts_lines).script();
}

}  // namespace verify
