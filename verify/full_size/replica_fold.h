#pragma once

/// Replicas that behave alike are folded: of the data-parallel replicas of a world some run, and each of the
/// others is taken to call what one of them calls.
///
/// Shapes  a block is one replica of a dense model. Replicas of a model with experts exchange tokens: a block
///         of them is as many neighbours as have whole groups of tp-ep. The first and the last block run;
///         the lower half of the others is folded into the first, the upper half into the last. A twin has
///         the same places in tp, cp and pp, and the same place in its block. Of the tensor-parallel ranks of
///         a dense model the first can stand for all.
/// Errors  replica_fold: a call over a group that is none of the layout; a call in which members send each
///         other different numbers of rows, by a rank whose group lies over nodes in another way than that
///         of its twin.
/// Exact   The rule: the calls of a rank, their sizes and their order, do not depend on the place of its
///         block in dp, because replicas have batches of equal size, ZeRO-1 gives each an equal part of a
///         bucket, and experts are chosen in turn by every rank (balanced_experts.h). The ranks that run have
///         their own groups of the whole layout, so the sizes of their calls are those of the whole world.
///         Nor do calls of a dense model depend on the place in tp, because tensor-parallel ranks have parts
///         of equal size of every tensor, and roots are named by their place.
///         The bytes of a folded rank are computed from its own groups and nodes. Those of an exchange of
///         rows are the twin's, whose record does not tell what it sent to whom.

#include <vector>

#include "sim/layout/node_placement.h"
#include "sim/world/simulate.h"

namespace verify {

struct ReplicaFold {
  std::vector<int> running;  // global ranks, ascending
  std::vector<int> twin_of;  // by rank, from the first of the layout on: the rank that stands for it
  int replicas = 1;          // that run
  int tp = 1;                // tensor-parallel ranks of each that run
};

/// Folds replicas into one or two blocks of them, or into all: then none is folded. `tp` is 1 to fold
/// tensor-parallel ranks, or that of the layout.
ReplicaFold fold_replicas(const sim::Layout& layout, int replicas, int block, int tp);

/// Returns the least block that can be folded: 1 without experts. It is dp if ranks of other blocks never
/// have the same places in their groups, over nodes in the same way.
int replicas_of_a_block(const sim::Layout& layout, const sim::NodePlacement& nodes, bool has_experts);

/// Returns the ledger of all ranks, from the call records of those that ran.
std::vector<sim::LedgerRow> ledger_of_all(const sim::RunReport& run, const ReplicaFold& fold,
                                          const sim::Layout& layout, const sim::NodePlacement& nodes);

}  // namespace verify
