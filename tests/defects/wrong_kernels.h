#pragma once

/// Kernels that compute something else, on all ranks or on some, to plant what layers get wrong inside a
/// rank. Kernels whose result is zero, scaled or shifted are faults of verify/faults; here they get other
/// parameters or operands.

#include <memory>
#include <variant>

#include "sim/cpu/cpu_device.h"

namespace test {

/// One run of a kernel: its call, which may be changed before it is computed.
struct KernelRun {
  sim::KernelCall call;
  int rank;
  sim::CpuDevice& device;
  bool is_computed = false;

  const sim::Tensor& input(std::size_t place) const { return *call.inputs[place]; }
  const sim::Tensor& output() const { return *call.outputs.front(); }
  /// The parameters of a call of this kernel; null for another kernel.
  template <typename Parameters>
  Parameters* of(sim::Kernel kernel) {
    return call.kernel == kernel ? &std::get<Parameters>(call.parameters) : nullptr;
  }
  /// Computes the call, by the right kernel.
  void compute();
  /// Computes it with another input in the place of one.
  void compute_with(std::size_t place, const sim::Tensor& input);
};

/// What is wrong: it is given every run. A run that it does not compute is computed afterwards.
using WrongKernel = void (*)(KernelRun& run);

std::shared_ptr<sim::CpuDevice> device_with(WrongKernel wrong);

void bias_is_a_little_larger_on_one_rank(KernelRun& run);  // by 2^-20 of its value
void bias_is_a_little_larger_on_all_ranks(KernelRun& run);
void epsilon_differs_on_one_rank(KernelRun& run);
void activation_differs_on_one_rank(KernelRun& run);
void derivative_of_other_function(KernelRun& run);
void weight_gradient_twice(KernelRun& run);
void rotary_from_position_one(KernelRun& run);
void positions_of_the_first_half_again(KernelRun& run);
void rotary_not_turned_back(KernelRun& run);
void causal_mask_dropped(KernelRun& run);
void window_one_token_wider(KernelRun& run);
void scores_not_scaled(KernelRun& run);
void scores_scaled_by_half(KernelRun& run);  // as if a head had half its channels
void pairs_not_sorted(KernelRun& run);       // the elements of a rotated pair stay side by side
void gradient_of_scores_not_scaled(KernelRun& run);
void first_id_off_by_one(KernelRun& run);
void foreign_ids_are_the_first(KernelRun& run);
void gradient_of_first_id_off_by_one(KernelRun& run);
void target_off_by_one(KernelRun& run);
void ignored_tokens_counted(KernelRun& run);
void padding_counted(KernelRun& run);
void smoothing_by_local_width(KernelRun& run);
void gradient_of_padding_kept(KernelRun& run);
void heads_permuted(KernelRun& run);
void every_parameter_decays(KernelRun& run);
void decay_of_the_other_kind(KernelRun& run);
void every_step_is_the_first(KernelRun& run);
void one_rank_does_not_clip(KernelRun& run);
void norm_is_not_rooted(KernelRun& run);

}  // namespace test
