#pragma once

/// A rank program for real engines: how long the collectives of a layout's groups take, and how many elements
/// of their results are wrong.
///
///   BandwidthRows rows;
///   cluster.run(world, device, [&](sim::Rank& rank) { rows = bandwidth_round(rank, plan, clock); });
///
/// Shapes  a row for each kind of groups with more than one member, operation and size, in this order, on
///         every rank the same rows. Sizes are those of nccl-tests: the larger of what a rank gives and gets,
///         cut to whole elements, or to whole blocks, but at least one. broadcast comes from the last member,
///         reduce goes to the first: rank 0, the first wherever it is a member, waits for data.
/// Calls   of each row: one to warm up, a barrier, `iterations` that are timed, one that is checked; each is
///         waited for before the next. Right on every layout: ranks that are in no group of a kind leave it
///         out. A plan is right (CHECK): f32 or i32, one iteration and more, operations of
///         kBandwidthOperations.
/// Exact   what is timed moves zeros. The checked call sums positive whole numbers that every order of
///         addition adds exactly (exact_values.h), into memory of zeros; of what is to come to this rank
///         every element is held against the definition, bit for bit. The clock reaches `seconds` alone. A
///         device is waited for by reading an element, before and after what is timed.
/// Source  nccl-tests.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/comm/rank.h"

namespace verify {

/// Seconds since some moment.
using Clock = std::function<double()>;

inline const std::vector<sim::Operation> kBandwidthOperations = {
    sim::Operation::all_reduce, sim::Operation::all_gather, sim::Operation::reduce_scatter,
    sim::Operation::broadcast,  sim::Operation::reduce,     sim::Operation::all_to_all};

struct BandwidthPlan {
  std::vector<std::int64_t> sizes;  // bytes
  sim::DType dtype = sim::DType::f32;
  int iterations = 20;
  std::vector<sim::Operation> operations = {sim::Operation::all_reduce, sim::Operation::all_gather,
                                            sim::Operation::reduce_scatter};
  std::vector<std::string> kinds = {};  // that are measured; empty: all
};

struct BandwidthRow {
  std::string kind;
  int ranks;  // of each of its groups
  sim::Operation operation;
  sim::DType dtype;
  std::int64_t count;                  // elements, as sim/comm/call.h counts them, and nccl-tests
  std::int64_t bytes;                  // the larger of what a rank gives and gets
  int root;                            // place in the group, -1 for none
  std::optional<int> group = {};       // this rank's of the kind
  std::optional<double> seconds = {};  // for a call, of this rank's group
  std::int64_t wrong = 0;              // elements
  bool operator==(const BandwidthRow&) const = default;
};

using BandwidthRows = std::vector<BandwidthRow>;

/// Before anything is measured.
BandwidthRows bandwidth_rows(const sim::Layout& layout, const BandwidthPlan& plan);

/// The number of wrong elements in all rows.
std::int64_t wrong_elements(const BandwidthRows& rows);

BandwidthRows bandwidth_round(sim::Rank& rank, const BandwidthPlan& plan, const Clock& clock);

}  // namespace verify
