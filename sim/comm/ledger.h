#pragma once

/// The ledger: for each group kind, site, operation and dtype, the number of calls, their elements, and the
/// bytes that a ring algorithm sends for them, inside a node and across nodes. It is computed from the call
/// records alone.
///
/// Shapes  totals over all ranks, except `most_bytes`: the bytes of the rank that sent the most.
/// Exact   rows are sorted by kind, site, operation and dtype.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/comm/call.h"

namespace sim {

struct LedgerRow {
  std::string kind;
  std::string site;
  Operation operation = Operation::barrier;
  DType dtype = DType::f64;
  std::int64_t ranks = 0;         // ranks that made at least one of these calls
  std::int64_t calls = 0;         // calls of all ranks
  std::int64_t elements = 0;      // sum of the counts of all calls
  std::int64_t bytes_inside = 0;  // bytes sent inside a node
  std::int64_t bytes_across = 0;  // bytes sent to other nodes
  std::int64_t most_bytes = 0;    // the most bytes that one rank sent
  bool operator==(const LedgerRow&) const = default;
};

class Ledger {
 public:
  /// Adds the calls of one rank. It must get all calls of a rank at once.
  void add(std::span<const CallRecord> calls);
  std::vector<LedgerRow> rows() const;

 private:
  struct Key {
    std::string_view kind;
    std::string_view site;
    Operation operation;
    DType dtype;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, LedgerRow> rows_;
};

}  // namespace sim
