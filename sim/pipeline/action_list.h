#pragma once

/// Writes the list of actions of one rank: steps, and batches of messages in the order in which Megatron
/// issues them. A message without a peer, at either end of the pipeline, is left out, and so is an empty
/// batch.
///
/// Calls   within a batch: send_prev, recv_prev, send_next, recv_next, as Megatron's batched p2p. In a
///         pipeline of two ranks, both neighbours are the same rank if the schedule is interleaved, and
///         messages between two ranks pair up in the order of issue. There the order is that of the
///         unbatched p2p: send_next, recv_prev, send_prev, recv_next, activations before gradients.
/// Source  Megatron-LM, core/pipeline_parallel/p2p_communication.py; its issues #1450 and #1495 are the
///         swapped pairs.

#include "sim/pipeline/schedule.h"

namespace sim {

/// The messages of one batch: the steps whose output is sent, and the steps whose input is received.
struct Exchange {
  std::optional<Step> send_forward = {};
  std::optional<Step> send_backward = {};
  std::optional<Step> recv_forward = {};
  std::optional<Step> recv_backward = {};
};

class ActionList {
 public:
  ActionList(const PipelineShape& shape, int rank) : shape_(shape), rank_(rank) {}
  void compute(const Step& step) { actions_.push_back({step, {}}); }
  void exchange(const Exchange& exchange);
  std::vector<Action> finished() { return std::move(actions_); }

 private:
  void send(const std::optional<Step>& output, std::vector<Message>& batch) const;
  void recv(const std::optional<Step>& input, std::vector<Message>& batch) const;

  const PipelineShape& shape_;
  int rank_;
  std::vector<Action> actions_;
};

}  // namespace sim
