#include "tests/defects/faulty_device.h"

#include <vector>

#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace test {

using sim::Tensor;

void FaultyDevice::add_bias(const Tensor& x, const Tensor& bias, Tensor& out) {
  const bool changes = has(KernelFault::bias_is_a_little_larger_on_all_ranks) ||
                       (has(KernelFault::bias_is_a_little_larger_on_one_rank) && is_one_rank());
  CpuDevice::add_bias(x, changes ? sim::scale(bias, {(1 << 20) + 1, 1 << 20}) : bias, out);
}

void FaultyDevice::matmul(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed, Tensor& out,
                          bool accumulate) {
  CpuDevice::matmul(a, a_transposed, b, b_transposed, out, accumulate);
  if (accumulate && has(KernelFault::weight_gradient_twice))
    CpuDevice::matmul(a, a_transposed, b, b_transposed, out, accumulate);
}

void FaultyDevice::permute(const Tensor& from, std::array<int, 4> order, Tensor& to) {
  Tensor flat = to.reshaped({to.count()});
  if (has(KernelFault::pairs_not_sorted) && order == std::array{0, 1, 3, 2})
    return CpuDevice::copy(from.reshaped({to.count()}), flat);
  CpuDevice::permute(from, order, to);
  if (!has(KernelFault::heads_permuted) || to.shape()[1] < 2) return;
  // The shape is [B, n, S, d], and the first two heads change places in every sequence.
  const std::int64_t head = to.shape()[2] * to.shape()[3];
  const std::int64_t sequence = to.shape()[1] * head;
  for (std::int64_t b = 0; b < to.shape()[0]; ++b) {
    Tensor first = flat.rows(b * sequence, b * sequence + head);
    Tensor second = flat.rows(b * sequence + head, b * sequence + 2 * head);
    const Tensor kept = sim::scale(first, {1, 1});
    CpuDevice::copy(second, first);
    CpuDevice::copy(kept, second);
  }
}

void FaultyDevice::activate(sim::Activation function, const Tensor& x, Tensor& out) {
  const bool other = has(KernelFault::activation_differs_on_one_rank) && is_one_rank();
  const auto another = function == sim::Activation::silu ? sim::Activation::gelu_erf : sim::Activation::silu;
  CpuDevice::activate(other ? another : function, x, out);
}

void FaultyDevice::activate_backward(sim::Activation function, const Tensor& x, const Tensor& grad,
                                     Tensor& out) {
  const auto other =
      function == sim::Activation::gelu_tanh ? sim::Activation::gelu_erf : sim::Activation::gelu_tanh;
  CpuDevice::activate_backward(has(KernelFault::derivative_of_other_function) ? other : function, x, grad,
                               out);
}

void FaultyDevice::rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
                          Tensor& out) {
  if (has(KernelFault::rotary_not_turned_back)) backward = false;
  const bool starts_at_one = has(KernelFault::rotary_from_position_one);
  const bool repeats = has(KernelFault::positions_of_the_first_half_again);
  if (!is_one_rank() || (!starts_at_one && !repeats))
    return CpuDevice::rotate(x, cosines, sines, backward, out);
  // Each position gets the row of the next position, and the last gets that of the first; or the positions of
  // the second half get the rows of the first.
  const auto changed = [&](const Tensor& table) {
    const std::int64_t rows = table.shape()[0], half = std::max<std::int64_t>(1, rows / 2);
    const Tensor moved = sim::scale(table, {1, 1});
    for (std::int64_t p = 0; p < rows; ++p) {
      const std::int64_t from = repeats ? p % half : (p + 1) % rows;
      Tensor to = moved.rows(p, p + 1);
      CpuDevice::copy(table.rows(from, from + 1), to);
    }
    return moved;
  };
  CpuDevice::rotate(x, changed(cosines), changed(sines), backward, out);
}

void FaultyDevice::softmax(const Tensor& x, std::int64_t divisor, sim::SeenKeys keys, Tensor& out) {
  if (has(KernelFault::window_one_token_wider) && keys.window >= 0) ++keys.window;
  if (has(KernelFault::scores_not_scaled)) divisor = 1;
  if (has(KernelFault::scores_scaled_by_half)) divisor = (divisor + 1) / 2;
  CpuDevice::softmax(x, divisor, has(KernelFault::causal_mask_dropped) ? sim::SeenKeys{} : keys, out);
}

void FaultyDevice::softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, Tensor& out) {
  CpuDevice::softmax_backward(p, grad, has(KernelFault::gradient_of_scores_not_scaled) ? 1 : divisor, out);
}

