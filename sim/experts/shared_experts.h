#pragma once

/// An MLP that every token goes through beside its chosen experts, cut over tp as a dense MLP is. With a
/// gate, its output is multiplied by sigmoid(x g), one number for each token.
///
/// Shapes  input and output [T, H], replicated, or [T/tp, H] with sequence_parallel; gate weight [1, H],
///         replicated. With sequence_parallel each rank has the gradient of its own tokens, and the attribute
///         sequence_parallel says so.
/// Calls   those of Mlp; none for the gate.
/// Errors  partition, when the size of the shared experts is not a multiple of tp.
/// Source  Megatron-LM, moe/shared_experts.py. Its overlap mode makes the same calls at other times.

#include <optional>

#include "sim/parallel/mlp.h"

namespace sim {

struct SharedExpertsConfig {
  MlpConfig mlp;
  bool gate = false;
};

class SharedExperts {
 public:
  SharedExperts(Rank& rank, const SharedExpertsConfig& config);

  struct Saved {
    Tensor input;
    Mlp::Saved mlp;
    Tensor mlp_output, gate, gate_input;  // with a gate only: [T, H], [T] and [T]
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  Forward forward(const Tensor& input);
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  Mlp& mlp() { return mlp_; }
  /// Returns the weight of the gate, or null if there is none.
  Parameter* gate_weight() { return gate_weight_ ? &*gate_weight_ : nullptr; }
  std::vector<Parameter*> parameters();

 private:
  Mlp mlp_;
  std::optional<Parameter> gate_weight_;
};

}  // namespace sim
