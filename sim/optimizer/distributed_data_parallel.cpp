#include "sim/optimizer/distributed_data_parallel.h"

#include <algorithm>
#include <fmt/format.h>
#include <ranges>
#include <utility>

#include "sim/base/error.h"
#include "sim/tensor/adam.h"
#include "sim/tensor/checks.h"

namespace sim {

namespace {

/// Returns the dtype of the gradients of all parameters, which must be the same; f32 if there are no
/// parameters.
DType one_grad_dtype(const std::vector<std::vector<Parameter*>>& chunks) {
  std::optional<DType> first;
  for (const Parameter* parameter : chunks | std::views::join) {
    const DType own = sum_dtype(parameter->value.dtype()), dtype = first.value_or(own);
    first = dtype;
    if (own == dtype) continue;
    refuse({.code = "buffer_dtypes",
            .option = parameter->name,
            .numbers =
                fmt::format("gradients in {} together with gradients in {}", name_of(own), name_of(dtype)),
            .rule = "all gradients have one dtype, because one norm is computed of them",
            .hint = "parameters of bf16 and f32 only, or all of f64, or all of field"});
  }
  return first.value_or(DType::f32);
}

/// Refuses a rank order in which the ranks of inter-edp own different elements: dense gradients are summed
/// over inter-edp across optimizer instances.
void require_instances(const Layout& layout) {
  for (const Warning& warning : layout.warnings) {
    if (warning.name != "inter_instance_group") continue;
    refuse({.code = "optimizer_instances",
            .option = "--num-distributed-optimizer-instances",
            .numbers = warning.message,
            .rule = "ranks that sum their gradients own the same elements of the same parameters",
            .hint = "--num-distributed-optimizer-instances 1, or the default order"});
  }
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(Rank& rank,
                                                 const std::vector<std::vector<Parameter*>>& chunks,
                                                 const DataParallelConfig& config)
    : config_(config), grad_dtype_(one_grad_dtype(chunks)) {
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
    add_chunk(rank, chunks[chunk], chunk == 0 ? config_.bucket_size : std::nullopt);
}

void DistributedDataParallel::add_chunk(Rank& rank, const std::vector<Parameter*>& parameters,
                                        std::optional<std::int64_t> bucket_size) {
  for (const bool is_expert : {false, true}) {
    std::vector<std::pair<DType, std::vector<Parameter*>>> by_dtype;
    for (Parameter* parameter : parameters) {
      if (parameter->attributes.allreduce == is_expert) continue;
      const DType dtype = parameter->value.dtype();
      const auto known =
          std::find_if(by_dtype.begin(), by_dtype.end(), [&](const auto& one) { return one.first == dtype; });
      auto& own = known == by_dtype.end() ? by_dtype.emplace_back(dtype, std::vector<Parameter*>{}) : *known;
      own.second.push_back(parameter);
    }
    for (auto& [dtype, own] : by_dtype) add_part(rank, std::move(own), is_expert, bucket_size);
  }
}

void DistributedDataParallel::add_part(Rank& rank, std::vector<Parameter*> parameters, bool is_expert,
                                       std::optional<std::int64_t> bucket_size) {
  Communicator& replicas = rank.groups.get(is_expert ? "edp" : "dp-cp");
  const bool has_instances = config_.distributed_optimizer && rank.layout.instances > 1;
  Communicator& group = has_instances ? rank.groups.get(is_expert ? "intra-edp" : "intra-dp-cp") : replicas;
  if (has_instances) require_instances(rank.layout);
  const GradientScaling scaling = gradient_scaling({.dp_cp = rank.groups.get("dp-cp").size(),
                                                    .edp = rank.groups.get("edp").size(),
                                                    .average_in_collective = config_.average_in_collective,
                                                    .per_token_loss = config_.per_token_loss},
                                                   is_expert);
  const BufferConfig buffer{.owners = config_.distributed_optimizer ? group.size() : 1,
                            .bucket_size = bucket_size,
                            .distributed_optimizer = config_.distributed_optimizer,
                            .pad_for_high_nccl_busbw = config_.pad_for_high_nccl_busbw};
  parts_.push_back({GradBuffer(rank, std::move(parameters), buffer), &replicas, &group,
                    has_instances ? &rank.groups.get("inter-edp") : nullptr, scaling});
  const GradBuffer& placed = parts_.back().buffer;
  states_.emplace_back(static_cast<std::size_t>(placed.buckets()));
  for (std::size_t i = 0; i < placed.parameters().size(); ++i)
    known_[placed.parameters()[i]] = {{parts_.size() - 1, placed.layout().parameters[i].bucket}};
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
            .numbers = known == known_.end() ? "the parameter is in no buffer"
                                             : "its gradient was ready already in this step",
            .rule = "grad_ready() is called once for each parameter in a step",
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
  const Reduction reduction(part.scaling.reduce, part.scaling.before);
  if (part.group->size() == 1) {
    if (reduction.factor != Ratio{}) scale_in_place(all, reduction.factor);
  } else if (config_.distributed_optimizer) {
    state.work = part.group->start_reduce_scatter(all, part.buffer.grads(owned(part, bucket)), reduction,
                                                  "data_parallel.reduce_scatter");
  } else {
    state.work = part.group->start_all_reduce(all, reduction, "data_parallel.all_reduce");
  }
}

void DistributedDataParallel::finish_grad_sync() {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    for (int bucket = 0; bucket < parts_[p].buffer.buckets(); ++bucket) {
      if (!states_[p][static_cast<std::size_t>(bucket)].started) start(p, bucket);
    }
  }
  for (auto& states : states_) {
    for (BucketState& state : states) state.work.wait();
  }
  if (!config_.distributed_optimizer) return;
  sum_across_instances();
  for (const Part& part : parts_) {
    for (int bucket = 0; bucket < part.buffer.buckets(); ++bucket) {
      const ElementRange all = part.buffer.bucket_range(bucket), own = owned(part, bucket);
      for (const ElementRange& rest : {ElementRange{all.begin, own.begin}, ElementRange{own.end, all.end}}) {
        Tensor not_owned = part.buffer.grads(rest);
        poison(not_owned);
      }
    }
  }
}

void DistributedDataParallel::sum_across_instances() {
  std::vector<Work> sums;
  for (const Part& part : parts_) {
    if (part.across == nullptr || part.across->size() == 1) continue;
    for (int bucket = 0; bucket < part.buffer.buckets(); ++bucket) {
      const Tensor own = part.buffer.grads(owned(part, bucket));
      if (own.count() == 0) continue;
      sums.push_back(
          part.across->start_all_reduce(own, part.scaling.reduce, "data_parallel.all_reduce_across"));
    }
  }
  for (Work& sum : sums) sum.wait();
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
