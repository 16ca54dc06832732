#pragma once

/// What a sweep tries: the sizes of tp, pp, cp and ep, the microbatch, and what is computed again, each with
/// the values that are tried. The world, the global batch and all else stay those of the scenario.
///
/// Shapes  by default, tp takes the divisors of the world up to the GPUs of a node; pp those up to the
///         layers; cp those up to 16; ep the divisors of the experts and the world; the microbatch 1, 2 and
///         4; recompute none, selective and full. The scenario's own values are tried, too. --sweep-values
///         tp=4,8 gives others. Sizes whose product does not divide the world are left out before anything
///         is asked.
/// Errors  sweep_values: a text that is not NAME=VALUE,..., a name or a value that is none, or a name twice;
///         missing_option: no world size or no global batch.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/requests/scenario.h"

namespace verify {

inline constexpr const char* kRecomputations[] = {"none", "selective", "full"};

struct SweepPoint {
  std::int64_t tp = 1, pp = 1, cp = 1, ep = 1, micro_batch_size = 1;
  int recompute = 0;  // of kRecomputations
  auto operator<=>(const SweepPoint&) const = default;
};

struct SweepSpace {
  std::vector<std::int64_t> tp, pp, cp, ep, micro_batch_size;  // ascending
  std::vector<int> recompute;
  std::vector<SweepPoint> points(std::int64_t world_size) const;
};

/// Returns what the options of a scenario ask for.
SweepSpace sweep_space(const Settings& settings);

/// Returns the sizes that the scenario itself has.
SweepPoint own_point(const Settings& settings);

/// Returns the scenario with other sizes.
Scenario at_point(const Scenario& scenario, const SweepPoint& point);

}  // namespace verify
