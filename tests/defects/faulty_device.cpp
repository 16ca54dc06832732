#include "tests/defects/faulty_device.h"

#include <vector>

#include "sim/tensor/checks.h"
#include "sim/tensor/kernel_functions.h"
#include "sim/tensor/ops.h"

namespace test {

using sim::Tensor;

void FaultyDevice::run(const sim::KernelCall& call) {
  using sim::Kernel;
  const auto with = [&](auto function) { sim::call_function(*this, function, call); };
  switch (call.kernel) {
    case Kernel::add_bias:
      return with(&FaultyDevice::add_bias);
    case Kernel::matmul:
      return with(&FaultyDevice::matmul);
    case Kernel::permute:
      return with(&FaultyDevice::permute);
    case Kernel::activate:
      return with(&FaultyDevice::activate);
    case Kernel::activate_backward:
      return with(&FaultyDevice::activate_backward);
    case Kernel::rotate:
      return with(&FaultyDevice::rotate);
    case Kernel::softmax:
      return with(&FaultyDevice::softmax);
    case Kernel::softmax_backward:
      return with(&FaultyDevice::softmax_backward);
    case Kernel::normalize:
      return with(&FaultyDevice::normalize);
    case Kernel::lookup:
      return with(&FaultyDevice::lookup);
    case Kernel::add_to_rows:
      return with(&FaultyDevice::add_to_rows);
    case Kernel::adam:
      return with(&FaultyDevice::adam);
    case Kernel::clip_factor:
      return with(&FaultyDevice::clip_factor);
    case Kernel::scale_by:
      return with(&FaultyDevice::scale_by);
    case Kernel::row_max:
      return with(&FaultyDevice::row_max);
    case Kernel::token_parts:
      return with(&FaultyDevice::token_parts);
    case Kernel::token_loss:
      return with(&FaultyDevice::token_loss);
    case Kernel::token_loss_backward:
      return with(&FaultyDevice::token_loss_backward);
    default:
      CpuDevice::run(call);
  }
}

void FaultyDevice::add_bias(const Tensor& x, const Tensor& bias, const Tensor& out) const {
  const bool changes = has(KernelFault::bias_is_a_little_larger_on_all_ranks) ||
                       (has(KernelFault::bias_is_a_little_larger_on_one_rank) && is_one_rank());
  kernels().add_bias(x, changes ? sim::scale(bias, {(1 << 20) + 1, 1 << 20}) : bias, out);
}

void FaultyDevice::matmul(const Tensor& a, const Tensor& b, sim::MatmulParameters form,
                          const Tensor& out) const {
  kernels().matmul(a, b, form, out);
  if (form.accumulate && has(KernelFault::weight_gradient_twice)) kernels().matmul(a, b, form, out);
}

void FaultyDevice::permute(const Tensor& from, std::array<int, 4> order, const Tensor& to) const {
  Tensor flat = to.reshaped({to.count()});
  if (has(KernelFault::pairs_not_sorted) && order == std::array{0, 1, 3, 2})
    return kernels().copy(from.reshaped({to.count()}), flat);
  kernels().permute(from, order, to);
  if (!has(KernelFault::heads_permuted) || to.shape()[1] < 2) return;
  // The shape is [B, n, S, d], and the first two heads change places in every sequence.
  const std::int64_t head = to.shape()[2] * to.shape()[3];
  const std::int64_t sequence = to.shape()[1] * head;
  for (std::int64_t b = 0; b < to.shape()[0]; ++b) {
    Tensor first = flat.rows(b * sequence, b * sequence + head);
    Tensor second = flat.rows(b * sequence + head, b * sequence + 2 * head);
    const Tensor kept = sim::scale(first, {1, 1});
    kernels().copy(second, first);
    kernels().copy(kept, second);
  }
}

void FaultyDevice::activate(sim::Activation function, const Tensor& x, const Tensor& out) const {
  const bool other = has(KernelFault::activation_differs_on_one_rank) && is_one_rank();
  const auto another = function == sim::Activation::silu ? sim::Activation::gelu_erf : sim::Activation::silu;
  kernels().activate(other ? another : function, x, out);
}

void FaultyDevice::activate_backward(sim::Activation function, const Tensor& x, const Tensor& grad,
                                     const Tensor& out) const {
  const auto other =
      function == sim::Activation::gelu_tanh ? sim::Activation::gelu_erf : sim::Activation::gelu_tanh;
  kernels().activate_backward(has(KernelFault::derivative_of_other_function) ? other : function, x, grad,
                              out);
}

void FaultyDevice::rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
                          const Tensor& out) const {
  if (has(KernelFault::rotary_not_turned_back)) backward = false;
  const bool starts_at_one = has(KernelFault::rotary_from_position_one);
  const bool repeats = has(KernelFault::positions_of_the_first_half_again);
  if (!is_one_rank() || (!starts_at_one && !repeats))
    return kernels().rotate(x, cosines, sines, backward, out);
  // Each position gets the row of the next position, and the last gets that of the first; or the positions of
  // the second half get the rows of the first.
  const auto changed = [&](const Tensor& table) {
    const std::int64_t rows = table.shape()[0], half = std::max<std::int64_t>(1, rows / 2);
    const Tensor moved = sim::scale(table, {1, 1});
    for (std::int64_t p = 0; p < rows; ++p) {
      const std::int64_t from = repeats ? p % half : (p + 1) % rows;
      Tensor to = moved.rows(p, p + 1);
      kernels().copy(table.rows(from, from + 1), to);
    }
    return moved;
  };
  kernels().rotate(x, changed(cosines), changed(sines), backward, out);
}

