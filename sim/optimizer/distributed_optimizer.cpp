#include "sim/optimizer/distributed_optimizer.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "sim/tensor/checks.h"
#include "sim/tensor/memory_use.h"

namespace sim {

namespace {

Tensor piece_of(const Tensor& whole, const ElementRange& range) {
  return whole.flat().rows(range.begin, range.end);
}

Tensor zeros_like(const Tensor& x) { return filled(x.device(), x.dtype(), x.shape(), 0); }

/// Whether a flag on the device is not zero. It is the only value that the host reads. On a device of shapes
/// no gradient is infinite.
bool is_set(const Tensor& flag) {
  if (!flag.device().has_elements(flag.dtype())) return false;
  const std::vector<std::byte> bytes = host_bytes(flag);
  return std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(Rank& rank, DistributedDataParallel& data_parallel,
                                           const OptimizerConfig& config)
    : rank_(rank), data_parallel_(data_parallel), config_(config), loss_scale_(config.loss_scale) {
  const MadeFor optimizer(MemoryUse::optimizer);
  for (const auto& part : data_parallel_.parts()) {
    for (int bucket = 0; bucket < part.buffer.buckets(); ++bucket) {
      for (const OwnedPiece& own : data_parallel_.pieces(part, bucket)) {
        Parameter* parameter = part.buffer.parameters()[static_cast<std::size_t>(own.parameter)];
        const Tensor value = piece_of(parameter->value, own.param);
        const DType dtype = sum_dtype(value.dtype());
        const Tensor main = dtype == value.dtype() ? value : cast(value, dtype);
        pieces_.push_back({.parameter = parameter,
                           .range = own.param,
                           .grad = part.buffer.grads(own.world),
                           .main = main,
                           .exp_avg = zeros_like(main),
                           .exp_avg_sq = zeros_like(main),
                           .value = value});
      }
    }
  }
}

std::int64_t DistributedOptimizer::owned_bytes() const {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces_) {
    bytes += piece.exp_avg.bytes() + piece.exp_avg_sq.bytes();
    if (piece.value.dtype() != piece.main.dtype()) bytes += piece.main.bytes();
  }
  return bytes;
}

// ---- a step -----------------------------------------------------------------------------------------------

bool DistributedOptimizer::step(Ratio learning_rate) {
  if (loss_scale_.is_used()) {
    for (Piece& piece : pieces_) scale_in_place(piece.grad, loss_scale_.inverse());
    const bool skips = found_nonfinite();
    loss_scale_.update(skips);
    if (skips) return false;
  }
  ++steps_;
  if (config_.clip_grad.numerator != 0 || config_.log_grad_norm) take_norm();
  if (config_.clip_grad.numerator != 0) clip();
  for (Piece& piece : pieces_) {
    adam(piece.grad, step_of(*piece.parameter, learning_rate), piece.main, piece.exp_avg, piece.exp_avg_sq);
    renew_value(piece);
  }
  if (!config_.overlap_param_gather) {
    start_param_gather();
    finish_param_gather();
  }
  return true;
}

void DistributedOptimizer::renew_value(Piece& piece) {
  if (piece.value.dtype() != piece.main.dtype()) copy(cast(piece.main, piece.value.dtype()), piece.value);
}

void DistributedOptimizer::restore(std::int64_t steps, const LossScaleState& loss_scale) {
  steps_ = steps;
  loss_scale_.restore(loss_scale);
  for (Piece& piece : pieces_) renew_value(piece);
  start_param_gather();
  finish_param_gather();
}

std::vector<DistributedOptimizer::Sharers> DistributedOptimizer::sharers() const {
  std::vector<Sharers> all;
  if (data_parallel_.is_distributed()) {
    all.push_back({"intra-dist-opt", [](const Parameter&) { return true; }});
  } else {
    all.push_back({"mp", [](const Parameter& parameter) { return parameter.attributes.allreduce; }});
    all.push_back({"tp-ep-pp", [](const Parameter& parameter) { return !parameter.attributes.allreduce; }});
  }
  std::erase_if(all, [&](const Sharers& sharers) {
    const auto& parts = data_parallel_.parts();
    if (config_.has_experts && std::string_view(sharers.group) == "tp-ep-pp") return false;
    return std::none_of(parts.begin(), parts.end(),
                        [&](const auto& part) { return sharers.hold(*part.buffer.parameters().front()); });
  });
  return all;
}

bool DistributedOptimizer::found_nonfinite() {
  bool found = false;
  for (const Sharers& sharers : this->sharers()) {
    const Tensor any = filled(rank_.device, data_parallel_.grad_dtype(), {1}, 0);
    for (const Piece& piece : pieces_) {
      if (!sharers.hold(*piece.parameter)) continue;
      Tensor to = any;
      copy(combine(ReduceOp::max, any, nonfinite_flag(piece.grad)), to);
    }
    Communicator& owners = rank_.groups.get(sharers.group);
    if (owners.size() > 1) owners.all_reduce(any, ReduceOp::max, "optimizer.found_nonfinite");
    found = is_set(any) || found;
  }
  return found;
}

bool DistributedOptimizer::is_counted(const Parameter& parameter) const {
  if (!parameter.attributes.copy_of.empty()) return false;
  if (parameter.attributes.tensor_model_parallel) return true;
  return rank_.groups.get(parameter.attributes.allreduce ? "tp" : "etp").rank() == 0;
}

void DistributedOptimizer::add_squares(const Sharers& sharers, Tensor& sum) {
  Tensor squares = filled(rank_.device, data_parallel_.grad_dtype(), {1}, 0);
  for (const Piece& piece : pieces_) {
    if (sharers.hold(*piece.parameter) && is_counted(*piece.parameter))
      add_sum_of_squares(piece.grad, squares);
  }
  Communicator& owners = rank_.groups.get(sharers.group);
  if (owners.size() > 1) owners.all_reduce(squares, ReduceOp::sum, "optimizer.grad_norm");
  add_to(sum, squares);
}

void DistributedOptimizer::take_norm() {
  Tensor sum = filled(rank_.device, data_parallel_.grad_dtype(), {1}, 0);
  for (const Sharers& sharers : this->sharers()) add_squares(sharers, sum);
  grad_norm_squared_ = sum;
}

void DistributedOptimizer::clip() {
  const Tensor factor = clip_factor(grad_norm_squared_, config_.clip_grad);
  for (Piece& piece : pieces_) scale_by(piece.grad, factor);
}

AdamStep DistributedOptimizer::step_of(const Parameter& parameter, Ratio learning_rate) const {
  const bool decays = parameter.whole.dimensions() > 1;
  return {.learning_rate = learning_rate,
          .beta1 = config_.beta1,
          .beta2 = config_.beta2,
          .epsilon = config_.epsilon,
          .weight_decay = decays ? config_.weight_decay : Ratio{0, 1},
          .decoupled = config_.decoupled_weight_decay,
          .step = steps_};
}

// ---- parameters -------------------------------------------------------------------------------------------

void DistributedOptimizer::start_param_gather() {
  if (!data_parallel_.is_distributed()) return;
  auto& parts = data_parallel_.parts();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto& part = parts[p];
    if (part.group->size() == 1) continue;
    const int buckets = part.buffer.buckets();
    for (int i = 0; i < buckets; ++i) {
      const int bucket = config_.overlap_param_gather ? buckets - 1 - i : i;
      const ElementRange all = part.buffer.bucket_range(bucket);
      if (all.size() == 0) continue;
      Work work = part.group->start_all_gather(part.buffer.values(data_parallel_.owned(part, bucket)),
                                               part.buffer.values(all), "optimizer.gather_params");
      gathers_.push_back({{p, bucket}, std::move(work)});
    }
  }
}

void DistributedOptimizer::wait_for(const Parameter& parameter) {
  const auto place = data_parallel_.place_of(parameter);
  for (Gather& gather : gathers_) {
    if (place == gather.place) gather.work.wait();
  }
}

void DistributedOptimizer::finish_param_gather() {
  for (Gather& gather : gathers_) gather.work.wait();
  gathers_.clear();
}

}  // namespace sim
