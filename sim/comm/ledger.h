#pragma once

/// The ledger: for each group kind and site, how often ranks called what, how many elements, and the bytes
/// they sent as a ring algorithm sends them, inside a node and across nodes. It is made from the call records
/// alone.
///
/// Shapes  totals over all ranks; `most_bytes` is what the busiest rank sent.
/// Exact   rows are in order of kind, site, operation and dtype.

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
  std::int64_t ranks = 0;         // that called here
  std::int64_t calls = 0;         // over all ranks
  std::int64_t elements = 0;      // over all calls
  std::int64_t bytes_inside = 0;  // sent inside a node
  std::int64_t bytes_across = 0;  // sent to other nodes
  std::int64_t most_bytes = 0;    // the most that one rank sent
  bool operator==(const LedgerRow&) const = default;
};

class Ledger {
 public:
  /// The calls of one rank.
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
