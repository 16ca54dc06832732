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
///         and output are those of the dispatch, swapped. Where both are equal, the two are not told apart.

#include <cstddef>
#include <cstdint>
#include <string>

#include "verify/inspect/job.h"

namespace verify {

inline constexpr std::int64_t kMostOfALoss = 16;

struct CallMeaning {
  std::string text;          // a noun phrase; "" where nothing fits
  std::int64_t bucket = 0;   // the number of a bucket; 0: the call is no bucket, or its number is not known
  std::int64_t buckets = 0;  // how many buckets the step has; 0: not known
};

/// Returns what a call of a dump looks like, by its index.
CallMeaning call_meaning(const Job& job, std::size_t dump, std::size_t index);

}  // namespace verify
