#include "verify/run_arguments/shell_word_reader.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

bool ends_word(char c) { return is_shell_blank(c) || is_shell_operator(c); }

/// Whether a word stands at a place.
bool stands_at(std::string_view text, std::size_t at, std::string_view word) {
  const bool begins = at == 0 || ends_word(text[at - 1]);
  const std::size_t end = at + word.size();
  return begins && text.substr(at).starts_with(word) && (end >= text.size() || ends_word(text[end]));
}

/// Whether a command of what begins at `start` begins at a place: behind a sign or a word before commands.
bool begins_command(std::string_view text, std::size_t start, std::size_t at) {
  std::size_t before = at;
  while (before > start && is_shell_blank(text[before - 1])) --before;
  if (before == start) return true;
  if (std::string_view("\n;&|({").find(text[before - 1]) != std::string_view::npos) return true;
  if (before == at) return false;
  for (const std::string_view word : {"then", "do", "else", "!"}) {
    const bool fits = before - start >= word.size() && stands_at(text, before - word.size(), word);
    if (fits) return true;
  }
  return false;
}

constexpr int kMostNestedExpansions = 32;

}  // namespace

bool is_shell_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool is_shell_operator(char c) {
  return c != '\0' && std::string_view("\n;&|()<>").find(c) != std::string_view::npos;
}

