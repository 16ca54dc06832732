#pragma once

/// The stretches of a training that stops and resumes: which steps each takes, and the store through which
/// they pass the state on.
///
/// Calls   a store that is watched ends the run by a std::logic_error when a file that the index of the
///         checkpoint names is written or removed: a process that ended then would have lost the checkpoint.
///         The exception is no sim::Error, because a save ignores a refusal to remove.

#include <cstdint>
#include <memory>

#include "sim/optimizer/checkpoint_store.h"
#include "verify/cases/case_setting.h"

namespace verify {

/// Returns the first step that the training of a setting takes, and the step before which it ends.
inline std::int64_t first_step(const CaseSetting& s) { return s.stretch ? s.stretch->first : 0; }
inline std::int64_t end_step(const CaseSetting& s) { return s.stretch ? s.stretch->last : s["steps"]; }

/// Returns a store in memory that refuses to touch what its index names.
std::shared_ptr<sim::CheckpointStore> watched_store();

}  // namespace verify
