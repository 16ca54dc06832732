#pragma once

/// Replicas that behave alike are folded: of the data-parallel replicas of a world some run, and each of the
/// others is taken to call what one of them calls.
///
/// Shapes  the first and the last replica run; the lower half of the others is folded into the first, the
///         upper half into the last. Their twins have the same places in tp, cp and pp.
/// Errors  replica_fold: a call whose bytes its record does not tell, because members send each other
///         different numbers of rows, or a call over a group that is none of the layout.
/// Exact   The rule: the calls of a rank of a dense model, their sizes and their order, do not depend on its
///         place in dp, because replicas have batches of equal size and ZeRO-1 gives each an equal part of a
///         bucket. The ranks that run have their own groups of the whole layout, so the sizes of their calls
///         are those of the whole world. The bytes of a folded rank are computed from its own groups and
///         nodes.

#include <vector>

#include "sim/layout/node_placement.h"
#include "sim/world/simulate.h"

namespace verify {

struct ReplicaFold {
  std::vector<int> running;  // global ranks, ascending
  std::vector<int> twin_of;  // by rank, from the first of the layout on: the rank that stands for it
  int replicas = 1;          // that run
};

/// Folds replicas into `most` of them, which is 1, 2 or the number of all: then nothing is folded.
ReplicaFold fold_replicas(const sim::Layout& layout, int most);

/// Returns the ledger of all ranks, from the call records of those that ran.
std::vector<sim::LedgerRow> ledger_of_all(const sim::RunReport& run, const ReplicaFold& fold,
                                          const sim::Layout& layout, const sim::NodePlacement& nodes);

}  // namespace verify