void FaultyDevice::normalize(sim::Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias,
                             sim::Ratio epsilon, Tensor& out, Tensor& stats) {
  if (has(KernelFault::epsilon_differs_on_one_rank) && is_one_rank()) epsilon.denominator *= 10;
  CpuDevice::normalize(norm, x, weight, bias, epsilon, out, stats);
}

void FaultyDevice::lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, Tensor& out) {
  CpuDevice::lookup(table, ids, has(KernelFault::first_id_off_by_one) && rank_ > 0 ? first_id + 1 : first_id,
                    out);
  if (!has(KernelFault::foreign_ids_are_the_first)) return;
  std::vector<std::int32_t> values(static_cast<std::size_t>(ids.count()));
  to_host(ids, std::as_writable_bytes(std::span(values)));
  for (std::size_t t = 0; t < values.size(); ++t) {
    const std::int64_t own = values[t] - first_id;
    if (own >= 0 && own < table.shape()[0]) continue;
    Tensor row = out.rows(static_cast<std::int64_t>(t), static_cast<std::int64_t>(t) + 1);
    CpuDevice::copy(table.rows(0, 1), row);
  }
}

void FaultyDevice::add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& table) {
  CpuDevice::add_to_rows(
      rows, ids, has(KernelFault::gradient_of_first_id_off_by_one) && rank_ > 0 ? first_id + 1 : first_id,
      table);
}

void FaultyDevice::adam(const Tensor& grad, const sim::AdamStep& step, Tensor& param, Tensor& exp_avg,
                        Tensor& exp_avg_sq) {
  sim::AdamStep other = step;
  if (has(KernelFault::every_parameter_decays)) other.weight_decay = {1, 4};
  if (has(KernelFault::decay_of_the_other_kind)) other.decoupled = !step.decoupled;
  if (has(KernelFault::every_step_is_the_first)) other.step = 1;
  CpuDevice::adam(grad, other, param, exp_avg, exp_avg_sq);
}

void FaultyDevice::clip_factor(const Tensor& sum_of_squares, sim::Ratio most, Tensor& factor) {
  if (!has(KernelFault::norm_is_not_rooted)) return CpuDevice::clip_factor(sum_of_squares, most, factor);
  const Tensor square = sim::combine(sim::ReduceOp::product, sum_of_squares, sum_of_squares);
  CpuDevice::clip_factor(square, most, factor);
}

void FaultyDevice::scale_by(Tensor& x, const Tensor& factor) {
  if (!has(KernelFault::one_rank_does_not_clip) || !is_one_rank()) CpuDevice::scale_by(x, factor);
}

sim::TokenLoss FaultyDevice::changed(sim::TokenLoss loss, const Tensor& logits) const {
  const std::int64_t width = sim::columns_of(logits);
  if (has(KernelFault::target_off_by_one) && rank_ > 0) ++loss.first_id;
  if (has(KernelFault::padding_counted)) loss.columns = width;
  if (has(KernelFault::smoothing_by_local_width)) loss.vocabulary = width;
  return loss;
}

void FaultyDevice::row_max(const Tensor& logits, std::int64_t columns, Tensor& maxima) {
  CpuDevice::row_max(logits, has(KernelFault::padding_counted) ? sim::columns_of(logits) : columns, maxima);
}

void FaultyDevice::token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                               const sim::TokenLoss& loss, Tensor& exps, Tensor& parts) {
  CpuDevice::token_parts(logits, maxima, targets, changed(loss, logits), exps, parts);
}

void FaultyDevice::token_loss(const Tensor& parts, const Tensor& targets, const sim::TokenLoss& loss,
                              Tensor& out) {
  sim::TokenLoss other = loss;
  if (has(KernelFault::ignored_tokens_counted)) other.ignored_id = -1;
  if (has(KernelFault::smoothing_by_local_width)) other.vocabulary = std::max<std::int64_t>(loss.columns, 1);
  CpuDevice::token_loss(parts, targets, other, out);
}

void FaultyDevice::token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                                       const sim::TokenLoss& loss, const Tensor& grad, Tensor& out) {
  sim::TokenLoss other = loss;
  if (has(KernelFault::gradient_of_padding_kept)) other.columns = sim::columns_of(exps);
  if (has(KernelFault::ignored_tokens_counted)) other.ignored_id = -1;
  CpuDevice::token_loss_backward(exps, parts, targets, other, grad, out);
}

}  // namespace test
