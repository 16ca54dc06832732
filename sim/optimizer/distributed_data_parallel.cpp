#include "sim/optimizer/distributed_data_parallel.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/tensor/adam.h"
#include "sim/tensor/checks.h"

namespace sim {

DistributedDataParallel::DistributedDataParallel(Rank& rank, const std::vector<Parameter*>& parameters,
                                                 const DataParallelConfig& config)
    : config_(config) {
  if (!parameters.empty()) grad_dtype_ = sum_dtype(parameters.front()->value.dtype());
  Communicator& dense = rank.groups.get("dp-cp");
  Communicator& expert = rank.groups.get("edp");
  const ScalingSetting scaling{.dp_cp = dense.size(),
                               .edp = expert.size(),
                               .average_in_collective = config.average_in_collective,
                               .per_token_loss = config.per_token_loss};
  for (const bool is_expert : {false, true}) {
    std::vector<Parameter*> own;
    for (Parameter* parameter : parameters) {
      if (parameter->attributes.allreduce != is_expert) own.push_back(parameter);
    }
    if (own.empty()) continue;
    Communicator& group = is_expert ? expert : dense;
    const BufferConfig buffer{.owners = config.distributed_optimizer ? group.size() : 1,
                              .bucket_size = config.bucket_size,
                              .distributed_optimizer = config.distributed_optimizer,
                              .pad_for_high_nccl_busbw = config.pad_for_high_nccl_busbw};
    parts_.push_back(
        {GradBuffer(rank, std::move(own), buffer), &group, gradient_scaling(scaling, is_expert)});
    const GradBuffer& placed = parts_.back().buffer;
    states_.emplace_back(static_cast<std::size_t>(placed.buckets()));
    for (std::size_t i = 0; i < placed.parameters().size(); ++i)
      known_[placed.parameters()[i]] = {{parts_.size() - 1, placed.layout().parameters[i].bucket}};
  }
}

void DistributedDataParallel::zero_grads() {
  for (Part& part : parts_) part.buffer.zero_grads();
  for (auto& states : states_) {
    for (BucketState& state : states) state = {};
  }
  for (auto& [parameter, known] : known_) known.is_ready = false;
}

void DistributedDataParallel::grad_ready(const Parameter& parameter) {
  const auto known = known_.find(&parameter);
  if (known == known_.end() || known->second.is_ready) {
    refuse({.code = "grad_ready_twice",
            .option = parameter.name,
            .numbers = known == known_.end() ? "in no buffer" : "ready already in this step",
            .rule = "the gradient of each parameter is ready once a step",
            .hint = "zero_grads() before each step; grad_ready() in its last microbatch only"});
  }
  known->second.is_ready = true;
  const auto [part, bucket] = known->second.place;
  const auto b = static_cast<std::size_t>(bucket);
  const bool is_full = ++states_[part][b].ready == parts_[part].buffer.layout().buckets[b].parameters.size();
  if (is_full && config_.overlap_grad_reduce) start(part, bucket);
}

std::optional<DistributedDataParallel::Place> DistributedDataParallel::place_of(
    const Parameter& parameter) const {
  const auto known = known_.find(&parameter);
  return known == known_.end() ? std::nullopt : std::optional(known->second.place);
}

ElementRange DistributedDataParallel::owned(const Part& part, int bucket) const {
  return owned_range(part.buffer.layout(), bucket, config_.distributed_optimizer ? part.group->rank() : 0);
}

std::vector<OwnedPiece> DistributedDataParallel::pieces(const Part& part, int bucket) const {
  return owned_pieces(part.buffer.layout(), bucket, config_.distributed_optimizer ? part.group->rank() : 0);
}

void DistributedDataParallel::start(std::size_t p, int bucket) {
  Part& part = parts_[p];
  BucketState& state = states_[p][static_cast<std::size_t>(bucket)];
  state.started = true;
  Tensor all = part.buffer.grads(part.buffer.bucket_range(bucket));
  if (all.count() == 0) return;
  const Ratio before = part.scaling.before;
  if (before.numerator != before.denominator) scale_in_place(all, before);
  if (part.group->size() == 1) return;
  if (config_.distributed_optimizer) {
    state.work = part.group->start_reduce_scatter(all, part.buffer.grads(owned(part, bucket)),
                                                  part.scaling.reduce, "data_parallel.reduce_scatter");
  } else {
    state.work = part.group->start_all_reduce(all, part.scaling.reduce, "data_parallel.all_reduce");
  }
}

void DistributedDataParallel::finish_grad_sync() {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    for (int bucket = 0; bucket < parts_[p].buffer.buckets(); ++bucket) {
      if (!states_[p][static_cast<std::size_t>(bucket)].started) start(p, bucket);
    }
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const GradBuffer& buffer = parts_[p].buffer;
    for (int bucket = 0; bucket < buffer.buckets(); ++bucket) {
      states_[p][static_cast<std::size_t>(bucket)].work.wait();
      if (!config_.distributed_optimizer) continue;
      const ElementRange all = buffer.bucket_range(bucket), own = owned(parts_[p], bucket);
      for (const ElementRange& rest : {ElementRange{all.begin, own.begin}, ElementRange{own.end, all.end}}) {
        Tensor not_owned = buffer.grads(rest);
        poison(not_owned);
      }
    }
  }
}

void DistributedDataParallel::divide_grads(std::int64_t tokens) {
  for (Part& part : parts_) {
    for (int bucket = 0; bucket < part.buffer.buckets(); ++bucket) {
      Tensor own = part.buffer.grads(owned(part, bucket));
      scale_in_place(own, {1, std::max<std::int64_t>(tokens, 1)});
    }
  }
}

}  // namespace sim