bool begins_shell_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_of_shell_name(char c) {
  return begins_shell_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

ShellWordReader::ShellWordReader(std::string_view text, int line, int depth)
    : text_(text), line_(line), depth_(depth) {
  if (depth > kMostNestedExpansions)
    refuse(line, fmt::format("nested more than {} deep", kMostNestedExpansions));
}

void ShellWordReader::refuse(int line, std::string problem) {
  sim::refuse({.code = "script_syntax",
               .option = fmt::format("line {}", line),
               .numbers = std::move(problem),
               .rule = "quotes, brackets and here-documents of a script end",
               .hint = "the whole script, or the command line alone"});
}

char ShellWordReader::next() {
  const char c = text_[at_++];
  if (c == '\n') ++line_;
  return c;
}

void ShellWordReader::add(ShellWord& word, char c, bool is_quoted) const {
  if (word.parts.empty() || word.parts.back().kind != ShellPart::Kind::literal ||
      word.parts.back().is_quoted != is_quoted) {
    word.parts.push_back({.kind = ShellPart::Kind::literal, .is_quoted = is_quoted, .text = {}});
  }
  word.parts.back().text += c;
}

/// Reads what a backslash begins in $'...': a letter, up to three octal digits, or the number of a character
/// behind x, u or U. Nothing where it is none of these, or stands for a sign that no script has in text.
std::optional<char> ShellWordReader::sign_behind_backslash() {
  static constexpr std::string_view kLetters = "ntr\\'\"abefv?";
  static constexpr std::string_view kSigns = "\n\t\r\\'\"\a\b\x1b\f\v?";
  const char letter = next();
  if (const std::size_t found = kLetters.find(letter); found != std::string_view::npos) return kSigns[found];
  const bool is_octal = letter >= '0' && letter <= '7';
  const std::size_t most = is_octal ? 2 : letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  if (most == 0) return std::nullopt;
  const char* const digits = is_octal ? "01234567" : "0123456789abcdefABCDEF";
  std::string number = is_octal ? std::string(1, letter) : "";
  for (std::size_t i = 0;
       i < most && !at_end() && std::string_view(digits).find(peek()) != std::string_view::npos; ++i)
    number += next();
  if (number.empty()) return std::nullopt;
  const unsigned long code = std::stoul(number, nullptr, is_octal ? 8 : 16);
  const bool is_text = (code >= 0x20 && code < 0x7f) || code == '\n' || code == '\t' || code == '\r';
  return is_text ? std::optional(static_cast<char>(code)) : std::nullopt;
}

/// Reads $'...', in which a backslash begins a sign. What has signs that are not followed is not known.
void ShellWordReader::quotes_with_signs(ShellWord& word) {
  const int begun = line_;
  const std::size_t start = at_;
  next();
  word.parts.push_back({.kind = ShellPart::Kind::literal, .is_quoted = true, .text = {}});
  bool is_known = true;
  while (!at_end() && peek() != '\'') {
    if (peek() != '\\' || at_ + 1 >= text_.size()) {
      add(word, next(), true);
      continue;
    }
    next();
    const std::optional<char> sign = sign_behind_backslash();
    is_known = is_known && sign.has_value();
    if (sign) add(word, *sign, true);
  }
  if (at_end()) refuse(begun, "a single quote that does not end");
  next();
  if (is_known) return;
  const std::string source = "$" + std::string(text_.substr(start, at_ - start));
  word.parts.back() = {.kind = ShellPart::Kind::unknown, .is_quoted = true, .text = source, .source = source};
}

void ShellWordReader::single_quotes(ShellWord& word) {
  const int begun = line_;
  next();
  if (word.parts.empty() || !word.parts.back().is_quoted)
    word.parts.push_back({.kind = ShellPart::Kind::literal, .is_quoted = true, .text = {}});
  while (!at_end() && peek() != '\'') add(word, next(), true);
  if (at_end()) refuse(begun, "a single quote that does not end");
  next();
}

void ShellWordReader::escape(ShellWord& word) {
  next();
  if (at_end()) return;
  const char c = next();
  if (c != '\n') add(word, c, true);
}

void ShellWordReader::double_quotes(ShellWord& word) {
  const int begun = line_;
  next();
  word.parts.push_back({.kind = ShellPart::Kind::literal, .is_quoted = true, .text = {}});
  while (!at_end() && peek() != '"') {
    if (peek() == '\\' && std::string_view("\"\\$`\n").find(peek(1)) != std::string_view::npos && peek(1)) {
      escape(word);
    } else if (peek() == '$' || peek() == '`') {
      expansion(word, true);
    } else {
      add(word, next(), true);
    }
  }
  if (at_end()) refuse(begun, "a double quote that does not end");
  next();
}

std::string_view ShellWordReader::balanced(char open, char close) {
  const int begun = line_;
  const std::size_t start = at_ + 1;
  int depth = 0;
  std::vector<int> cases;  // the depths at which each `case` began, in which a ')' ends a pattern
  while (!at_end()) {
    const char c = peek();
    if (open == '(' && at_ >= start && begins_command(text_, start, at_)) {
      if (stands_at(text_, at_, "case")) cases.push_back(depth);
      if (stands_at(text_, at_, "esac") && !cases.empty()) cases.pop_back();
    }
    if (c == '\\' && at_ + 1 < text_.size()) {
      next();
    } else if (open == '(' && c == '#' && at_ > start &&
               (is_shell_blank(text_[at_ - 1]) || text_[at_ - 1] == '\n')) {
      while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') next();
    } else if (c == '\'' && open == '(') {
      for (next(); !at_end() && peek() != '\'';) next();
      if (at_end()) break;
    } else if (c == '"') {
      for (next(); !at_end() && peek() != '"';) {
        if (peek() == '\\' && at_ + 1 < text_.size()) next();
        next();
      }
      if (at_end()) break;
    } else if (c == open) {
      ++depth;
    } else if (c == close && !cases.empty() && cases.back() == depth) {
      // the bracket of a pattern
    } else if (c == close && --depth == 0) {
      next();
      return text_.substr(start, at_ - 1 - start);
    }
    next();
  }
  refuse(begun, fmt::format("a '{}' without its '{}'", open, close));
}

std::string_view ShellWordReader::backquoted() {
  const int begun = line_;
  const std::size_t start = at_;
  next();
  while (!at_end() && peek() != '`') {
    if (peek() == '\\' && at_ + 1 < text_.size()) next();
    next();
  }
  if (at_end()) refuse(begun, "a '`' that does not end");
  next();
  return text_.substr(start, at_ - start);
}

/// Returns where a text has a character outside of quotes and brackets; its size where it has none.
std::size_t ShellWordReader::end_at(std::string_view text, char character) {
  int open = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\') {
      ++at;
    } else if (c == '\'' || c == '"') {
      at = std::min(text.find(c, at + 1), text.size());
    } else if ((c == '(' || c == '{') && (open > 0 || (at > 0 && text[at - 1] == '$'))) {
      ++open;
    } else if ((c == ')' || c == '}') && open > 0) {
      --open;
    } else if (c == character && open == 0) {
      return at;
    }
  }
  return text.size();
}

