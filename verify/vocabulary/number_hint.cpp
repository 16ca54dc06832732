#include "verify/vocabulary/number_hint.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

constexpr std::string_view kNumerals = "0123456789";

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Returns the number that is meant with 4k or 1e3; 0 for other words.
std::int64_t number_meant(std::string_view digits, std::string_view behind) {
  constexpr std::int64_t kBinary = 1024;
  constexpr std::int64_t kLargestDigits = 100'000;
  constexpr std::int64_t kMostZeros = 9;
  auto number = whole_number(digits).value_or(0);
  if (number >= kLargestDigits) return 0;
  if (behind == "k" || behind == "K") return number * kBinary;
  const bool has_exponent = behind.starts_with('e') || behind.starts_with('E');
  const auto zeros = has_exponent ? whole_number(behind.substr(1)) : std::nullopt;
  if (!zeros || *zeros < 0 || *zeros > kMostZeros) return 0;
  for (std::int64_t i = 0; i < *zeros; ++i) number *= 10;
  return number;
}

}  // namespace

std::string hint_for_number(std::string_view option, std::string_view word) {
  if (word.starts_with('$')) {
    return fmt::format("double quotes in the place of single ones around '{}', so that the shell replaces it",
                       sim::printable_text(std::string(word)).substr(0, 40));
  }
  const std::size_t begin = std::min(word.find_first_of(kNumerals), word.size());
  const std::size_t length = std::min(word.find_first_not_of(kNumerals, begin), word.size()) - begin;
  const std::string_view digits = word.substr(begin, length), behind = word.substr(begin + length);
  const bool has_letters_before = std::ranges::any_of(word.substr(0, begin), is_letter);
  if (digits.empty() || has_letters_before) return fmt::format("--{} 1", option);
  const bool is_whole = behind.starts_with('.') && behind.find_first_not_of('0', 1) == std::string_view::npos;
  const bool goes_on = !behind.empty() && (is_letter(behind.front()) || (behind.front() == '.' && !is_whole));
  if (!goes_on) return fmt::format("--{} {}", option, digits);
  const std::int64_t meant = number_meant(digits, behind);
  return fmt::format("--{} {}", option, meant > 0 ? meant : 1);
}

void refuse_number(const std::string& option, const std::string& word, const char* rule) {
  sim::refuse(
      {.code = "not_a_number",
       .option = "--" + option,
       .numbers = word.empty() ? "no value" : fmt::format("'{}'", sim::printable_text(word).substr(0, 100)),
       .rule = rule,
       .hint = hint_for_number(option, word)});
}

}  // namespace verify
