// Megatron counts virtual microbatches: k is the number of a step in the forward order of a rank, or in its
// backward order. One table gives the microbatch and the chunk of each step.

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/pipeline/action_list.h"
#include "sim/pipeline/schedules.h"

namespace sim {

namespace {

/// Returns the forward order: N microbatches through all chunks, then the next N. The last group may be
/// shorter.
std::vector<Step> forward_order(const PipelineShape& shape) {
  std::vector<Step> order;
  for (int begin = 0; begin < shape.microbatches(); begin += shape.group_size()) {
    const int end = std::min(begin + shape.group_size(), shape.microbatches());
    for (int chunk = 0; chunk < shape.chunks(); ++chunk) {
      for (int microbatch = begin; microbatch < end; ++microbatch)
        order.push_back({Pass::forward, microbatch, chunk});
    }
  }
  return order;
}

class Interleaving {
 public:
  Interleaving(const PipelineShape& shape, int rank)
      : shape_(shape),
        rank_(rank),
        order_(forward_order(shape)),
        all_(shape.forward_steps()),
        wanted_(2 * (shape.ranks() - rank - 1) + (shape.chunks() - 1) * shape.group_size() +
                (shape.overlap_moe_expert_parallel_comm ? 1 : 0)),
        is_all_warmup_(shape.forward_only || wanted_ >= all_),
        warmup_(is_all_warmup_ ? all_ : wanted_),
        list_(shape, rank) {}

  RankSchedule written() {
    list_.exchange({.recv_forward = forward(0)});
    write_warmup();
    if (!shape_.forward_only) {
      write_steady();
      write_cooldown();
    }
    return {.warmup = warmup_,
            .all_in_warmup = is_all_warmup_,
            .peak_live = shape_.forward_only ? all_ : std::min(warmup_ + 1, all_),
            .actions = list_.finished()};
  }

 private:
  Step forward(int k) const { return order_[static_cast<std::size_t>(k)]; }
  Step backward(int k) const {
    const Step& step = order_[static_cast<std::size_t>(k)];
    return {Pass::backward, step.microbatch, shape_.chunks() - 1 - step.chunk};
  }

  /// Returns the step whose forward input arrives after forward step k. On ranks other than 0 it is the next
  /// step. Rank 0 gets its inputs from the last rank, which runs p - 1 steps behind: what arrives is the
  /// output that the last rank has just computed, unless it is that of the last chunk, which is sent nowhere.
  /// The last group has at least p microbatches, so nothing arrives after the last step.
  std::optional<Step> forward_arrival(int k) const {
    if (rank_ > 0) return k + 1 < all_ ? std::optional(forward(k + 1)) : std::nullopt;
    const int made = k - (shape_.ranks() - 1);
    return made < 0 ? std::nullopt : step_at(consumer_of(shape_, shape_.ranks() - 1, forward(made)));
  }
  /// Returns the step whose backward input arrives after backward step k. In backward the last rank leads,
  /// and rank 0 runs p - 1 steps behind.
  std::optional<Step> backward_arrival(int k) const {
    if (rank_ < shape_.ranks() - 1) return k + 1 < all_ ? std::optional(backward(k + 1)) : std::nullopt;
    const int made = k - (shape_.ranks() - 1);
    return made < 0 ? std::nullopt : step_at(consumer_of(shape_, 0, backward(made)));
  }
  static std::optional<Step> step_at(const std::optional<Peer>& peer) {
    return peer ? std::optional(peer->step) : std::nullopt;
  }

  void write_warmup() {
    for (int k = 0; k < warmup_; ++k) {
      list_.compute(forward(k));
      Exchange batch{.send_forward = forward(k), .recv_forward = forward_arrival(k)};
      if (k + 1 == warmup_ && !is_all_warmup_) batch.recv_backward = backward(0);
      list_.exchange(batch);
    }
    if (is_all_warmup_ && !shape_.forward_only) list_.exchange({.recv_backward = backward(0)});
  }

  void write_steady() {
    for (int k = 0; k + warmup_ < all_; ++k) {
      list_.compute(forward(k + warmup_));
      list_.compute(backward(k));
      list_.exchange({.send_forward = forward(k + warmup_),
                      .send_backward = backward(k),
                      .recv_forward = forward_arrival(k + warmup_),
                      .recv_backward = backward_arrival(k)});
    }
  }

  void write_cooldown() {
    for (int k = all_ - warmup_; k < all_; ++k) {
      list_.compute(backward(k));
      list_.exchange({.send_backward = backward(k), .recv_backward = backward_arrival(k)});
    }
  }

  const PipelineShape& shape_;
  int rank_;
  std::vector<Step> order_;
  int all_;     // forward steps
  int wanted_;  // forward steps until the first gradient arrives
  bool is_all_warmup_;
  int warmup_;
  ActionList list_;
};

}  // namespace

RankSchedule interleaved(const PipelineShape& shape, int rank) {
  check(shape, rank);
  if (shape.is_interleaved()) return Interleaving(shape, rank).written();
  refuse({.code = "needs_chunks",
          .option = "--virtual-pipeline-model-parallel-size",
          .numbers = "no virtual pipeline size is given",
          .rule = "the interleaved schedule needs virtual chunks",
          .hint = "--virtual-pipeline-model-parallel-size 2"});
}

}  // namespace sim
