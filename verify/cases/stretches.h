#pragma once

/// The stretches of a training that stops and resumes: which steps each takes, and the store through which
/// they pass the state on.
///
/// Calls   the store, which is watched, ends the run by a std::logic_error when a file that the index of the
///         checkpoint names is written or removed: a process that ended then would have lost the checkpoint.
///         The exception is no sim::Error, because a save ignores a refusal to remove.

#include <cstdint>
#include <vector>

#include "verify/cases/case_setting.h"

namespace verify {

/// Returns the first step that the training of a setting takes, and the step before which it ends.
inline std::int64_t first_step(const CaseSetting& s) { return s.stretch ? s.stretch->first : 0; }
inline std::int64_t end_step(const CaseSetting& s) { return s.stretch ? s.stretch->last : s["steps"]; }

/// Returns a training in three stretches: on the ranks of `whole`, on those of `between`, and on those of
/// `whole` again. The steps at which it stops follow from its seed. The stretch in between takes a step in
/// the field alone, where sums are not rounded; in floats it loads and saves. A watched store in memory
/// carries the state.
std::vector<CaseSetting> in_stretches(const CaseSetting& whole, CaseSetting between);

}  // namespace verify
