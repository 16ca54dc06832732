// Words: quotes, escapes and expansions.

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_parser.h"

namespace verify {

namespace {

constexpr std::string_view kChanges[] = {"-",  "=",  "+", "?",  "##", "#",  "%%", "%", "//",
                                         "/#", "/%", "/", "^^", "^",  ",,", ",",  ":"};

bool is_among(char c, std::string_view signs) { return c != '\0' && signs.find(c) != std::string_view::npos; }

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::shared_ptr<const ShellWord> shared(ShellWord word) {
  return std::make_shared<const ShellWord>(std::move(word));
}

}  // namespace

bool begins_shell_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_of_shell_name(char c) { return begins_shell_name(c) || is_digit(c); }

bool is_literal(const ShellWord& word, std::string_view text) {
  return word.parts.size() == 1 && word.parts[0].kind == ShellPart::Kind::literal &&
         !word.parts[0].is_quoted && word.parts[0].text == text;
}

void ShellParser::refuse(int line, std::string problem) {
  sim::refuse({.code = "script_syntax",
               .option = fmt::format("line {}", line),
               .numbers = std::move(problem),
               .rule = "quotes, brackets and here-documents of a script end",
               .hint = "the whole script, or the command line alone"});
}

bool ShellParser::takes(std::string_view word) {
  if (!looking_at(word)) return false;
  for (std::size_t i = 0; i < word.size(); ++i) next();
  return true;
}

char ShellParser::next() {
  const char c = text_[at_++];
  if (c == '\n' && counts_lines_) ++line_;
  return c;
}

void ShellParser::add(ShellWord& word, char c, bool is_quoted) {
  const bool goes_on = !word.parts.empty() && word.parts.back().kind == ShellPart::Kind::literal &&
                       word.parts.back().is_quoted == is_quoted;
  if (!goes_on) word.parts.push_back({.is_quoted = is_quoted});
  word.parts.back().text += c;
}

/// Reads '...'. Behind a '$', a backslash in it begins a sign, which is not followed but for line breaks and tabs.
void ShellParser::single_quotes(ShellWord& word) {
  const int begun = line_;
  const std::size_t start = at_;
  const bool has_signs = takes("$");
  next();
  ShellPart part{.is_quoted = true};
  while (!at_end() && peek() != '\'') {
    const bool is_sign = has_signs && peek() == '\\' && at_ + 1 < text_.size();
    if (is_sign) next();
    if (is_sign && !is_among(peek(), "nt\\'")) part.kind = ShellPart::Kind::unknown;
    const char c = next();
    part.text += is_sign && c == 'n' ? '\n' : is_sign && c == 't' ? '\t' : c;
  }
  if (!takes("'")) refuse(begun, "a single quote that does not end");
  part.source = since(start);
  word.parts.push_back(std::move(part));
}

void ShellParser::double_quotes(ShellWord& word) {
  const int begun = line_;
  next();
  const std::size_t parts = word.parts.size();
  while (!at_end() && peek() != '"') {
    if (peek() == '\\' && !is_among(peek(1), "\"\\$`\n")) {
      add(word, next(), true);
    } else {
      piece(word, true);
    }
  }
  if (!takes("\"")) refuse(begun, "a double quote that does not end");
  if (word.parts.size() == parts) word.parts.push_back({.is_quoted = true});
}

/// Whether the brackets that begin here, "((", end with "))": then they hold an expression.
bool ShellParser::begins_arithmetic() const {
  int open = 0;
  for (std::size_t at = at_; at < text_.size() && looking_at("(("); ++at) {
    const char c = text_[at];
    if (c == '\\') ++at;
    if (c == '\'' || c == '"') at = std::min(text_.find(c, at + 1), text_.size());
    open += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (open == 0) return text_[at - 1] == ')';
  }
  return false;
}

/// Reads an expression of arithmetic, up to a bracket or a sign that it has not opened.
ShellWord ShellParser::expression(std::string_view ends) {
  ShellWord word{.line = line_};
  for (int open = 0; !at_end() && (open > 0 || !is_among(peek(), ends));) {
    open += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
    piece(word, true);
  }
  return word;
}

/// Reads `...`. What is no text of commands is not known.
void ShellParser::backquotes(ShellPart& part) {
  const int begun = line_;
  next();
  std::string inner;
  while (!at_end() && peek() != '`') {
    if (peek() == '\\' && is_among(peek(1), "$`\\")) next();
    inner += next();
  }
  if (!takes("`")) refuse(begun, "a '`' that does not end");
  part.kind = ShellPart::Kind::unknown;
  try {
    part.commands = std::make_shared<const ShellList>(ShellParser(inner, begun, false).script().commands);
    part.kind = ShellPart::Kind::output;
  } catch (const sim::Error&) {
  }
}

/// Reads $(...) and $((...)), whose "$" is read.
void ShellParser::bracket(ShellPart& part) {
  const int begun = line_;
  const bool is_arithmetic = begins_arithmetic();
  part.kind = is_arithmetic ? ShellPart::Kind::arithmetic : ShellPart::Kind::output;
  if (is_arithmetic) {
    takes("((");
    part.word = shared(expression(")"));
  } else {
    next();
    auto outer = std::exchange(pending_, {});
    part.commands = std::make_shared<const ShellList>(list());
    if (!std::exchange(pending_, std::move(outer)).empty())
      refuse(begun, "a here-document that does not end");
  }
  if (!takes(is_arithmetic ? "))" : ")")) refuse(begun, "a '(' without its ')'");
}

void ShellParser::expansion(ShellWord& word, bool is_quoted) {
  const Nested nested(*this);
  const std::size_t start = at_;
  ShellPart part{.kind = ShellPart::Kind::parameter, .is_quoted = is_quoted};
  const char c = peek() == '`' ? '`' : peek(1);
  if (c == '\'' && !is_quoted) return single_quotes(word);
  if (c != '`') next();
  if (c == '"' && !is_quoted) return double_quotes(word);
  if (c == '`') {
    backquotes(part);
  } else if (c == '(') {
    bracket(part);
  } else if (c == '{') {
    braces(part);
  } else if (c == '[') {  // an old form of $((...)), which is not followed
    part.kind = ShellPart::Kind::unknown;
    word_to("]", true);
    takes("]");
  } else if (!name_of_parameter(part)) {
    return add(word, '$', is_quoted);
  }
  part.source = since(start);
  word.parts.push_back(std::move(part));
}

/// Reads the name of a variable, or the sign of a parameter. Returns whether there is one.
bool ShellParser::name_of_parameter(ShellPart& part) {
  const bool is_braced = text_[at_ - 1] != '$';
  if (begins_shell_name(peek())) {
    while (is_of_shell_name(peek())) part.text += next();
  } else if (is_digit(peek())) {
    do part.text += next();
    while (is_braced && is_digit(peek()));
  } else if (is_among(peek(), "@*#?$!-")) {
    part.text = next();
    if (part.text == "@" || part.text == "*") part.elements = part.text[0];
  }
  return !part.text.empty();
}

/// Reads what stands behind the name in ${NAME:-word} and its like. Returns whether it is followed here.
bool ShellParser::change_of_parameter(ShellPart& part) {
  part.replaces_empty = peek() == ':' && is_among(peek(1), "-=+?");
  if (part.replaces_empty) next();
  const auto* const row =
      std::ranges::find_if(kChanges, [&](std::string_view one) { return looking_at(one); });
  if (row == std::end(kChanges)) return peek() == '}';
  part.change = *row;
  takes(*row);
  const bool has_word = row < &kChanges[4];
  const char* const ends = part.change == ":" ? ":}" : part.change[0] == '/' ? "/}" : "}";
  part.word = shared(word_to(ends, has_word && part.is_quoted));
  if (!has_word && !at_end() && peek() != '}') {
    next();
    part.second = shared(word_to("}", false));
  }
  // In the word for a pattern, newer shells replace an '&' by what fits.
  const bool has_ampersand = part.second && part.change[0] == '/' && part.second->parts.size() > 0 &&
                             part.second->parts[0].text.find('&') != std::string::npos;
  return !has_ampersand && (!is_among(part.change[0], "^,") || part.word->parts.empty());
}

/// Reads ${...}, whose "$" is read.
void ShellParser::braces(ShellPart& part) {
  const int begun = line_;
  next();
  const bool counts = peek() == '#' && !is_among(peek(1), "}:-");
  if (counts) next();
  part.is_indirect = !counts && peek() == '!' && peek(1) != '}';
  if (part.is_indirect) next();
  bool is_followed = name_of_parameter(part);
  if (is_followed && takes("[")) {
    const bool is_all = is_among(peek(), "@*") && peek(1) == ']';
    if (is_all) part.elements = next();
    if (!is_all) part.index = shared(word_to("]", true));
    is_followed = takes("]");
  }
  if (counts) part.change = "length";
  const bool is_list_of_names = part.is_indirect && part.elements != '\0';
  is_followed = is_followed && !is_list_of_names && (counts ? peek() == '}' : change_of_parameter(part));
  if (!is_followed) part.kind = ShellPart::Kind::unknown;
  if (!is_followed) word_to("}", part.is_quoted);
  if (!takes("}")) refuse(begun, "a '{' without its '}'");
}

void ShellParser::piece(ShellWord& word, bool is_quoted) {
  const char c = peek();
  if (c == '\'' && !is_quoted) return single_quotes(word);
  if (c == '"') return double_quotes(word);
  if (c == '$' || c == '`') return expansion(word, is_quoted);
  const bool escapes = c == '\\';
  if (escapes) next();
  const bool is_joined = escapes && peek() == '\n';
  if (is_joined) next();
  if (!at_end() && !is_joined) add(word, next(), is_quoted || escapes);
}

/// Reads a word, up to a blank or an operator.
ShellWord ShellParser::word() { return word_to(" \t\n;&|()<>", false); }

/// Reads a word up to one of these characters.
ShellWord ShellParser::word_to(std::string_view ends, bool is_quoted) {
  ShellWord word{.line = line_};
  while (!at_end() && !is_among(peek(), ends)) piece(word, is_quoted);
  return word;
}

ShellWord ShellParser::document() {
  ShellWord word{.line = line_};
  while (!at_end()) {
    if (peek() == '$' || peek() == '`' || (peek() == '\\' && is_among(peek(1), "$`\\\n"))) {
      piece(word, true);
    } else {
      add(word, next(), true);
    }
  }
  return word;
}

ShellWord parse_document(std::string_view text, int line) {
  return ShellParser(text, line, false).document();
}

}  // namespace verify
