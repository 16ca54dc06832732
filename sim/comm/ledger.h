#pragma once

/// The ledger: for each group kind, site, operation and dtype, the number of calls, their elements, and the
/// bytes that a ring algorithm sends for them, inside a node and across nodes. It is computed from the call
/// records alone. A RankLedger adds up the calls of one rank while they happen; a Ledger those of all ranks.
///
/// Shapes  totals over all ranks, except `most_bytes`: the bytes of the rank that sent the most.
/// Exact   rows are sorted by kind, site, operation and dtype.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/comm/call_log.h"

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

/// The calls of one rank. The groups of the calls must outlive it.
class RankLedger {
 public:
  /// Adds the first `count` calls of a log.
  void add(const CallLog& calls, std::size_t count);
  bool has_call_in(const ProcessGroup& group) const;

 private:
  friend class Ledger;
  struct Row {
    const ProcessGroup* group;
    const char* site;
    Operation operation;
    DType dtype;
    std::int64_t calls = 0;
    std::int64_t elements = 0;
    std::int64_t bytes_inside = 0;
    std::int64_t bytes_across = 0;
    bool has(const CallRecord& call) const {
      return group == call.group && site == call.site.name && operation == call.operation &&
             dtype == call.dtype;
    }
  };
  Row& row_of(const CallRecord& form);
  std::vector<Row> rows_;  // there are few
};

class Ledger {
 public:
  /// Adds the calls of one rank. It must get all calls of a rank at once.
  void add(const RankLedger& rank);
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
