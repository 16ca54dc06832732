#pragma once

/// What a training has published, by name, with the parts of each value that ranks hold. Runs of one program
/// on several layouts have the same names.
///
/// Shapes  elements are numbered row by row in the whole. A loss is one number: the sum of what all replicas
///         give, divided by the sum of their weights.
/// Calls   elements are read when a value is asked for, from the report of a run or from files, so a
///         comparison holds few values at a time.

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/guest/guest_program.h"
#include "sim/world/simulate.h"

namespace verify {

/// In the order in which a step computes them.
enum class PublishedKind { parameter, value, loss, gradient, norm, state };
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

/// The two names that a state of an optimizer has: "exp_avg of decoder.final_layernorm.weight".
struct NamesOfState {
  std::string state;  // "" of values of other kinds
  std::string parameter;
};
NamesOfState names_of_state(const ValueKey& key);
/// Whether a state is a sum of squares of gradients, as its name says: exp_avg_sq, square_avg, sum.
bool has_squares(const ValueKey& key);

/// The elements that one rank holds, with their numbers in the whole.
struct Piece {
  int rank = 0;
  std::vector<std::int64_t> places;
  std::vector<double> elements;
};

/// A value that is put together.
struct GlobalValue {
  std::vector<std::int64_t> whole;  // the shape
  std::vector<Piece> pieces;
  /// Returns the elements; no number where no rank has one.
  std::vector<double> elements() const;
};

using ReadElements = std::function<std::vector<double>()>;

/// Where the elements of a value are.
struct StoredValue {
  struct Part {
    int rank;
    sim::GuestPlace place;
    ReadElements read;
  };
  std::vector<std::int64_t> whole;
  std::vector<Part> parts;
  std::string disagreement;  // of ranks about the shape
  std::int64_t count() const;
};

struct GlobalValues {
  std::map<ValueKey, StoredValue> values;
  std::vector<std::string> parameters;  // in the order of the model: that in which ranks publish them
  std::vector<std::string> named;       // by shardproof.publish() of the program, in that order
  std::set<std::string> left_out;       // parameters whose place in the whole is not known, and states
  std::set<std::string> states;         // names of states that the optimizers have of any parameter

  /// Takes what a rank has published. What is of no known kind is left.
  void add(int rank, const std::string& name, const sim::GuestPlace& place, ReadElements read);
  GlobalValue at(const ValueKey& key) const;
  std::int64_t steps() const;
};

/// Returns the parameters of one run that the other lacks.
std::vector<std::string> parameters_beside(const GlobalValues& some, const GlobalValues& others);
/// Returns what is not compared, by the names under which it is told: what one of both leaves out, parameters
/// that the reference lacks, and states that only optimizers of one run have.
std::set<std::string> not_compared(const GlobalValues& run, const GlobalValues& reference);
/// Returns "[2, 3]".
std::string text_of_shape(const std::vector<std::int64_t>& whole);
/// Returns the largest magnitude of some elements that is finite; 0 if there is none.
double largest_of(const std::vector<double>& elements);

/// Returns what reads the elements, of f64, of a value that a guest has published.
ReadElements reading_of(const sim::Published& published);
/// Returns what the guests of a run have published. The report outlives it.
GlobalValues global_values(const sim::RunReport& report, const sim::GuestRecord& record);

}  // namespace verify
