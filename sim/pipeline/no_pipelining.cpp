#include "sim/pipeline/action_list.h"
#include "sim/pipeline/schedules.h"

namespace sim {

RankSchedule no_pipelining(const PipelineShape& shape, int rank) {
  require_not_interleaved(shape, rank, "none");
  ActionList list(shape, rank);
  for (int microbatch = 0; microbatch < shape.microbatches(); ++microbatch) {
    const Step forward = {Pass::forward, microbatch};
    const Step backward = {Pass::backward, microbatch};
    list.exchange({.recv_forward = forward});
    list.compute(forward);
    list.exchange({.send_forward = forward});
    if (shape.forward_only) continue;
    list.exchange({.recv_backward = backward});
    list.compute(backward);
    list.exchange({.send_backward = backward});
  }
  return {.peak_live = shape.forward_only ? shape.microbatches() : 1, .actions = list.finished()};
}

}  // namespace sim
