#include "verify/run_arguments/shell_braces.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

constexpr std::size_t kMostBytesOfBraces = std::size_t{1} << 20U;

/// A sign that is not quoted, or a part of a word that is.
struct Sign {
  char c = '\0';         // '\0': the part
  std::size_t part = 0;  // its index in the word
};
using Signs = std::vector<Sign>;
using SignSpan = std::span<const Sign>;

Signs signs_of(const ShellWord& word) {
  Signs signs;
  for (std::size_t i = 0; i < word.parts.size(); ++i) {
    const ShellPart& part = word.parts[i];
    if (part.kind != ShellPart::Kind::literal || part.is_quoted) {
      signs.push_back({'\0', i});
      continue;
    }
    for (const char c : part.text) signs.push_back({c, 0});
  }
  return signs;
}

/// Whether a part is a variable whose name goes on with the signs behind it: $A.
bool ends_with_name(const ShellPart& part) {
  return part.kind == ShellPart::Kind::variable && !part.is_quoted && part.source == "$" + part.text &&
         begins_shell_name(part.text.front());
}

/// Returns the word that signs make, whose parts are those of another word.
ShellWord word_of_signs(const Signs& signs, const ShellWord& whole) {
  ShellWord word{.parts = {}, .line = whole.line};
  for (const Sign& sign : signs) {
    const bool goes_on = !word.parts.empty() && word.parts.back().kind == ShellPart::Kind::literal &&
                         !word.parts.back().is_quoted;
    const bool names = !word.parts.empty() && ends_with_name(word.parts.back());
    if (sign.c == '\0') {
      word.parts.push_back(whole.parts[sign.part]);
    } else if (names && is_of_shell_name(sign.c)) {  // x{$A,b}y has the variable Ay
      word.parts.back().text += sign.c;
      word.parts.back().source += sign.c;
    } else if (goes_on) {
      word.parts.back().text += sign.c;
    } else {
      word.parts.push_back({.kind = ShellPart::Kind::literal, .text = std::string(1, sign.c)});
    }
  }
  return word;
}

/// Returns the text of signs, where none of them is a part.
std::optional<std::string> plain_text(SignSpan signs) {
  std::string text;
  for (const Sign& sign : signs) {
    if (sign.c == '\0') return std::nullopt;
    text += sign.c;
  }
  return text;
}

void append_text(Signs& signs, std::string_view text) {
  for (const char c : text) signs.push_back({c, 0});
}

[[noreturn]] void refuse_words(int line) {
  sim::refuse({.code = "run_file_size",
               .option = fmt::format("line {}", line),
               .numbers = fmt::format("braces of more than {} words, or of 1 MiB", kMostRunArguments),
               .rule = "the values of a launch script are short",
               .hint = "the command line alone"});
}

struct Sequence {
  std::int64_t first = 0, last = 0, step = 1;
  std::size_t width = 0;  // numbers with zeros before them are as long as the longer one
  bool is_of_letters = false;
};
/// Returns the two ends and the step of "1..5" and "0..8..2"; nothing for other texts.
std::optional<Sequence> sequence_of(const std::string& text) {
  std::vector<std::string> ends;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find("..", at), text.size());
    ends.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  if (ends.size() < 2 || ends.size() > 3) return std::nullopt;
  Sequence sequence;
  const auto step = ends.size() == 3 ? whole_number(ends[2]) : std::int64_t{1};
  if (!step) return std::nullopt;
  constexpr std::int64_t kFar = 1'000'000'000;
  sequence.step = std::max<std::int64_t>(1, std::abs(std::clamp(*step, -kFar, kFar)));
  const auto first = whole_number(ends[0]), last = whole_number(ends[1]);
  if (first && last && std::abs(*first) < kFar && std::abs(*last) < kFar) {
    sequence.first = *first;
    sequence.last = *last;
    const auto has_zero = [](const std::string& number) {
      const std::size_t sign = number.starts_with('-') || number.starts_with('+') ? 1 : 0;
      return number.size() > sign + 1 && number[sign] == '0';
    };
    if (has_zero(ends[0]) || has_zero(ends[1])) sequence.width = std::max(ends[0].size(), ends[1].size());
    return sequence;
  }
  const auto is_letter = [](const std::string& end) {
    return end.size() == 1 && std::isalpha(static_cast<unsigned char>(end[0])) != 0;
  };
  if (!is_letter(ends[0]) || !is_letter(ends[1])) return std::nullopt;
  sequence.first = ends[0][0];
  sequence.last = ends[1][0];
  sequence.is_of_letters = true;
  return sequence;
}

