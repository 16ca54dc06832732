#include "verify/vocabulary/decimal_ratio.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <string>

namespace verify {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 31;
constexpr std::size_t kMostDigits = 18;

std::optional<std::int64_t> power_of_ten(std::int64_t exponent) {
  if (exponent < 0 || exponent > static_cast<std::int64_t>(kMostDigits)) return std::nullopt;
  std::int64_t power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}

std::optional<std::int64_t> whole(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Takes the exponent off the end of a number: 0 where there is none. Returns nothing where it is no
/// exponent.
std::optional<std::int64_t> take_exponent(std::string_view& text) {
  const std::size_t at = text.find_first_of("eE");
  if (at == std::string_view::npos) return 0;
  const auto exponent = whole(text.substr(at + 1));
  text = text.substr(0, at);
  return exponent && *exponent <= 100 && *exponent >= -100 ? exponent : std::nullopt;
}

/// A whole number that is multiplied by a power of ten.
struct Decimal {
  std::int64_t digits, exponent;
};

/// Reads digits with at most one point. Zeros at the end become a part of the exponent.
std::optional<Decimal> decimal_of(std::string_view text, std::int64_t exponent) {
  const std::size_t point = text.find('.');
  std::string digits(text.substr(0, point));
  if (point != std::string_view::npos) {
    digits += text.substr(point + 1);
    exponent -= static_cast<std::int64_t>(text.size() - point - 1);
  }
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  for (; digits.size() > 1 && digits.back() == '0'; ++exponent) digits.pop_back();
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits.size() > kMostDigits) return std::nullopt;
  return Decimal{*whole(digits), digits == "0" ? 0 : exponent};
}

}  // namespace

std::optional<sim::Ratio> decimal_ratio(std::string_view text) {
  const std::optional<std::int64_t> exponent = take_exponent(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::optional<Decimal> decimal = exponent ? decimal_of(text, *exponent) : std::nullopt;
  if (!decimal) return std::nullopt;
  const auto power = power_of_ten(std::abs(decimal->exponent));
  if (!power) return std::nullopt;
  std::int64_t numerator = decimal->digits, denominator = 1;
  if (decimal->exponent < 0) denominator = *power;
  if (decimal->exponent > 0 && __builtin_mul_overflow(numerator, *power, &numerator)) return std::nullopt;
  const std::int64_t divisor = std::gcd(numerator, denominator);
  numerator /= divisor;
  denominator /= divisor;
  if (numerator > kMost || denominator > kMost) return std::nullopt;
  return sim::Ratio{is_negative ? -numerator : numerator, denominator};
}

}  // namespace verify
