#pragma once

/// Refusals of sim name the option of each size. Here they name the options that the user gave in its place,
/// so that what they try can be followed: chunks may be given as stages or as layers, an order as a mapping,
/// and microbatches as a batch.
///
/// Exact   A size to try becomes another value, where the given option does not count the same thing.

#include <cstdint>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/vocabulary/settings.h"

namespace verify {

/// Returns the refusal with the options of these settings. `round` is the number of sequences that a
/// microbatch on every replica has, where it is known.
sim::Refusal in_given_options(sim::Refusal refusal, const Settings& settings,
                              std::optional<std::int64_t> round = std::nullopt);

/// Does a piece of work, whose refusals name the options of these settings.
template <typename Work>
auto with_given_options(const Settings& settings, std::optional<std::int64_t> round, const Work& work) {
  return sim::with_refusals_named(
      work, [&](sim::Refusal refusal) { return in_given_options(std::move(refusal), settings, round); });
}

}  // namespace verify
