#pragma once

/// A rank program for real engines, which measures how long the collectives of a layout's groups take, and
/// how many elements of their results are wrong.
///
///   BandwidthRows rows;
///   cluster.run(world, device, [&](sim::Rank& rank) { rows = bandwidth_round(rank, plan, clock); });
///
/// Shapes  one row for each kind of groups with more than one member, each operation and each size, in this
///         order; all ranks have the same rows. A size is defined as in nccl-tests: the larger of the bytes
///         that a rank gives and gets, rounded down to whole elements, or to whole blocks, but at least one.
///         A broadcast comes from the last member and a reduce goes to the first, so that rank 0, which is
///         the first member of each of its groups, waits for data.
/// Calls   each row makes one call to warm up, a barrier, `iterations` timed calls, and one checked call;
///         each is waited for before the next. The program is correct on every layout: a rank that is in no
///         group of a kind leaves the kind out. A plan must have (SIM_CHECK) the dtype f32 or i32, at least
///         one iteration, and operations of kBandwidthOperations.
/// Exact   timed calls move zeros. The checked call sums positive whole numbers, which are added exactly in
///         every order (below), into memory of zeros. Every element that this rank receives is
///         compared bit for bit with the definition. The clock influences only `seconds`. The program waits
///         for the device by reading an element before and after the timed calls.
/// Source  nccl-tests.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/comm/rank.h"

namespace verify {

// Whole numbers for a collective whose result is known without a reference: what each rank contributes, and
// the sum of all contributions.
//
//   element i of rank r = scale(r) * draw(i) + offset(r)
//
// Shapes  draws, scales and offsets are keyed, so that every rank can compute those of every other rank. A
//         sum over ranks has the same form as an element.
// Exact   every element is positive, and so small that any sum over `ranks` ranks is a whole number below
//         2^24. In f32 and i32 such a sum is the same in every order of addition.

struct ExactTerms {
  std::int64_t scale = 0;
  std::int64_t offset = 0;
  ExactTerms& operator+=(const ExactTerms& other) {
    scale += other.scale;
    offset += other.offset;
    return *this;
  }
};

class ExactValues {
 public:
  /// Draws `count` numbers, for groups of `ranks` ranks.
  ExactValues(int ranks, std::int64_t count);

  ExactTerms terms_of(int rank) const;
  /// Appends the elements `first` to first + count - 1 of the tensor that has these terms.
  void append(std::vector<std::int32_t>& values, const ExactTerms& terms, std::int64_t first,
              std::int64_t count) const;

 private:
  std::uint32_t span_;  // draws are from 0 to span - 1, offsets from 1 to span
  std::vector<std::int32_t> draws_;
};

/// Returns the seconds since some fixed moment.
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
  std::vector<std::string> kinds = {};  // kinds of groups to measure; empty: all
};

struct BandwidthRow {
  std::string kind;
  int ranks;  // number of members of each of its groups
  sim::Operation operation;
  sim::DType dtype;
  std::int64_t count;                  // elements, counted as in sim/comm/call.h and in nccl-tests
  std::int64_t bytes;                  // the larger of the bytes that a rank gives and gets
  int root;                            // place in the group, -1 for none
  std::optional<int> group = {};       // index of this rank's group of the kind
  std::optional<double> seconds = {};  // time of one call in this rank's group
  std::int64_t wrong = 0;              // number of wrong elements
  bool operator==(const BandwidthRow&) const = default;
};

using BandwidthRows = std::vector<BandwidthRow>;

/// Returns the rows of a plan, without measurements.
BandwidthRows bandwidth_rows(const sim::Layout& layout, const BandwidthPlan& plan);

/// Returns the number of wrong elements in all rows.
std::int64_t wrong_elements(const BandwidthRows& rows);

BandwidthRows bandwidth_round(sim::Rank& rank, const BandwidthPlan& plan, const Clock& clock);

// The short text in which a rank tells rank 0 how many elements of each of its rows are wrong.
//
// Shapes  a JSON array [row, wrong, row, wrong, ...] with ascending rows. Rows without a wrong element are
//         left out, so that "[]" means that everything is right.
// Exact   the text has at most `most_bytes`. If that is too short, the number of the last row that fits
//         includes the wrong elements of all rows after it, so that the sum is still right.

inline constexpr std::size_t kMostWrongText = 1000;

/// `most_bytes` must have room for at least one pair.
std::string wrong_elements_text(const BandwidthRows& rows, std::size_t most_bytes = kMostWrongText);

/// Adds the numbers of a text to the rows. Returns false and adds nothing if the text does not have this
/// form, or does not fit these rows.
[[nodiscard]] bool add_wrong_elements(BandwidthRows& rows, const std::string& text);

}  // namespace verify
