#pragma once

/// A rank program that is drawn from a seed and makes every operation of a communicator, in every group of
/// its layout and in groups that it makes: to be run in two ways, on virtual ranks and on real processes,
/// that have to agree.
///
/// Shapes  step i is operation i modulo their number, in a group, a dtype and sizes that are drawn; about
///         half of them started, and waited for up to three steps later. kOperations * (kinds + 1) steps make
///         every operation in every kind of group.
/// Calls   right on every layout: all ranks go through the same steps, and those that are in no group of a
///         step's kind leave it out.
/// Exact   publishes every output. A function of (calls, layout) alone. Values of `any_order` are of -2, -1,
///         1 and 2: in groups of up to 128 ranks no partial sum or product of them is rounded, so that every
///         order of adding gives the same bits.

#include <cstdint>
#include <vector>

#include "sim/comm/rank.h"

namespace verify {

inline constexpr int kOperations = 14;

struct RandomCalls {
  std::uint64_t seed = 0;
  int steps = 0;
  std::vector<sim::DType> dtypes = {sim::DType::f64, sim::DType::f32, sim::DType::bf16, sim::DType::field,
                                    sim::DType::i32};
  bool any_order = false;
};

void random_calls(sim::Rank& rank, const RandomCalls& calls);

}  // namespace verify