/// Reads what stands behind the name in ${NAME%pattern}, ${NAME/pattern/word} or ${NAME:offset:length}.
/// Returns whether it is one of these.
bool ShellWordReader::change(ShellPart& part, std::string_view inner, int line) const {
  struct Sign {
    std::string_view sign;
    ShellChange change;
  };
  static constexpr Sign kSigns[] = {
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
      {"@Q", ShellChange::quote},
      {"@U", ShellChange::upper},
      {"@u", ShellChange::upper_first},
      {"@L", ShellChange::lower},
      {":", ShellChange::slice},
  };
  const auto* const sign =
      std::ranges::find_if(kSigns, [&](const Sign& one) { return inner.starts_with(one.sign); });
  if (sign == std::end(kSigns)) return false;
  const auto word_of = [&](std::string_view text) {
    return std::make_shared<const ShellWord>(ShellWordReader(text, line, depth_ + 1).whole_word(false));
  };
  part.change = sign->change;
  inner.remove_prefix(sign->sign.size());
  const bool is_slice = sign->change == ShellChange::slice;
  if (!is_slice && sign->sign.front() != '/') {
    part.pattern = word_of(inner);
    const bool stands_alone = std::string_view("^,@").find(sign->sign.front()) != std::string_view::npos;
    return !stands_alone || inner.empty();
  }
  const std::size_t end = end_at(inner, is_slice ? ':' : '/');
  part.pattern = word_of(inner.substr(0, end));
  if (end < inner.size()) part.replacement = word_of(inner.substr(end + 1));
  // In the word for a pattern, newer shells replace an '&' by what fits.
  return is_slice || end == inner.size() || inner.find('&', end) == std::string_view::npos;
}

/// Reads ${...}, of which the "$" is already read.
void ShellWordReader::braces(ShellWord& word, bool is_quoted) {
  const int begun = line_;
  std::string_view inner = balanced('{', '}');
  ShellPart part{.kind = ShellPart::Kind::variable,
                 .is_quoted = is_quoted,
                 .text = {},
                 .source = fmt::format("${{{}}}", inner)};
  const auto unknown = [&] {
    part.kind = ShellPart::Kind::unknown;
    part.text = part.source;
    word.parts.push_back(part);
  };
  const bool counts = inner.starts_with('#') && inner.size() > 1;
  if (counts) inner.remove_prefix(1);
  part.is_indirect = !counts && inner.starts_with('!');
  if (part.is_indirect) inner.remove_prefix(1);
  const bool is_of_arguments = !counts && !part.is_indirect && inner.starts_with("@:");
  if (is_of_arguments) {
    part.kind = ShellPart::Kind::unknown;
    part.text = "$@";
    if (!change(part, inner.substr(1), begun)) return unknown();
    word.parts.push_back(std::move(part));
    return;
  }
  std::size_t length = 0;
  while (length < inner.size() && is_of_shell_name(inner[length])) ++length;
  if (length == 0) return unknown();
  part.text = inner.substr(0, length);
  inner.remove_prefix(length);
  if (part.is_indirect && (inner == "[@]" || inner == "[*]")) {
    part.is_indirect = false;
    part.joins = inner[1] == '*';
    part.kind = ShellPart::Kind::keys;
    word.parts.push_back(std::move(part));
    return;
  }
  if (part.is_indirect && (inner.starts_with('[') || inner.starts_with('@') || inner.starts_with('*')))
    return unknown();  // the names of variables
  const bool is_all = inner.starts_with("[@]") || inner.starts_with("[*]");
  if (is_all) {
    part.joins = inner[1] == '*';
    inner.remove_prefix(3);
    part.kind = ShellPart::Kind::elements;
  } else if (inner.starts_with('[')) {
    const std::size_t end = inner.find(']');
    const auto index = end == std::string_view::npos ? std::nullopt : whole_number(inner.substr(1, end - 1));
    const std::string_view key = end == std::string_view::npos ? "" : inner.substr(1, end - 1);
    if (index && *index >= 0) {
      part.kind = ShellPart::Kind::element;
      part.index = *index;
    } else {
      if (key.empty() || key.find_first_of("[`(") != std::string_view::npos) return unknown();
      ShellWordReader reader(key, begun, depth_ + 1);
      part.kind = ShellPart::Kind::keyed;
      part.key = std::make_shared<const ShellWord>(reader.whole_word(false));
    }
    inner.remove_prefix(end + 1);
  }
  if (counts && is_all) {
    if (!inner.empty()) return unknown();
    part.kind = ShellPart::Kind::count;
  } else if (counts) {
    if (!inner.empty()) return unknown();
    part.change = ShellChange::length;
  } else if (!inner.empty()) {
    const std::size_t sign = inner[0] == ':' ? 1 : 0;
    const char operation = sign < inner.size() ? inner[sign] : '\0';
    const auto word_behind = [&] {
      ShellWordReader reader(inner.substr(sign + 1), begun, depth_ + 1);
      return std::make_shared<const ShellWord>(reader.whole_word(is_quoted));
    };
    if (operation == '-' || operation == '=') {
      part.fallback = word_behind();
      part.assigns_fallback = operation == '=';
    } else if (operation == '+') {
      part.replaced = word_behind();
      part.replaces_empty = sign == 0;
    } else if (operation != '?' && !change(part, inner, begun)) {
      return unknown();
    }
  }
  word.parts.push_back(std::move(part));
}

