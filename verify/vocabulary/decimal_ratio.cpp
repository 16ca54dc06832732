#include "verify/vocabulary/decimal_ratio.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <regex>
#include <string>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

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

}  // namespace verify
