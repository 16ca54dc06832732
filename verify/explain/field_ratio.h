#pragma once

/// A ratio of two elements of the field as a fraction of small whole numbers, and the names that a case has
/// for such a fraction.
///
/// Exact   a fraction is the ratio on every level that is left, of which there are two at least, so that a
///         ratio of large numbers is one by chance in less than one of a thousand.

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "sim/base/field.h"
#include "verify/cases/case.h"
#include "verify/reference/number.h"

namespace verify {

/// The field's square root and inverse square root are two functions of their own, so that there are four
/// roots of a number.
struct SmallRatio {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
  enum class Root { none, sqrt, rsqrt, over_rsqrt, over_sqrt } root = Root::none;
  bool operator==(const SmallRatio&) const = default;
  sim::Field value(const reference::Number<sim::Field>& number) const;
};

/// Returns the fraction of whole numbers up to 1,000 that a quotient is, or one of a power of two.
std::optional<SmallRatio> small_fraction(const sim::Field& of, const sim::Field& to);
/// Returns the same, or a square root of a number up to 100.
std::optional<SmallRatio> small_ratio(const reference::Number<sim::Field>& number, const sim::Field& of,
                                      const sim::Field& to);

/// Returns the names that a ratio has at a setting: those of its numbers, of products of two of them, or of
/// quotients of two, such as "the tokens of rank 0 (3) / all tokens (5)".
std::set<std::string> names_of(const SmallRatio& ratio, const Case& the_case, const CaseSetting& setting);

/// Returns "tp (2) times the serial one", "the serial one divided by tp (2)" or "5/6 of the serial one": with
/// its names, of which there are three at most.
std::string text_of(const SmallRatio& ratio, const std::set<std::string>& names);

}  // namespace verify
