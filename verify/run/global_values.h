#pragma once

/// What a program has published of its training, by name, with the parts of each value that ranks hold. Runs
/// of one program on several layouts have the same names.
///
/// Shapes  elements are numbered row by row in the whole. A loss is one number: the sum of what all replicas
///         give, divided by the sum of their weights.

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/guest/guest_program.h"
#include "sim/world/simulate.h"

namespace verify {

/// In the order in which a step computes them.
enum class PublishedKind { parameter, value, loss, gradient, norm };
/// Returns "parameters", "losses" and so on.
std::string plural_of(PublishedKind kind);

struct ValueKey {
  std::int64_t step = 0;
  PublishedKind kind = PublishedKind::parameter;
  std::string name = {};
  auto operator<=>(const ValueKey&) const = default;
};

/// Returns "the gradient of decoder.layers.mlp.linear_fc1.weight in step 0".
std::string text_of(const ValueKey& key);

/// The elements that one rank holds, with their numbers in the whole.
struct Piece {
  int rank = 0;
  std::vector<std::int64_t> places;
  std::vector<double> elements;
};

struct GlobalValue {
  std::vector<std::int64_t> whole;  // the shape
  std::vector<Piece> pieces;
  std::string disagreement;  // of ranks about the shape
  std::int64_t count() const;
  /// Returns the elements; no number where no rank has one.
  std::vector<double> elements() const;
};

struct GlobalValues {
  std::map<ValueKey, GlobalValue> values;
  std::vector<std::string> parameters;  // in the order of the model: that in which ranks publish them
  std::vector<std::string> named;       // by shardproof.publish() of the program, in that order
  std::set<std::string> left_out;       // parameters whose place in the whole the program does not know
};

/// Returns "[2, 3]".
std::string text_of_shape(const std::vector<std::int64_t>& whole);
/// Returns the largest magnitude of some elements that is finite; 0 if there is none.
double largest_of(const std::vector<double>& elements);

GlobalValues global_values(const sim::RunReport& report, const sim::GuestRecord& record);

}  // namespace verify
