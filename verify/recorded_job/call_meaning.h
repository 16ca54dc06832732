#pragma once

/// What a pending call looks like in a Megatron training: "the gather of a sequence-parallel input", "the
/// reduce-scatter of gradient bucket 2 of 5". It is a guess from the kind of the group, the operation, its
/// dtype, its sizes, the thread that issued it, and the calls before it.
///
/// Exact   Buckets are counted from 1, in the order of the backward pass, from the last call of the rank that
///         is no bucket and ends a step: one over the ranks of the model (the norm of the gradients), or
///         another operation over the data-parallel ranks. How many there are is that of the step before.
///         Where the ring has lost these calls, no number is said. An all_reduce of up to kMostOfALoss
///         elements is no bucket. A combine of tokens undoes the dispatch before it: the sizes of its input
///         and output are those of the dispatch, swapped. If both are equal, the two are not distinguished.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/recorded_job/job.h"
#include "verify/recordings/recording.h"

namespace verify {

// The line of the user's program that made a recorded call.

/// Returns the frames of a call that are not PyTorch's own, the innermost first; all of them where they are
/// all PyTorch's, and none where the dump has no stack. They are text of the dump, and not yet printable.
std::vector<std::string_view> program_frames(const Recording& recording, const RecordedCall& call);

/// Returns the first of these frames, in printable text: "forward (/home/me/train.py:41)"; "" if there is
/// none.
std::string line_of(const Recording& recording, const RecordedCall& call);
std::string line_of(const JobCall& call);

inline constexpr std::int64_t kMostOfALoss = 16;

struct CallMeaning {
  std::string text;          // a noun phrase; "" where nothing fits
  std::int64_t bucket = 0;   // the number of a bucket; 0: the call is no bucket, or its number is not known
  std::int64_t buckets = 0;  // how many buckets the step has; 0: not known
};

CallMeaning call_meaning(const JobCall& call);

}  // namespace verify
