#include "verify/vocabulary/decimal_ratio.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <string>
#include <system_error>

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

/// The digits of a number without its sign and its point, and the power of ten that multiplies them.
struct Digits {
  std::string digits;
  std::int64_t exponent = 0;
};

std::optional<Digits> digits_of(std::string_view text) {
  Digits number;
  if (const std::size_t at = text.find_first_of("eE"); at != std::string_view::npos) {
    const auto given = whole(text.substr(at + 1));
    if (!given || *given > 100 || *given < -100) return std::nullopt;
    number.exponent = *given;
    text = text.substr(0, at);
  }
  number.digits = text;
  if (const std::size_t point = text.find('.'); point != std::string_view::npos) {
    number.digits.erase(point, 1);
    number.exponent -= std::ssize(text) - static_cast<std::int64_t>(point) - 1;
  }
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (number.digits.empty() || !std::ranges::all_of(number.digits, is_digit)) return std::nullopt;
  for (; number.digits.size() > 1 && number.digits.back() == '0'; ++number.exponent) number.digits.pop_back();
  number.digits.erase(0, std::min(number.digits.find_first_not_of('0'), number.digits.size() - 1));
  return number;
}

/// Returns the ratio in lowest terms; nothing where it needs more than 31 bits.
std::optional<sim::Ratio> ratio_of(const Digits& number) {
  if (number.digits.size() > kMostDigits) return std::nullopt;
  if (number.digits == "0") return sim::Ratio{0, 1};
  const auto power = power_of_ten(number.exponent < 0 ? -number.exponent : number.exponent);
  if (!power) return std::nullopt;
  std::int64_t numerator = *whole(number.digits), denominator = 1;
  if (number.exponent < 0) denominator = *power;
  if (number.exponent > 0 && __builtin_mul_overflow(numerator, *power, &numerator)) return std::nullopt;
  const std::int64_t divisor = std::gcd(numerator, denominator);
  numerator /= divisor;
  denominator /= divisor;
  if (numerator > kMost || denominator > kMost) return std::nullopt;
  return sim::Ratio{numerator, denominator};
}

}  // namespace

std::optional<sim::Ratio> decimal_ratio(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::optional<Digits> number = digits_of(text);
  std::optional<sim::Ratio> ratio = number ? ratio_of(*number) : std::nullopt;
  if (ratio && is_negative) ratio->numerator = -ratio->numerator;
  return ratio;
}

}  // namespace verify
