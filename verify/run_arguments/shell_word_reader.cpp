#include "verify/run_arguments/shell_word_reader.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_parser.h"

namespace verify {

namespace {

constexpr int kMostNestedWords = 100;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool is_one_of(char c, std::string_view signs) {
  return c != '\0' && signs.find(c) != std::string_view::npos;
}

struct ChangeRow {
  std::string_view sign;
  ShellChange change;
};
constexpr ChangeRow kChanges[] = {
    {"-", ShellChange::use_default},
    {"=", ShellChange::assign_default},
    {"+", ShellChange::use_other},
    {"?", ShellChange::demand},
    {"##", ShellChange::cut_longest_begin},
    {"#", ShellChange::cut_begin},
    {"%%", ShellChange::cut_longest_end},
    {"%", ShellChange::cut_end},
    {"//", ShellChange::replace_all},
    {"/#", ShellChange::replace_begin},
    {"/%", ShellChange::replace_end},
    {"/", ShellChange::replace},
    {"^^", ShellChange::upper},
    {"^", ShellChange::upper_first},
    {",,", ShellChange::lower},
    {",", ShellChange::lower_first},
    {":", ShellChange::slice},
};

}  // namespace

bool is_shell_blank(char c) { return c == ' ' || c == '\t'; }

bool is_shell_operator(char c) { return is_one_of(c, "\n;&|()<>"); }

bool begins_shell_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_of_shell_name(char c) { return begins_shell_name(c) || is_digit(c); }

bool is_literal(const ShellWord& word, std::string_view text) {
  return word.parts.size() == 1 && word.parts[0].kind == ShellPart::Kind::literal &&
         !word.parts[0].is_quoted && word.parts[0].text == text;
}

ShellWordReader::Nested::Nested(ShellWordReader& reader) : reader_(reader) {
  if (reader.depth_ == kMostNestedWords)
    refuse(reader.line_, fmt::format("nested more than {} deep", kMostNestedWords));
  ++reader.depth_;
}

void ShellWordReader::refuse(int line, std::string problem) {
  sim::refuse({.code = "script_syntax",
               .option = fmt::format("line {}", line),
               .numbers = std::move(problem),
               .rule = "quotes, brackets and here-documents of a script end",
               .hint = "the whole script, or the command line alone"});
}

bool ShellWordReader::takes(std::string_view word) {
  if (!looking_at(word)) return false;
  for (std::size_t i = 0; i < word.size(); ++i) next();
  return true;
}

char ShellWordReader::next() {
  const char c = text_[at_++];
  if (c == '\n' && counts_lines_) ++line_;
  return c;
}

void ShellWordReader::add(ShellWord& word, char c, bool is_quoted) {
  const bool goes_on = !word.parts.empty() && word.parts.back().kind == ShellPart::Kind::literal &&
                       word.parts.back().is_quoted == is_quoted;
  if (!goes_on) word.parts.push_back({.is_quoted = is_quoted, .text = {}, .source = {}});
  word.parts.back().text += c;
}

void ShellWordReader::single_quotes(ShellWord& word) {
  const int begun = line_;
  next();
  word.parts.push_back({.is_quoted = true, .text = {}, .source = {}});
  while (!at_end() && peek() != '\'') add(word, next(), true);
  if (at_end()) refuse(begun, "a single quote that does not end");
  next();
}

/// Reads the rest of $'...', in which a backslash begins a sign. What has other signs is not known.
void ShellWordReader::quotes_with_signs(ShellWord& word) {
  constexpr std::string_view kLetters = "ntr\\'\"", kSigns = "\n\t\r\\'\"";
  const int begun = line_;
  const std::size_t start = at_;
  next();
  word.parts.push_back({.is_quoted = true, .text = {}, .source = {}});
  bool is_known = true;
  while (!at_end() && peek() != '\'') {
    const bool is_sign = peek() == '\\' && at_ + 1 < text_.size();
    if (is_sign) next();
    const char c = next();
    const std::size_t found = kLetters.find(c);
    is_known = is_known && (!is_sign || found != std::string_view::npos);
    add(word, is_sign && is_known ? kSigns[found] : c, true);
  }
  if (at_end()) refuse(begun, "a single quote that does not end");
  next();
  if (is_known) return;
  word.parts.back().kind = ShellPart::Kind::unknown;
  word.parts.back().source = "$" + std::string(text_.substr(start, at_ - start));
}

void ShellWordReader::double_quotes(ShellWord& word) {
  const int begun = line_;
  next();
  const std::size_t parts = word.parts.size();
  while (!at_end() && peek() != '"') {
    const bool escapes = peek() == '\\' && !is_one_of(peek(1), "\"\\$`\n");
    if (escapes) {
      add(word, next(), true);
    } else {
      piece(word, true);
    }
  }
  if (at_end()) refuse(begun, "a double quote that does not end");
  next();
  if (word.parts.size() == parts) word.parts.push_back({.is_quoted = true, .text = {}, .source = {}});
}

std::size_t ShellWordReader::bracketed() const {
  int open = 0;
  for (std::size_t at = at_; at < text_.size(); ++at) {
    const char c = text_[at];
    if (c == '\\') ++at;
    if (c == '\'' || c == '"') at = std::min(text_.find(c, at + 1), text_.size());
    if (c == '(' || c == '[' || c == '{') ++open;
    if ((c == ')' || c == ']' || c == '}') && --open == 0) return at + 1 - at_;
  }
  return 0;
}

/// Reads `...`. What is no text of commands is not known.
void ShellWordReader::backquotes(ShellPart& part) {
  const int begun = line_;
  next();
  std::string inner;
  while (!at_end() && peek() != '`') {
    if (peek() == '\\' && is_one_of(peek(1), "$`\\")) next();
    inner += next();
  }
  if (at_end()) refuse(begun, "a '`' that does not end");
  next();
  try {
    part.commands = std::make_shared<const ShellList>(ShellParser::commands_of(inner, begun, *this));
    part.kind = ShellPart::Kind::output;
  } catch (const sim::Error&) {
    part.kind = ShellPart::Kind::unknown;
  }
}

/// Reads $(...) and $((...)), whose "$" is read.
void ShellWordReader::bracket(ShellPart& part) {
  const std::size_t length = looking_at("((") ? bracketed() : 0;
  const bool is_arithmetic = length > 3 && text_.substr(at_, length).ends_with("))");
  if (!is_arithmetic) {
    next();
    part.commands = std::make_shared<const ShellList>(ShellParser::commands_to_bracket(*this));
    part.kind = ShellPart::Kind::output;
    return;
  }
  ShellWordReader inner = *this;
  inner.text_ = text_.substr(0, at_ + length - 2);
  inner.at_ = at_ + 2;
  part.kind = ShellPart::Kind::arithmetic;
  part.word = std::make_shared<const ShellWord>(inner.word_to("", true));
  at_ += length;
  line_ = inner.line_;
}

void ShellWordReader::expansion(ShellWord& word, bool is_quoted) {
  const Nested nested(*this);
  const std::size_t start = at_;
  ShellPart part{.kind = ShellPart::Kind::parameter, .is_quoted = is_quoted, .text = {}, .source = {}};
  const bool is_backquote = peek() == '`';
  if (!is_backquote) next();
  const char c = peek();
  if (is_backquote) {
    backquotes(part);
  } else if (c == '(') {
    bracket(part);
  } else if (c == '{') {
    parameter(part);
  } else if (c == '[') {  // an old form of $((...))
    next();
    part.kind = ShellPart::Kind::arithmetic;
    part.word = std::make_shared<const ShellWord>(word_to("]", true));
    if (!takes("]")) refuse(line_, "a '[' without its ']'");
  } else if (c == '\'' && !is_quoted) {
    return quotes_with_signs(word);
  } else if (c == '"' && !is_quoted) {
    return double_quotes(word);
  } else if (!name_of_parameter(part)) {
    return add(word, '$', is_quoted);
  }
  part.source = text_.substr(start, at_ - start);
  word.parts.push_back(std::move(part));
}

/// Reads the name of a variable, or the sign of a parameter. Returns whether there is one.
bool ShellWordReader::name_of_parameter(ShellPart& part) {
  const bool is_braced = at_ > 0 && text_[at_ - 1] != '$';
  if (begins_shell_name(peek())) {
    while (is_of_shell_name(peek())) part.text += next();
  } else if (is_digit(peek())) {
    do part.text += next();
    while (is_braced && is_digit(peek()));
  } else if (is_one_of(peek(), "@*#?$!-")) {
    part.text = next();
    if (part.text == "@") part.elements = ShellPart::Elements::all;
    if (part.text == "*") part.elements = ShellPart::Elements::joined;
  }
  return !part.text.empty();
}

/// Reads [index], [@] or [*] behind a name.
void ShellWordReader::index_of_parameter(ShellPart& part) {
  using enum ShellPart::Elements;
  if (peek() != '[') return;
  next();
  const bool is_all = (peek() == '@' || peek() == '*') && peek(1) == ']';
  if (is_all) part.elements = next() == '@' ? all : joined;
  if (!is_all) part.index = std::make_shared<const ShellWord>(word_to("]", true));
  if (!takes("]")) refuse(line_, "a '[' without its ']'");
}

/// Reads what stands behind the name in ${NAME:-word} and its like. Returns whether it is followed here.
bool ShellWordReader::change_of_parameter(ShellPart& part) {
  part.replaces_empty = peek() == ':' && is_one_of(peek(1), "-=+?");
  if (part.replaces_empty) next();
  const auto* const row =
      std::ranges::find_if(kChanges, [&](const ChangeRow& one) { return looking_at(one.sign); });
  if (row == std::end(kChanges)) return peek() == '}';
  takes(row->sign);
  part.change = row->change;
  const bool has_word = row <= &kChanges[3];
  const bool is_parted = row->sign.front() == '/' || row->sign == ":";
  const char* const ends = row->sign == ":" ? ":}" : is_parted ? "/}" : "}";
  part.word = std::make_shared<const ShellWord>(word_to(ends, has_word && part.is_quoted));
  const bool is_two = is_parted && peek() != '}' && !at_end();
  if (is_two) next();
  if (is_two) part.second = std::make_shared<const ShellWord>(word_to("}", false));
  // In the word for a pattern, newer shells replace an '&' by what fits.
  const bool has_ampersand =
      is_two && row->sign != ":" && std::ranges::any_of(part.second->parts, [](const ShellPart& one) {
        return one.text.find('&') != std::string::npos;
      });
  const bool stands_alone = row->sign.front() == '^' || row->sign.front() == ',';
  return !has_ampersand && !(stands_alone && !part.word->parts.empty());
}

/// Reads ${...}, whose "$" is read.
void ShellWordReader::parameter(ShellPart& part) {
  const int begun = line_;
  next();
  const bool counts = peek() == '#' && peek(1) != '}' && !is_one_of(peek(1), ":-");
  if (counts) next();
  part.is_indirect = !counts && peek() == '!' && peek(1) != '}';
  if (part.is_indirect) next();
  bool is_followed = name_of_parameter(part);
  if (is_followed) index_of_parameter(part);
  const bool is_list = part.elements != ShellPart::Elements::one;
  if (counts) part.change = ShellChange::length;
  if (part.is_indirect && is_list) {
    part.is_indirect = false;
    part.change = ShellChange::keys;
  }
  const bool is_whole = part.change != ShellChange::none;
  is_followed = is_followed && (is_whole ? peek() == '}' : change_of_parameter(part));
  if (!is_followed) {
    part.kind = ShellPart::Kind::unknown;
    word_to("}", part.is_quoted);
  }
  if (!takes("}")) refuse(begun, "a '{' without its '}'");
}

void ShellWordReader::piece(ShellWord& word, bool is_quoted) {
  const char c = peek();
  if (c == '\'' && !is_quoted) return single_quotes(word);
  if (c == '"') return double_quotes(word);
  if (c == '$' || c == '`') return expansion(word, is_quoted);
  const bool escapes = c == '\\';
  if (escapes) next();
  if (at_end() || (escapes && peek() == '\n')) {
    if (!at_end()) next();
    return;
  }
  add(word, next(), is_quoted || escapes);
}

ShellWord ShellWordReader::word() {
  ShellWord word{.parts = {}, .line = line_};
  while (!at_end() && !is_shell_blank(peek()) && !is_shell_operator(peek())) piece(word, false);
  return word;
}

ShellWord ShellWordReader::word_to(std::string_view ends, bool is_quoted) {
  ShellWord word{.parts = {}, .line = line_};
  while (!at_end() && !is_one_of(peek(), ends)) piece(word, is_quoted);
  return word;
}

ShellWord ShellWordReader::expression() { return word_to("", true); }

ShellWord ShellWordReader::document() {
  ShellWord word{.parts = {}, .line = line_};
  while (!at_end()) {
    const bool is_sign = peek() == '\\' && is_one_of(peek(1), "$`\\\n");
    if (is_sign || peek() == '$' || peek() == '`') {
      piece(word, true);
    } else {
      add(word, next(), true);
    }
  }
  return word;
}

}  // namespace verify
