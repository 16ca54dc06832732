#pragma once

/// A call of a kernel as one value: which kernel, its tensors, and its parameters. What a device does to
/// every kernel, such as counting or planting a fault, is a function of this value.
///
/// Shapes  inputs and outputs are in the order in which device.h names them. What a kernel adds to or changes
///         is an output. The result is the first output.
/// Calls   a call is valid while the kernel runs: it refers to tensors, segments and functions of the caller.

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "sim/base/keyed_random.h"
#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/reduce_op.h"
#include "sim/tensor/tensor.h"

namespace sim {

struct ElementFunction;

/// The tensors of several ranks, each of which stays where its rank has it; or those of a call.
using TensorList = std::span<const Tensor* const>;

enum class Kernel : std::uint8_t {
  fill,
  poison,
  copy,
  combine,
  scale,
  compare,
  select,
  cast,
  fold,
  matmul,
  add_bias,
  add_column_sums,
  copy_columns,
  lookup,
  add_to_rows,
  permute,
  activate,
  activate_backward,
  apply,
  apply_backward,
  dropout,
  rotate,
  softmax,
  softmax_backward,
  partial_softmax,
  merge_softmax,
  finish_softmax,
  partial_softmax_backward,
  normalize,
  normalize_backward,
  adam,
  clip_factor,
  scale_by,
  find_nonfinite,
  row_max,
  argmax,
  token_parts,
  token_loss,
  token_loss_backward,
};
inline constexpr std::size_t kKernels = static_cast<std::size_t>(Kernel::token_loss_backward) + 1;

struct FoldParameters {
  Reduction reduction;
  std::span<const FoldSegment> segments;
};
struct MatmulParameters {
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
};
struct ColumnParameters {
  std::int64_t from_column = 0;
  std::int64_t to_column = 0;
  std::int64_t columns = 0;
};
struct DropoutParameters {
  KeyedRandom stream;
  Ratio drop;
};
struct SoftmaxParameters {
  std::int64_t divisor = 1;
  SeenKeys keys = {};
};
struct NormParameters {
  Norm norm = Norm::layer_norm;
  Ratio epsilon = {};
};

/// What a kernel takes beside tensors; nothing for many. A whole number is a first id, a number of columns, or
/// the divisor of softmax_backward.
using KernelParameters =
    std::variant<std::monostate, bool, double, std::int64_t, ReduceOp, Ratio, Comparison, Activation,
                 std::array<int, 4>, const ElementFunction*, AdamStep, TokenLoss, FoldParameters,
                 MatmulParameters, ColumnParameters, DropoutParameters, SoftmaxParameters, NormParameters>;

struct KernelCall {
  Kernel kernel;
  TensorList inputs;
  TensorList outputs;
  KernelParameters parameters;
};

/// Whether the kernel adds to its result.
bool accumulates(const KernelCall& call);
/// Returns the work of a call: the multiply-adds of matmul, or the elements that another kernel processes
/// (for fold, the elements of all inputs). poison counts as no work.
std::int64_t work_of(const KernelCall& call);

}  // namespace sim