class Braces {
 public:
  explicit Braces(int line) : line_(line) {}

  /// Returns what becomes of signs: one list where they have no braces that count.
  std::vector<Signs> expanded(const Signs& signs) { return expanded(SignSpan(signs)); }
  std::vector<Signs> expanded(SignSpan signs) {
    for (std::size_t at = 0; at < signs.size(); ++at) {
      if (signs[at].c != '{') continue;
      const std::optional<std::size_t> end = end_of_brace(signs, at);
      if (!end) continue;
      const std::vector<Signs> choices = choices_of(signs.subspan(at + 1, *end - at - 1));
      if (choices.empty()) continue;
      return combined(signs.first(at), choices, expanded(signs.subspan(*end + 1)));
    }
    return {Signs(signs.begin(), signs.end())};
  }

 private:
  /// Returns where the brace that begins here ends; nothing where it does not.
  static std::optional<std::size_t> end_of_brace(SignSpan signs, std::size_t begin) {
    int open = 0;
    for (std::size_t at = begin; at < signs.size(); ++at) {
      if (signs[at].c == '{') ++open;
      if (signs[at].c == '}' && --open == 0) return at;
    }
    return std::nullopt;
  }

  /// Returns the words between the commas of a brace, or those of its sequence; none where it has neither.
  std::vector<Signs> choices_of(SignSpan inner) {
    std::vector<SignSpan> pieces;
    std::size_t begin = 0;
    int open = 0;
    for (std::size_t at = 0; at <= inner.size(); ++at) {
      const bool is_end = at == inner.size();
      if (!is_end && inner[at].c == '{') ++open;
      if (!is_end && inner[at].c == '}') --open;
      if (!is_end && (inner[at].c != ',' || open > 0)) continue;
      pieces.push_back(inner.subspan(begin, at - begin));
      begin = at + 1;
    }
    std::vector<Signs> choices;
    if (pieces.size() == 1) {
      const std::optional<std::string> text = plain_text(inner);
      const std::optional<Sequence> sequence = text ? sequence_of(*text) : std::nullopt;
      return sequence ? words_of(*sequence) : choices;
    }
    for (const SignSpan piece : pieces) {
      for (Signs& choice : expanded(piece)) choices.push_back(std::move(choice));
      if (choices.size() > kMostRunArguments) refuse_words(line_);
    }
    return choices;
  }

  std::vector<Signs> words_of(const Sequence& sequence) const {
    std::vector<Signs> words;
    const std::int64_t count = std::abs(sequence.last - sequence.first) / sequence.step + 1;
    if (count > static_cast<std::int64_t>(kMostRunArguments)) refuse_words(line_);
    const std::int64_t step = sequence.first <= sequence.last ? sequence.step : -sequence.step;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t number = sequence.first + i * step;
      words.emplace_back();
      append_text(words.back(), sequence.is_of_letters ? std::string(1, static_cast<char>(number))
                                                       : fmt::format("{:0{}}", number, sequence.width));
    }
    return words;
  }

  std::vector<Signs> combined(SignSpan before, const std::vector<Signs>& choices,
                              const std::vector<Signs>& behind) {
    if (choices.size() * behind.size() > kMostRunArguments) refuse_words(line_);
    std::vector<Signs> all;
    for (const Signs& choice : choices) {
      for (const Signs& rest : behind) {
        Signs& signs = all.emplace_back(before.begin(), before.end());
        signs.insert(signs.end(), choice.begin(), choice.end());
        signs.insert(signs.end(), rest.begin(), rest.end());
        bytes_ += signs.size();
        if (bytes_ > kMostBytesOfBraces) refuse_words(line_);
      }
    }
    return all;
  }

  int line_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::vector<ShellWord> words_of_braces(ShellWord word) {
  std::size_t braces = 0, bytes = 0;
  for (const ShellPart& part : word.parts) {
    const bool is_plain = part.kind == ShellPart::Kind::literal && !part.is_quoted;
    braces += is_plain ? static_cast<std::size_t>(std::ranges::count(part.text, '{')) : 0;
    bytes += part.text.size();
  }
  if (braces == 0 || braces > kMostBraces || bytes > kMostBytesOfBraces / 64) return {std::move(word)};
  std::vector<ShellWord> words;
  for (const Signs& one : Braces(word.line).expanded(signs_of(word)))
    words.push_back(word_of_signs(one, word));
  return words;
}

}  // namespace verify
