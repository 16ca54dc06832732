#include "sim/parallel/sequence_parallel_grads.h"

namespace sim {

void all_reduce_sequence_parallel_grads(Rank& rank, std::span<Parameter* const> parameters) {
  Communicator& tp = rank.groups.get("tp");
  if (tp.size() == 1) return;
  for (const Parameter* parameter : parameters) {
    if (!parameter->attributes.sequence_parallel) continue;
    tp.all_reduce(parameter->main_grad, ReduceOp::sum, "sequence_parallel_grads.sum");
  }
}

}  // namespace sim
