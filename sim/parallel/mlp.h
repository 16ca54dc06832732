#pragma once

/// The MLP of a transformer layer: linear_fc1, an activation, linear_fc2. In a gated MLP (SwiGLU and its
/// relatives), linear_fc1 holds two matrices, and the columns of each rank are [gate | up].
///
/// Shapes  input [T, H] replicated, or [T/tp, H] with sequence_parallel; inside [T, F/tp]; output as input.
/// Calls   those of ColumnParallelLinear and RowParallelLinear: one all_reduce of [T, H] forward, one
///         backward.
/// Errors  partition, when F is not a multiple of tp.
/// Source  Shoeybi et al. 2019; Shazeer 2020 (gated); Megatron-LM MLP.

#include "sim/parallel/column_parallel_linear.h"
#include "sim/parallel/gated_activation.h"
#include "sim/parallel/row_parallel_linear.h"

namespace sim {

struct MlpConfig {
  std::string name;  // such as "mlp"
  DType dtype = DType::f32;
  std::int64_t hidden_size = 0;      // H
  std::int64_t ffn_hidden_size = 0;  // F
  Activation activation = Activation::gelu_tanh;
  bool gated = false;
  /// A function of an author, which takes the place of `activation`; null if there is none.
  std::shared_ptr<const ElementFunction> own_activation = nullptr;
  bool bias = true;
  bool sequence_parallel = false;
  Initial initial = {};
};

class Mlp {
 public:
  Mlp(Rank& rank, const MlpConfig& config);

  struct Saved {
    ColumnParallelLinear::Saved fc1;
    Tensor inside;  // the output of linear_fc1
    RowParallelLinear::Saved fc2;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  Forward forward(const Tensor& input);
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  ColumnParallelLinear& linear_fc1() { return fc1_; }
  RowParallelLinear& linear_fc2() { return fc2_; }
  std::vector<Parameter*> parameters();

 private:
  GatedActivation activation_;
  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
};

}  // namespace sim
