#include "sim/parallel/column_parallel_linear.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/parallel/mappings.h"
#include "sim/parallel/region.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

ColumnParallelLinearConfig checked(ColumnParallelLinearConfig config) {
  if (config.gather_output && config.sequence_parallel) {
    refuse({.code = "layer_config",
            .option = config.name,
            .numbers = "gather_output together with sequence_parallel",
            .rule = "a sequence-parallel layer keeps its output split over features",
            .hint = "one of the two"});
  }
  return config;
}

void require_shared(const ColumnParallelLinearConfig& config, const Parameter& weight) {
  const Shape wanted = {config.output_size, config.input_size};
  const bool fits = weight.whole == wanted && weight.value.dtype() == config.dtype && config.stride == 1 &&
                    weight.attributes.partition_dim == 0 && weight.attributes.partition_stride == 1;
  if (fits) return;
  refuse({.code = "layer_config",
          .option = config.name,
          .numbers = fmt::format("the weight {} is {} {}, and the layer needs {} {}", weight.name,
                                 name_of(weight.value.dtype()), text_of(weight.whole), name_of(config.dtype),
                                 text_of(wanted)),
          .rule = "a shared weight has the shape and dtype of the layer, and is cut by rows without stride",
          .hint = "the sizes and the dtype of the layer that owns the weight"});
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(Rank& rank, ColumnParallelLinearConfig config,
                                           Parameter* shared_weight)
    : config_(checked(std::move(config))), tp_(rank.groups.get("tp")), shared_weight_(shared_weight) {
  const Partition rows{.dim = 0, .stride = config_.stride, .place = tp_.rank(), .size = tp_.size()};
  if (shared_weight_ == nullptr) {
    weight_ = make_parameter(rank, config_.name + ".weight", config_.dtype,
                             {config_.output_size, config_.input_size}, rows, config_.initial);
  } else {
    require_shared(config_, *shared_weight_);
  }
  if (!config_.bias) return;
  bias_ = make_parameter(rank, config_.name + ".bias", config_.dtype, {config_.output_size}, rows,
                         config_.initial);
}

std::vector<Parameter*> ColumnParallelLinear::parameters() {
  std::vector<Parameter*> own;
  if (shared_weight_ == nullptr) own.push_back(&weight_);
  if (config_.bias) own.push_back(&bias_);
  return own;
}

ColumnParallelLinear::Forward ColumnParallelLinear::forward(const Tensor& input) {
  const Mapping& input_mapping =
      config_.sequence_parallel ? kGatherFromSequenceParallelRegion : kCopyToTensorModelParallelRegion;
  const Tensor total = input_mapping.forward(input, tp_, "column_parallel_linear.forward");
  Tensor output = matmul(total, transposed(weight().value));
  if (config_.bias && !config_.skip_bias_add) output = add_bias(output, bias_.value);
  if (config_.gather_output) {
    output =
        kGatherFromTensorModelParallelRegion.forward(output, tp_, "column_parallel_linear.gather_output");
  }
  return {output, {input}};
}

Tensor ColumnParallelLinear::backward(const Saved& saved, const Tensor& grad_output) {
  const Tensor grad = config_.gather_output ? kGatherFromTensorModelParallelRegion.backward(
                                                  grad_output, tp_, "column_parallel_linear.gather_output")
                                            : grad_output;
  // Communication overlaps the products: the input is gathered during the first one, and the input's gradient
  // is reduced during the second.
  Tensor total = saved.input;
  Work input_arrives;
  if (config_.sequence_parallel && tp_.size() > 1) {
    total = room_for_gathered_rows(saved.input, tp_);
    input_arrives = tp_.start_all_gather(saved.input, total, "column_parallel_linear.backward_input");
  }
  Tensor grad_total = matmul(grad, weight().value);
  input_arrives.wait();
  Tensor grad_input = grad_total;
  Work grad_leaves;
  if (config_.sequence_parallel && tp_.size() > 1) {
    grad_input = room_for_own_rows(grad_total, tp_);
    grad_leaves =
        tp_.start_reduce_scatter(grad_total, grad_input, ReduceOp::sum, "column_parallel_linear.backward");
  } else if (tp_.size() > 1) {
    grad_leaves = tp_.start_all_reduce(grad_input, ReduceOp::sum, "column_parallel_linear.backward");
  }
  add_matmul(transposed(grad), total, weight().main_grad);
  if (config_.bias && !config_.skip_bias_add) add_column_sums(grad, bias_.main_grad);
  grad_leaves.wait();
  return grad_input;
}

}  // namespace sim
