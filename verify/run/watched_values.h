#pragma once

/// What modules take and give, and the gradients of these, of a training on a layout and of its reference.
/// The first module that computes something else is the first whose value differs.
///
/// Shapes  a program publishes such a value with the shape that a rank has, of the kind "watched" or "watched
///         gradient". Its name has parts with tabs between them (verify/python/shardproof/watched.py).
///         A row is one value of a module in all microbatches of a step. A microbatch is a forward of the
///         module. Rows are in the order of the reference.
/// Exact   where a part lies in the whole is guessed from its shape (placements.h): a value agrees if any
///         placement makes all of its parts right, within the bounds of value_bounds.h. So a value of a
///         layout that holds is said to agree, or not to be compared. A mean over fewer tokens multiplies
///         gradients; by how much is the same for all of a layout.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "verify/run/compared_values.h"
#include "verify/run/value_bounds.h"

namespace verify {

/// A value of a module in one step: what it "takes" or "gives", or the gradient of that.
struct WatchedKey {
  std::int64_t step = 0;
  bool is_gradient = false;
  std::string role = {}, module = {};
  auto operator<=>(const WatchedKey&) const = default;
};

/// What one run has published.
struct WatchedValues {
  struct Value {
    std::string kind;                                          // the class of the module
    std::string layers;                                        // in the module, by their numbers
    std::map<int, std::map<std::int64_t, StoredValue>> parts;  // by rank and microbatch, with one part each
    std::string disagreement;                                  // why it is not one value; "" if it is
  };
  std::vector<WatchedKey> order;  // in which the first rank that has a value publishes it
  std::map<WatchedKey, Value> values;
  std::map<std::string, std::string> unwatched;  // why values of a module are left out
  std::map<std::string, std::string> unmatched;  // patterns that no module of a rank has: names like them
  std::int64_t ranks = 0;
};

WatchedValues watched_values(const sim::RunReport& report, const sim::GuestRecord& record);

enum class WatchState { agrees, differs, not_compared };

struct WatchRow {
  WatchedKey key;
  WatchState state = WatchState::agrees;
  std::int64_t microbatches = 0;  // of the reference
  std::string what = {};          // why it is not compared, or how it differs
};

struct ComparedWatch {
  std::vector<WatchRow> rows;  // of the first step, and of the first further one that differs
  std::int64_t factor = 1;     // of gradients
};

/// Values of a reference, with which those of layouts are compared.
class WatchReference {
 public:
  /// The reference outlives it. A twin is the reference with other roundings.
  explicit WatchReference(const WatchedValues& reference, const WatchedValues* twin = nullptr);
  ComparedWatch compared(const WatchedValues& layout, const NamesOfLayout& names, bool layout_holds) const;

 private:
  const WatchedValues& watched_;
  GlobalValues by_microbatch_, of_twin_;
  ValueBounds bounds_;
};

}  // namespace verify
