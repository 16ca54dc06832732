#include "verify/vocabulary/spelled_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <regex>

#include "sim/base/printable_text.h"
#include "verify/output/refusal_table.h"
#include "verify/output/table_rows.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr std::string_view kForkChoices =
#include "fork_choices.tsv.inc"
    ;

constexpr std::string_view kNumerals = "0123456789";

struct ByteUnit {
  std::string_view name;
  double bytes;
};
constexpr ByteUnit kByteUnits[] = {{"", 1},
                                   {"B", 1},
                                   {"kB", 1e3},
                                   {"KB", 1e3},
                                   {"MB", 1e6},
                                   {"GB", 1e9},
                                   {"TB", 1e12},
                                   {"KiB", 1024.0},
                                   {"MiB", 1048576.0},
                                   {"GiB", 1073741824.0},
                                   {"TiB", 1099511627776.0}};

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

std::optional<double> decimal_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<sim::Ratio> decimal_ratio(std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  constexpr std::size_t kMostLetters = 200, kMostDigits = 18;
  static const std::regex kDecimal(
      R"(([+-]?)([0-9]*)\.?([0-9]*)(?:[eE](?:[+]?([0-9]{1,6})|(-[0-9]{1,6})))?)");
  std::cmatch match;
  if (text.size() > kMostLetters || !std::regex_match(text.begin(), text.end(), match, kDecimal))
    return std::nullopt;
  std::string digits = match.str(2) + match.str(3);
  if (digits.empty()) return std::nullopt;
  std::int64_t exponent = whole_number(match.str(4) + match.str(5)).value_or(0) - match.length(3);
  for (; digits.size() > 1 && digits.back() == '0'; ++exponent) digits.pop_back();
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits == "0") exponent = 0;
  if (digits.size() > kMostDigits || std::abs(exponent) > static_cast<std::int64_t>(kMostDigits))
    return std::nullopt;
  std::int64_t numerator = *whole_number(digits), denominator = 1;
  for (; exponent < 0; ++exponent) denominator *= 10;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(numerator, std::int64_t{10}, &numerator)) return std::nullopt;
  const std::int64_t divisor = std::gcd(numerator, denominator);
  if (numerator / divisor > kMost || denominator / divisor > kMost) return std::nullopt;
  return sim::Ratio{(match.str(1) == "-" ? -1 : 1) * numerator / divisor, denominator / divisor};
}

std::int64_t byte_size(const std::string& option, const std::string& text) {
  constexpr double kMost = std::int64_t{1} << 60, kLeastAlone = 1048576.0;  // "80" are hardly 80 bytes
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto* known = std::ranges::find(kByteUnits, unit, &ByteUnit::name);
  const bool is_size = error == std::errc() && end != text.data() && known != std::end(kByteUnits);
  const double bytes = is_size ? number * known->bytes : 0;
  if (bytes >= (unit.empty() ? kLeastAlone : 1) && bytes <= kMost) return static_cast<std::int64_t>(bytes);
  refuse_by("memory_size", "--" + option, text);
}

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
  refuse_by("not_a_number", "--" + option,
            word.empty() ? "no value" : fmt::format("'{}'", sim::printable_text(word).substr(0, 100)), rule,
            hint_for_number(option, word));
}

void require_choice(const std::string& option, const std::string& word,
                    const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, word) != choices.end()) return;
  const std::string nearest = nearest_name(word, choices);
  std::string known, hint = fmt::format("--{} {}", option, nearest.empty() ? choices.front() : nearest);
  for (const TextRow& row : rows_of_table(kForkChoices)) {
    if (row.at(0) != option || row.at(1) != word) continue;
    known = fmt::format("; only {} knows this one", row.at(2));
    hint = row.at(3);
  }
  refuse_by("bad_choice", "--" + option, sim::printable_text(word).substr(0, 100), fmt::join(choices, ", "),
            known, hint);
}

}  // namespace verify
