// What a command reads, and where its output goes.

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_lexer.h"

namespace verify {

void ShellLexer::skip_substituted_process() { balanced('(', ')'); }

void ShellLexer::skip_word() {
  skip_blanks();
  if (peek() == '(') return skip_substituted_process();
  word();
}

/// Returns the command whose output a redirection sends elsewhere: the one that is being read, or the end of
/// the block that stands before it.
ShellCommand& ShellLexer::redirected() {
  using enum ShellKeyword;
  const bool is_begun = !command_.words.empty() || !command_.assignments.empty() || script_.commands.empty();
  if (is_begun) return command_;
  ShellCommand& last = script_.commands.back();
  const bool ends_block = last.keyword == group_ends || last.keyword == if_ends ||
                          last.keyword == case_ends || last.keyword == loop_ends ||
                          last.keyword == subshell_ends;
  return ends_block ? last : command_;
}

void ShellLexer::redirect() {
  const bool is_of_errors = std::exchange(redirects_errors_, false);
  if (peek() == '&') next();
  const char sign = next();
  const bool is_in_test = !is_of_errors && !command_.words.empty() &&
                          is_literal(command_.words.front(), "[") && !is_literal(command_.words.back(), "]");
  command_.redirects_inside_test = command_.redirects_inside_test || is_in_test;
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
void ShellLexer::redirect_input() {
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

namespace {

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

/// Reads the here-documents whose text begins on this line.
void ShellLexer::read_documents() {
  constexpr std::string_view kBlanks = " \t\r";
  for (const PendingDocument& pending : pending_) {
    const int begun = line_;
    int line_of_indented = 0;  // of a last word that has blanks beside it
    HereDocument document{.text = {}, .line = line_, .is_literal = pending.is_literal};
    for (;;) {
      if (at_end()) refuse_document(begun, pending.end, line_of_indented);
      const int line_of_text = line_;
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string line(text_.substr(at_, end - at_));
      at_ = end;
      if (!at_end()) next();
      if (line.ends_with('\r')) line.pop_back();
      if (pending.strips_tabs) line.erase(0, line.find_first_not_of('\t'));
      if (line == pending.end) break;
      const std::size_t first = line.find_first_not_of(kBlanks);
      const bool is_indented = first != std::string::npos && !pending.end.empty() &&
                               line.substr(first, line.find_last_not_of(kBlanks) + 1 - first) == pending.end;
      if (is_indented && line_of_indented == 0) line_of_indented = line_of_text;
      document.text += line + "\n";
    }
    if (script_.commands.empty()) script_.commands.emplace_back();
    const std::size_t of = std::min(pending.command, script_.commands.size() - 1);
    script_.commands[of].documents.push_back(std::move(document));
  }
  pending_.clear();
}

}  // namespace verify
