#include "sim/optimizer/grad_buffer.h"

#include <utility>

#include "sim/base/check.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/memory_use.h"

namespace sim {

namespace {

std::vector<BufferParameter> sizes_of(const std::vector<Parameter*>& parameters) {
  std::vector<BufferParameter> sizes;
  for (const Parameter* parameter : parameters)
    sizes.push_back({parameter->value.count(), parameter->attributes.shared_embedding});
  return sizes;
}

DType dtype_of(const std::vector<Parameter*>& parameters) {
  SIM_CHECK(!parameters.empty());
  const DType dtype = parameters.front()->value.dtype();
  for (const Parameter* parameter : parameters) SIM_CHECK(parameter->value.dtype() == dtype);
  return dtype;
}

}  // namespace

GradBuffer::GradBuffer(Rank& rank, std::vector<Parameter*> parameters, const BufferConfig& config)
    : parameters_(std::move(parameters)), layout_(buffer_layout(sizes_of(parameters_), config)) {
  const DType dtype = dtype_of(parameters_);
  const MadeFor gradients(MemoryUse::gradients);
  grads_ = filled(rank.device, sum_dtype(dtype), {layout_.numel()}, 0);
  const MadeFor parameter_values(MemoryUse::parameters);
  values_ = filled(rank.device, dtype, {layout_.numel()}, 0);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = *parameters_[i];
    const ElementRange& range = layout_.parameters[i].range;
    const Shape shape = parameter.value.shape();
    Tensor value = values(range).reshaped(shape);
    copy(parameter.value, value);
    parameter.value = value;
    parameter.main_grad = grads(range).reshaped(shape);
  }
}

void GradBuffer::zero_grads() { fill(grads_, 0); }

}  // namespace sim