void FaultyDevice::softmax(const Tensor& x, const sim::SoftmaxParameters& scores, const Tensor& out) const {
  sim::SoftmaxParameters other = scores;
  if (has(KernelFault::window_one_token_wider) && scores.keys.window >= 0) ++other.keys.window;
  if (has(KernelFault::scores_not_scaled)) other.divisor = 1;
  if (has(KernelFault::scores_scaled_by_half)) other.divisor = (scores.divisor + 1) / 2;
  if (has(KernelFault::causal_mask_dropped)) other.keys = {};
  kernels().softmax(x, other, out);
}

void FaultyDevice::softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor,
                                    const Tensor& out) const {
  kernels().softmax_backward(p, grad, has(KernelFault::gradient_of_scores_not_scaled) ? 1 : divisor, out);
}

void FaultyDevice::normalize(const sim::NormParameters& form, const Tensor& x, const Tensor& weight,
                             const Tensor& bias, const Tensor& out, const Tensor& stats) const {
  sim::NormParameters other = form;
  if (has(KernelFault::epsilon_differs_on_one_rank) && is_one_rank()) other.epsilon.denominator *= 10;
  kernels().normalize(other, x, weight, bias, out, stats);
}

void FaultyDevice::lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id,
                          const Tensor& out) const {
  kernels().lookup(table, ids, has(KernelFault::first_id_off_by_one) && rank_ > 0 ? first_id + 1 : first_id,
                   out);
  if (!has(KernelFault::foreign_ids_are_the_first)) return;
  std::vector<std::int32_t> values(static_cast<std::size_t>(ids.count()));
  ids.device().to_host(ids, std::as_writable_bytes(std::span(values)));
  for (std::size_t t = 0; t < values.size(); ++t) {
    const std::int64_t own = values[t] - first_id;
    if (own >= 0 && own < table.shape()[0]) continue;
    Tensor row = out.rows(static_cast<std::int64_t>(t), static_cast<std::int64_t>(t) + 1);
    kernels().copy(table.rows(0, 1), row);
  }
}

void FaultyDevice::add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id,
                               const Tensor& table) const {
  kernels().add_to_rows(
      rows, ids, has(KernelFault::gradient_of_first_id_off_by_one) && rank_ > 0 ? first_id + 1 : first_id,
      table);
}

void FaultyDevice::adam(const Tensor& grad, const sim::AdamStep& step, const Tensor& param,
                        const Tensor& exp_avg, const Tensor& exp_avg_sq) const {
  sim::AdamStep other = step;
  if (has(KernelFault::every_parameter_decays)) other.weight_decay = {1, 4};
  if (has(KernelFault::decay_of_the_other_kind)) other.decoupled = !step.decoupled;
  if (has(KernelFault::every_step_is_the_first)) other.step = 1;
  kernels().adam(grad, other, param, exp_avg, exp_avg_sq);
}

void FaultyDevice::clip_factor(const Tensor& sum_of_squares, sim::Ratio most, const Tensor& factor) const {
  if (!has(KernelFault::norm_is_not_rooted)) return kernels().clip_factor(sum_of_squares, most, factor);
  const Tensor square = sim::combine(sim::ReduceOp::product, sum_of_squares, sum_of_squares);
  kernels().clip_factor(square, most, factor);
}

void FaultyDevice::scale_by(const Tensor& factor, const Tensor& x) const {
  if (!has(KernelFault::one_rank_does_not_clip) || !is_one_rank()) kernels().scale_by(factor, x);
}

sim::TokenLoss FaultyDevice::changed(sim::TokenLoss loss, const Tensor& logits) const {
  const std::int64_t width = sim::columns_of(logits);
  if (has(KernelFault::target_off_by_one) && rank_ > 0) ++loss.first_id;
  if (has(KernelFault::padding_counted)) loss.columns = width;
  if (has(KernelFault::smoothing_by_local_width)) loss.vocabulary = width;
  return loss;
}

void FaultyDevice::row_max(const Tensor& logits, std::int64_t columns, const Tensor& maxima) const {
  kernels().row_max(logits, has(KernelFault::padding_counted) ? sim::columns_of(logits) : columns, maxima);
}

void FaultyDevice::token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                               const sim::TokenLoss& loss, const Tensor& exps, const Tensor& parts) const {
  kernels().token_parts(logits, maxima, targets, changed(loss, logits), exps, parts);
}

void FaultyDevice::token_loss(const Tensor& parts, const Tensor& targets, const sim::TokenLoss& loss,
                              const Tensor& out) const {
  sim::TokenLoss other = loss;
  if (has(KernelFault::ignored_tokens_counted)) other.ignored_id = -1;
  if (has(KernelFault::smoothing_by_local_width)) other.vocabulary = std::max<std::int64_t>(loss.columns, 1);
  kernels().token_loss(parts, targets, other, out);
}

void FaultyDevice::token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                                       const sim::TokenLoss& loss, const Tensor& grad,
                                       const Tensor& out) const {
  sim::TokenLoss other = loss;
  if (has(KernelFault::gradient_of_padding_kept)) other.columns = sim::columns_of(exps);
  if (has(KernelFault::ignored_tokens_counted)) other.ignored_id = -1;
  kernels().token_loss_backward(exps, parts, targets, other, grad, out);
}

}  // namespace test
