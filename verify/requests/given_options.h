#pragma once

/// Refusals of sim name the option of each size. Here they are told with the options that the user gave in
/// its place, so that what they try can be followed: chunks may be given as stages or as layers, an order as
/// a mapping, and microbatches as a batch.
///
/// Exact   A hint with a number becomes one without it, where the given option does not count the same thing.

#include <cstdint>
#include <optional>

#include "sim/base/error.h"
#include "verify/vocabulary/settings.h"

namespace verify {

/// Returns the refusal with the options of these settings. `round` is the number of sequences that a
/// microbatch on every replica has, where it is known.
sim::Refusal in_given_options(sim::Refusal refusal, const Settings& settings,
                              std::optional<std::int64_t> round = std::nullopt);

/// Throws the refusals of an error so.
[[noreturn]] void refuse_in_given_options(const sim::Error& error, const Settings& settings,
                                          std::optional<std::int64_t> round = std::nullopt);

/// Does a piece of work, whose refusals are told so.
template <typename Work>
auto told_in_given_options(const Settings& settings, std::optional<std::int64_t> round, const Work& work) {
  try {
    return work();
  } catch (const sim::Error& error) {
    refuse_in_given_options(error, settings, round);
  }
}

}  // namespace verify
