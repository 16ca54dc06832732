#include "sim/pipeline/action_list.h"
#include "sim/pipeline/schedules.h"

namespace sim {

RankSchedule gpipe(const PipelineShape& shape, int rank) {
  require_not_interleaved(shape, rank, "gpipe");
  const int all = shape.microbatches();
  ActionList list(shape, rank);
  for (int microbatch = 0; microbatch < all; ++microbatch) {
    const Step forward = {Pass::forward, microbatch};
    list.exchange({.recv_forward = forward});
    list.compute(forward);
    list.exchange({.send_forward = forward});
  }
  for (int microbatch = 0; microbatch < all && !shape.forward_only; ++microbatch) {
    const Step backward = {Pass::backward, microbatch};
    list.exchange({.recv_backward = backward});
    list.compute(backward);
    list.exchange({.send_backward = backward});
  }
  return {.warmup = all, .all_in_warmup = true, .peak_live = all, .actions = list.finished()};
}

}  // namespace sim
