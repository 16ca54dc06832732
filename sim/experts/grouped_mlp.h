#pragma once

/// The experts of one rank: an MLP for each, on the rows that were dispatched to it. The probability of a row
/// multiplies the activation, and the bias of linear_fc2.
///
/// Shapes  rows [R, H] and probs [R], ordered by local expert; linear_fc1 of an expert [F/etp, H], or
///         [2 F/etp, H] if gated (the rows of a rank are [gate | up]); linear_fc2 [H, F/etp]; biases [F/etp]
///         (or twice as many) and [H]. output [R, H]: with etp above 1 each rank has a term of the sum.
/// Calls   none. The sum over etp is the dispatcher's.
/// Errors  moe_sizes: H or F below 1; moe_ffn_etp_div: F is not a multiple of etp; moe_bias_etp: experts with
///         biases are not cut over etp. All problems are reported together.
/// Exact   Each expert multiplies its own rows only. An expert without rows has a gradient of zero. The
///         parameters of expert e have the same initial values on every layout.
/// Source  Megatron-LM, moe/experts.py: SequentialMLP; DistributedDataParallel reduces their gradients over
///         edp where the attribute allreduce is false.

#include <deque>
#include <string>
#include <vector>

#include "sim/experts/token_dispatcher.h"
#include "sim/parallel/gated_activation.h"
#include "sim/parallel/parameter.h"

namespace sim {

struct GroupedMlpConfig {
  std::string name;  // such as "mlp.experts"
  DType dtype = DType::f32;
  std::int64_t hidden_size = 0;      // H
  std::int64_t ffn_hidden_size = 0;  // F, of one expert
  GatedActivation activation;
  bool bias = false;
  Initial initial = {};
};

/// Refuses experts that no rank can have, of `etp` expert-tensor-parallel ranks.
void require_experts(const GroupedMlpConfig& config, int etp);

class GroupedMlp {
 public:
  GroupedMlp(Rank& rank, const ExpertGrid& grid, GroupedMlpConfig config);

  struct SavedOfExpert {
    Tensor rows, probs;
    Tensor inside;     // the output of linear_fc1
    Tensor activated;  // before it is multiplied by the probabilities
  };
  struct Saved {
    std::vector<std::int64_t> of_expert;  // the number of rows of each
    std::vector<SavedOfExpert> experts;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  Forward forward(const ExpertRows& rows);
  struct Gradients {
    Tensor rows;   // [R, H]
    Tensor probs;  // [R]
  };
  /// Returns the gradients of the rows and of their probabilities, and adds to main_grad of the parameters.
  Gradients backward(const Saved& saved, const Tensor& grad_output);

  struct Expert {
    Parameter fc1_weight, fc1_bias, fc2_weight, fc2_bias;
  };
  /// The local experts, in ascending order.
  std::deque<Expert>& experts() { return experts_; }
  std::vector<Parameter*> parameters();

 private:
  Tensor forward_expert(const Expert& expert, SavedOfExpert& saved) const;
  Gradients backward_expert(Expert& expert, const SavedOfExpert& saved, const Tensor& grad) const;

  GroupedMlpConfig config_;
  std::deque<Expert> experts_;
};

}  // namespace sim
