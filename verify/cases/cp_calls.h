#pragma once

/// The calls of attention over a context-parallel group, in closed form.
///
/// Shapes  elements of one rank.
/// Source  the table of messages in sim/context/core_attention.h, which is TransformerEngine's.

#include <vector>

#include "sim/context/cp_comm_type.h"
#include "verify/cases/expected_call.h"

namespace verify {

/// The number of context-parallel ranks that exchange heads; `inner` is that of hcp-L0.
int exchanging_ranks(sim::CpCommType kind, int cp, int inner);
/// How often an attention merges what it has of some keys with what it has of others: once for each rank of
/// a ring but the first.
int merges_of_ring(sim::CpCommType kind, int cp, int inner);

struct CpCalls {
  sim::CpCommType kind;
  int cp;
  int inner;  // the ranks of hcp-L0, with a2a+p2p
  int place;  // in the context-parallel group
  std::int64_t queries, keys, values, context;

  void forward(std::vector<ExpectedCall>& calls) const;
  void backward(std::vector<ExpectedCall>& calls) const;

 private:
  struct Ring {
    const char* group;
    int size, place;
  };
  void ring_forward(const Ring& ring, std::vector<ExpectedCall>& calls) const;
  void ring_backward(const Ring& ring, std::vector<ExpectedCall>& calls) const;
  bool is_hierarchical() const { return kind == sim::CpCommType::a2a_p2p && inner > 1 && inner < cp; }
  bool exchanges() const {
    return kind == sim::CpCommType::a2a || (kind == sim::CpCommType::a2a_p2p && inner > 1);
  }
  bool is_ring() const {
    return kind == sim::CpCommType::p2p || (kind == sim::CpCommType::a2a_p2p && inner < cp);
  }
  Ring ring() const;
  void exchange(const char* what, std::int64_t elements, std::vector<ExpectedCall>& calls) const;
};

}  // namespace verify
