#pragma once

/// Devices on which one kernel computes something else, on all ranks or on some, to plant what layers
/// get wrong inside a rank. Kernels whose result is zero, scaled or shifted are faults of verify/faults; here
/// they get other parameters or operands.

#include <memory>

#include "sim/cpu/cpu_device.h"

namespace test {

enum class KernelFault {
  bias_is_a_little_larger_on_one_rank,  // by 2^-20 of its value
  bias_is_a_little_larger_on_all_ranks,
  epsilon_differs_on_one_rank,
  activation_differs_on_one_rank,
  derivative_of_other_function,
  weight_gradient_twice,
  rotary_from_position_one,
  positions_of_the_first_half_again,
  rotary_not_turned_back,
  causal_mask_dropped,
  window_one_token_wider,
  scores_not_scaled,
  scores_scaled_by_half,  // as if a head had half its channels, as one without those of positions
  pairs_not_sorted,       // the elements of a rotated pair stay side by side
  gradient_of_scores_not_scaled,
  first_id_off_by_one,
  foreign_ids_are_the_first,
  gradient_of_first_id_off_by_one,
  target_off_by_one,
  ignored_tokens_counted,
  padding_counted,
  smoothing_by_local_width,
  gradient_of_padding_kept,
  heads_permuted,
  every_parameter_decays,
  decay_of_the_other_kind,
  every_step_is_the_first,
  one_rank_does_not_clip,
  norm_is_not_rooted,
};

class FaultyDevice : public sim::CpuDevice {
 public:
  explicit FaultyDevice(KernelFault fault) : fault_(fault) {}
  FaultyDevice(const FaultyDevice& whole, int rank)
      : CpuDevice(whole, rank), fault_(whole.fault_), rank_(rank) {}

  std::shared_ptr<sim::Device> for_rank(int rank) override {
    return std::make_shared<FaultyDevice>(*this, rank);
  }
  void run(const sim::KernelCall& call) override;

 private:
  void add_bias(const sim::Tensor& x, const sim::Tensor& bias, const sim::Tensor& out) const;
  void matmul(const sim::Tensor& a, const sim::Tensor& b, sim::MatmulParameters form,
              const sim::Tensor& out) const;
  void permute(const sim::Tensor& from, std::array<int, 4> order, const sim::Tensor& to) const;
  void activate(sim::Activation function, const sim::Tensor& x, const sim::Tensor& out) const;
  void activate_backward(sim::Activation function, const sim::Tensor& x, const sim::Tensor& grad,
                         const sim::Tensor& out) const;
  void rotate(const sim::Tensor& x, const sim::Tensor& cosines, const sim::Tensor& sines, bool backward,
              const sim::Tensor& out) const;
  void softmax(const sim::Tensor& x, const sim::SoftmaxParameters& scores, const sim::Tensor& out) const;
  void softmax_backward(const sim::Tensor& p, const sim::Tensor& grad, std::int64_t divisor,
                        const sim::Tensor& out) const;
  void normalize(const sim::NormParameters& form, const sim::Tensor& x, const sim::Tensor& weight,
                 const sim::Tensor& bias, const sim::Tensor& out, const sim::Tensor& stats) const;
  void lookup(const sim::Tensor& table, const sim::Tensor& ids, std::int64_t first_id,
              const sim::Tensor& out) const;
  void add_to_rows(const sim::Tensor& rows, const sim::Tensor& ids, std::int64_t first_id,
                   const sim::Tensor& table) const;
  void adam(const sim::Tensor& grad, const sim::AdamStep& step, const sim::Tensor& param,
            const sim::Tensor& exp_avg, const sim::Tensor& exp_avg_sq) const;
  void clip_factor(const sim::Tensor& sum_of_squares, sim::Ratio most, const sim::Tensor& factor) const;
  void scale_by(const sim::Tensor& factor, const sim::Tensor& x) const;
  void row_max(const sim::Tensor& logits, std::int64_t columns, const sim::Tensor& maxima) const;
  void token_parts(const sim::Tensor& logits, const sim::Tensor& maxima, const sim::Tensor& targets,
                   const sim::TokenLoss& loss, const sim::Tensor& exps, const sim::Tensor& parts) const;
  void token_loss(const sim::Tensor& parts, const sim::Tensor& targets, const sim::TokenLoss& loss,
                  const sim::Tensor& out) const;
  void token_loss_backward(const sim::Tensor& exps, const sim::Tensor& parts, const sim::Tensor& targets,
                           const sim::TokenLoss& loss, const sim::Tensor& grad, const sim::Tensor& out) const;

  bool has(KernelFault fault) const { return fault_ == fault; }
  bool is_one_rank() const { return rank_ == 1; }
  sim::TokenLoss changed(sim::TokenLoss loss, const sim::Tensor& logits) const;

  KernelFault fault_;
  int rank_ = 0;
};

}  // namespace test