ShellPart ShellWordReader::arithmetic(std::string_view inner, std::string source, bool is_quoted) const {
  const std::string_view text = inner.substr(1, inner.size() - 2);
  ShellPart part{.kind = ShellPart::Kind::arithmetic,
                 .is_quoted = is_quoted,
                 .text = std::string(text),
                 .source = std::move(source)};
  try {
    ShellWordReader reader(text, line_, depth_ + 1);
    part.expression = std::make_shared<const ShellWord>(reader.whole_word(true));
  } catch (const sim::Error&) {
    part.kind = ShellPart::Kind::unknown;  // a command whose quotes are no quotes of arithmetic
    part.text = part.source;
  }
  return part;
}

void ShellWordReader::expansion(ShellWord& word, bool is_quoted) {
  if (peek() == '`') {
    const std::string source(backquoted());
    const std::size_t begin = source.find_first_not_of("` \t");
    const bool is_comment = begin != std::string::npos && source[begin] == '#';
    if (is_comment && source.find('\n') == std::string::npos) return;
    word.parts.push_back(
        {.kind = ShellPart::Kind::unknown, .is_quoted = is_quoted, .text = source, .source = source});
    return;
  }
  next();  // the "$"
  const char c = peek();
  if (c == '{') return braces(word, is_quoted);
  if (c == '(') {
    const bool may_be_arithmetic = peek(1) == '(';
    const std::string inner(balanced('(', ')'));
    const std::string source = "$(" + inner + ")";
    if (may_be_arithmetic && inner.ends_with(')')) {
      word.parts.push_back(arithmetic(inner, source, is_quoted));
    } else {
      word.parts.push_back(
          {.kind = ShellPart::Kind::unknown, .is_quoted = is_quoted, .text = source, .source = source});
    }
    return;
  }
  if (c == '[') {  // an old form of $((...))
    const std::string inner(balanced('[', ']'));
    word.parts.push_back(arithmetic("(" + inner + ")", "$[" + inner + "]", is_quoted));
    return;
  }
  if (c == '\'' && !is_quoted) return quotes_with_signs(word);
  if (c == '"' && !is_quoted) return double_quotes(word);
  std::string name;
  if (begins_shell_name(c)) {
    while (is_of_shell_name(peek())) name += next();
  } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
    name = next();
  } else if (c != '\0' && std::string_view("@*#?$!-").find(c) != std::string_view::npos) {
    const std::string source = std::string("$") + next();
    word.parts.push_back({.kind = ShellPart::Kind::unknown,
                          .is_quoted = is_quoted,
                          .joins = c == '*',
                          .text = source,
                          .source = source});
    return;
  } else {
    return add(word, '$', is_quoted);
  }
  word.parts.push_back(
      {.kind = ShellPart::Kind::variable, .is_quoted = is_quoted, .text = name, .source = "$" + name});
}

void ShellWordReader::piece(ShellWord& word, bool is_quoted) {
  if (peek() == '\'' && !is_quoted) {
    single_quotes(word);
  } else if (peek() == '"') {
    double_quotes(word);
  } else if (peek() == '\\') {
    escape(word);
  } else if (peek() == '$' || peek() == '`') {
    expansion(word, is_quoted);
  } else {
    add(word, next(), is_quoted);
  }
}

ShellWord ShellWordReader::word() {
  ShellWord word{.parts = {}, .line = line_};
  while (!at_end() && !is_shell_blank(peek()) && !is_shell_operator(peek())) piece(word, false);
  return word;
}

ShellWord ShellWordReader::whole_word(bool is_quoted) {
  ShellWord word{.parts = {}, .line = line_};
  while (!at_end()) piece(word, is_quoted);
  return word;
}

ShellWord ShellWordReader::document() {
  ShellWord word{.parts = {}, .line = line_};
  while (!at_end()) {
    const bool escapes = peek() == '\\' && peek(1) != '\0' &&
                         std::string_view("$`\\\n").find(peek(1)) != std::string_view::npos;
    if (escapes) {
      escape(word);
    } else if (peek() == '$' || peek() == '`') {
      expansion(word, true);
    } else {
      add(word, next(), true);
    }
  }
  return word;
}

}  // namespace verify
