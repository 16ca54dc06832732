#pragma once

/// Two contiguous buffers for parameters of one dtype, one for their gradients and one for their values. Both
/// are reduced or gathered in place, bucket by bucket.
///
/// Shapes  both [numel] of the layout; a parameter's main_grad and value become views of them. Gradients of
///         bf16 parameters are f32.
/// Errors  those of buffer_layout.h. Parameters of several dtypes are a mistake of the caller (SIM_CHECK).
/// Exact   Values are kept, gradients begin as zeros, and padding is zeros.
/// Source  Megatron-LM, _ParamAndGradBuffer.

#include "sim/optimizer/range_map.h"
#include "sim/parallel/parameter.h"

namespace sim {

class GradBuffer {
 public:
  GradBuffer(Rank& rank, std::vector<Parameter*> parameters, const BufferConfig& config);

  const BufferLayout& layout() const { return layout_; }
  /// Returns the parameters, in the order of the model.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  int buckets() const { return static_cast<int>(layout_.buckets.size()); }
  Tensor grads(const ElementRange& range) const { return grads_.rows(range.begin, range.end); }
  Tensor values(const ElementRange& range) const { return values_.rows(range.begin, range.end); }
  ElementRange bucket_range(int bucket) const {
    return layout_.buckets[static_cast<std::size_t>(bucket)].range;
  }
  void zero_grads();

 private:
  std::vector<Parameter*> parameters_;
  BufferLayout layout_;
  Tensor grads_;
  Tensor values_;
};

}  // namespace sim
