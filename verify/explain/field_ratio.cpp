#include "verify/explain/field_ratio.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <vector>

namespace verify {

namespace {

using sim::Field;

constexpr std::int64_t kLargest = 1000;
constexpr std::int64_t kLargestUnderRoot = 100;

/// Returns the highest level on which an element is left and not zero; -1 if fewer than two levels are left.
int highest_level(const Field& x) {
  int levels = 0, highest = -1;
  for (std::size_t level = 0; level < sim::kFieldLevels; ++level) {
    if (!x.is_live(level)) continue;
    ++levels;
    if (x.residues[level] != 0) highest = static_cast<int>(level);
  }
  return levels < 2 ? -1 : highest;
}

/// All numbers that have a name, but those that are 1.
std::vector<NamedNumber> named_numbers(const Case& the_case, const CaseSetting& setting) {
  std::vector<NamedNumber> numbers = the_case.factors(setting);
  if (setting.ranks != Ranks::world)
    numbers.insert(numbers.begin(), {name_of(setting.ranks), setting.group_size});
  std::erase_if(numbers, [](const NamedNumber& number) { return number.value == 1; });
  return numbers;
}

/// Returns the names of a number, or of the squares and products of two that it is, if it has no name of its
/// own.
std::set<std::string> names_of(std::int64_t value, const std::vector<NamedNumber>& numbers) {
  std::set<std::string> names;
  for (const NamedNumber& number : numbers) {
    if (number.value == value) names.insert(number.name);
  }
  if (!names.empty() || value == 1) return names;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].value * numbers[i].value == value) names.insert(numbers[i].name + " squared");
    for (std::size_t j = i + 1; j < numbers.size(); ++j) {
      if (numbers[i].value * numbers[j].value == value)
        names.insert(numbers[i].name + " * " + numbers[j].name);
    }
  }
  return names;
}

/// Returns "tp (2)", "2 (hidden or tp)" or "2".
std::string with_names(std::int64_t value, const std::set<std::string>& names) {
  constexpr std::size_t kMostNames = 3;
  if (names.empty() || names.size() > kMostNames) return fmt::format("{}", value);
  if (names.size() == 1) return fmt::format("{} ({})", *names.begin(), value);
  return fmt::format("{} ({})", value, fmt::join(names, " or "));
}

}  // namespace

Field SmallRatio::value(const reference::Number<Field>& number) const {
  const Field above = Field::of(numerator), one = Field::of(1);
  switch (root) {
    case Root::none:
      return above / Field::of(denominator);
    case Root::sqrt:
      return number.sqrt(above);
    case Root::rsqrt:
      return number.rsqrt(above);
    case Root::over_rsqrt:
      return one / number.rsqrt(above);
    case Root::over_sqrt:
      break;
  }
  return one / number.sqrt(above);
}

std::optional<SmallRatio> small_fraction(const Field& of, const Field& to) {
  if (highest_level(to) < 0 || highest_level(of) < 0) return std::nullopt;
  const Field ratio = of / to;
  const int highest = highest_level(ratio);  // a level may be left of one of them alone
  if (highest < 0) return std::nullopt;
  const auto level = static_cast<std::size_t>(highest);
  const std::int64_t prime = sim::kFieldPrimes[level];
  const auto quotient = static_cast<std::int64_t>(ratio.residues[level]);
  for (std::int64_t denominator = 1; denominator <= kLargest; ++denominator) {
    std::int64_t numerator = quotient * denominator % prime;
    if (numerator > prime / 2) numerator -= prime;
    if (numerator == 0 || std::abs(numerator) > kLargest) continue;
    if (Field::of(numerator) / Field::of(denominator) * to == of) return SmallRatio{numerator, denominator};
  }
  for (std::int64_t power = 1024; power <= std::int64_t{1} << 24; power *= 2) {
    for (const std::int64_t sign : {1, -1}) {
      if (Field::of(sign) / Field::of(power) * to == of) return SmallRatio{sign, power};
      if (Field::of(sign * power) * to == of) return SmallRatio{sign * power, 1};
    }
  }
  return std::nullopt;
}

std::optional<SmallRatio> small_ratio(const reference::Number<Field>& number, const Field& of,
                                      const Field& to) {
  if (const auto fraction = small_fraction(of, to)) return fraction;
  if (highest_level(to) < 0 || highest_level(of) < 0) return std::nullopt;
  using enum SmallRatio::Root;
  for (std::int64_t under = 2; under <= kLargestUnderRoot; ++under) {
    for (const SmallRatio::Root root : {SmallRatio::Root::sqrt, rsqrt, over_rsqrt, over_sqrt}) {
      const SmallRatio ratio{under, 1, root};
      if (ratio.value(number) * to == of) return ratio;
    }
  }
  return std::nullopt;
}

std::set<std::string> names_of(const SmallRatio& ratio, const Case& the_case, const CaseSetting& setting) {
  const auto numbers = named_numbers(the_case, setting);
  const auto [above, below, root] = ratio;
  if (root != SmallRatio::Root::none) return {};
  if (above == 1 || below == 1) return names_of(std::max(above, below), numbers);
  std::set<std::string> names;
  for (const NamedNumber& a : numbers) {
    for (const NamedNumber& b : numbers) {
      if (a.value * below == b.value * above)
        names.insert(fmt::format("{} ({}) / {} ({})", a.name, a.value, b.name, b.value));
    }
  }
  return names;
}

std::string text_of(const SmallRatio& ratio, const std::set<std::string>& names) {
  const auto [above, below, root] = ratio;
  if (root == SmallRatio::Root::sqrt || root == SmallRatio::Root::over_rsqrt)
    return fmt::format("sqrt({}) times the serial one", above);
  if (root != SmallRatio::Root::none) return fmt::format("the serial one divided by sqrt({})", above);
  if (below == 1) return fmt::format("{} times the serial one", with_names(above, names));
  if (above == 1) return fmt::format("the serial one divided by {}", with_names(below, names));
  constexpr std::size_t kMostNames = 2;
  const bool is_named = !names.empty() && names.size() <= kMostNames;
  return fmt::format("{}/{} of the serial one{}{}", above, below, is_named ? ", which is " : "",
                     is_named ? fmt::format("{}", fmt::join(names, " or ")) : "");
}

}  // namespace verify
