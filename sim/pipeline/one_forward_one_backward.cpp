#include <algorithm>

#include "sim/pipeline/action_list.h"
#include "sim/pipeline/schedules.h"

namespace sim {

namespace {

Step forward(int microbatch) { return {Pass::forward, microbatch}; }
Step backward(int microbatch) { return {Pass::backward, microbatch}; }

void write_warmup(ActionList& list, int warmup) {
  for (int microbatch = 0; microbatch < warmup; ++microbatch) {
    list.exchange({.recv_forward = forward(microbatch)});
    list.compute(forward(microbatch));
    list.exchange({.send_forward = forward(microbatch)});
  }
}

/// Writes for each microbatch from `warmup` on one forward step, and one backward step of the oldest
/// microbatch in flight.
void write_steady(ActionList& list, int warmup, int all) {
  for (int next = warmup; next < all; ++next) {
    const int oldest = next - warmup;
    list.compute(forward(next));
    list.exchange({.send_forward = forward(next), .recv_backward = backward(oldest)});
    list.compute(backward(oldest));
    Exchange back{.send_backward = backward(oldest)};
    if (next + 1 < all) back.recv_forward = forward(next + 1);
    list.exchange(back);
  }
}

void write_steady_forward_only(ActionList& list, int warmup, int all) {
  for (int next = warmup; next < all; ++next) {
    list.compute(forward(next));
    list.exchange({.send_forward = forward(next)});
    if (next + 1 < all) list.exchange({.recv_forward = forward(next + 1)});
  }
}

void write_cooldown(ActionList& list, int warmup, int all) {
  for (int microbatch = all - warmup; microbatch < all; ++microbatch) {
    list.exchange({.recv_backward = backward(microbatch)});
    list.compute(backward(microbatch));
    list.exchange({.send_backward = backward(microbatch)});
  }
}

}  // namespace

RankSchedule one_forward_one_backward(const PipelineShape& shape, int rank) {
  require_not_interleaved(shape, rank, "1f1b");
  const int all = shape.microbatches();
  const int wanted = shape.ranks() - rank - 1;  // forward steps until the first gradient arrives
  const int warmup = std::min(wanted, all);
  ActionList list(shape, rank);
  write_warmup(list, warmup);
  if (warmup < all) list.exchange({.recv_forward = forward(warmup)});
  if (shape.forward_only) {
    write_steady_forward_only(list, warmup, all);
  } else {
    write_steady(list, warmup, all);
    write_cooldown(list, warmup, all);
  }
  return {.warmup = warmup,
          .all_in_warmup = wanted >= all,
          .peak_live = shape.forward_only ? all : std::min(warmup + 1, all),
          .actions = list.finished()};
}

}  // namespace sim
