#include "verify/campaign/shrinking.h"

#include <set>
#include <utility>

namespace verify {

namespace {

constexpr std::int64_t kAllOf = 16;

/// Returns the numbers from `least` on that are tried in place of `number`, the smallest first.
std::set<std::int64_t> smaller_numbers(std::int64_t least, std::int64_t number) {
  std::set<std::int64_t> smaller;
  if (number <= least) return smaller;
  smaller.insert(least);
  const bool tries_all = number - least <= kAllOf;
  for (std::int64_t step = 1; step < number - least; step = tries_all ? step + 1 : 2 * step) {
    smaller.insert(least + step);
    smaller.insert(number - step);
  }
  return smaller;
}

}  // namespace

CaseSetting shrunk(const Case& the_case, CaseSetting failing,
                   const std::function<bool(const CaseSetting&)>& fails) {
  // Replaces a number of the setting by the smallest one with which it still fails. Returns whether there is
  // one.
  const auto shrinks = [&](std::int64_t least, std::int64_t number, const auto& replace) {
    for (const std::int64_t candidate : smaller_numbers(least, number)) {
      CaseSetting smaller = failing;
      replace(smaller, candidate);
      if (!fails(smaller)) continue;
      failing = std::move(smaller);
      return true;
    }
    return false;
  };
  bool any = true;
  while (any) {
    any = shrinks(1, failing.group_size, [](CaseSetting& s, auto n) { s.group_size = static_cast<int>(n); });
    any |= shrinks(1, failing.replicas, [](CaseSetting& s, auto n) { s.replicas = static_cast<int>(n); });
    for (const Dimension& d : the_case.dimensions()) {
      any |= shrinks(d.least, failing.dimensions.at(d.name),
                     [&](CaseSetting& s, auto n) { s.dimensions[d.name] = n; });
    }
  }
  return failing;
}

}  // namespace verify
