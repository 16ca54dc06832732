#pragma once

/// A rank program that is drawn from a seed and makes all operations of a communicator, in the groups of its
/// layout and in groups that it creates. It is run in two ways, on virtual ranks and on real processes, and
/// the two must agree.
///
/// Shapes  step i makes operation i modulo kOperations, with a dtype and with sizes that are drawn. About
///         half of the calls are started asynchronously and waited for up to three steps later. Each
///         operation goes through all kinds of groups, the world among them, from a kind that is drawn for
///         it: with steps_for_every_kind() each runs exactly once in each kind. new_group is a call of the
///         world alone; messages need a group of two.
/// Calls   the program is correct on every layout: all ranks go through the same steps, and a rank that is in
///         no group of a step's kind leaves the step out.
/// Exact   every output is published, and depends only on the calls and the layout. With `any_order`, values
///         are -2, -1, 1 and 2. In groups of up to 128 ranks no partial sum or product of them is rounded, so
///         that every order of adding gives the same bits.

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

/// The number of steps in which every operation runs in every kind of group of a layout, and in the world.
int steps_for_every_kind(const sim::Layout& layout);

void random_calls(sim::Rank& rank, const RandomCalls& calls);

}  // namespace verify
