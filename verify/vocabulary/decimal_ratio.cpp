#include "verify/vocabulary/decimal_ratio.h"

#include <charconv>
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

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<sim::Ratio> decimal_ratio(std::string_view text) {
  std::int64_t exponent = 0;
  if (const std::size_t at = text.find_first_of("eE"); at != std::string_view::npos) {
    const auto given = whole(text.substr(at + 1));
    if (!given || *given > 100 || *given < -100) return std::nullopt;
    exponent = *given;
    text = text.substr(0, at);
  }
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  std::string digits;
  const std::size_t point = text.find('.');
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == point) continue;
    if (!is_digit(text[i])) return std::nullopt;
    digits += text[i];
  }
  if (digits.empty()) return std::nullopt;
  if (point != std::string_view::npos) exponent -= static_cast<std::int64_t>(text.size() - point - 1);
  for (; digits.size() > 1 && digits.back() == '0'; ++exponent) digits.pop_back();
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits.size() > kMostDigits) return std::nullopt;
  if (digits == "0") return sim::Ratio{0, 1};
  const auto power = power_of_ten(exponent < 0 ? -exponent : exponent);
  if (!power) return std::nullopt;
  std::int64_t numerator = *whole(digits), denominator = 1;
  if (exponent < 0) denominator = *power;
  if (exponent > 0 && __builtin_mul_overflow(numerator, *power, &numerator)) return std::nullopt;
  const std::int64_t divisor = std::gcd(numerator, denominator);
  numerator /= divisor;
  denominator /= divisor;
  if (numerator > kMost || denominator > kMost) return std::nullopt;
  return sim::Ratio{is_negative ? -numerator : numerator, denominator};
}

}  // namespace verify
