#include "tests/defects/wrong_kernels.h"

#include <algorithm>
#include <array>
#include <vector>

#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace test {

using sim::Kernel;
using sim::Tensor;

namespace {

class WrongDevice : public sim::CpuDevice {
 public:
  explicit WrongDevice(WrongKernel wrong) : wrong_(wrong) {}
  WrongDevice(const WrongDevice& whole, int rank)
      : CpuDevice(whole, rank), wrong_(whole.wrong_), rank_(rank) {}
  std::shared_ptr<sim::Device> for_rank(int rank) override {
    return std::make_shared<WrongDevice>(*this, rank);
  }
  /// What a wrong kernel itself computes on the device is right.
  void run(const sim::KernelCall& call) override {
    if (is_inside_) return CpuDevice::run(call);
    is_inside_ = true;
    KernelRun run{.call = call, .rank = rank_, .device = *this};
    wrong_(run);
    if (!run.is_computed) run.compute();
    is_inside_ = false;
  }

 private:
  WrongKernel wrong_;
  int rank_ = 0;
  bool is_inside_ = false;
};

bool is_one_rank(const KernelRun& run) { return run.rank == 1; }

void copy(const Tensor& from, Tensor to) { to.device().copy(from, to); }

void enlarge_bias(KernelRun& run) {
  if (run.call.kernel == Kernel::add_bias)
    run.compute_with(1, sim::scale(run.input(1), {(1 << 20) + 1, 1 << 20}));
}

/// Each position gets the row of another one in both tables of a rank.
template <typename From>
void move_positions(KernelRun& run, const From& from) {
  if (run.call.kernel != Kernel::rotate || !is_one_rank(run)) return;
  const auto changed = [&](const Tensor& table) {
    const std::int64_t rows = table.shape()[0];
    const Tensor moved = sim::scale(table, {1, 1});
    for (std::int64_t p = 0; p < rows; ++p) {
      const std::int64_t other = from(p, rows);
      copy(table.rows(other, other + 1), moved.rows(p, p + 1));
    }
    return moved;
  };
  const Tensor cosines = changed(run.input(1)), sines = changed(run.input(2));
  const std::array<const Tensor*, 3> inputs = {&run.input(0), &cosines, &sines};
  run.call.inputs = inputs;
  run.compute();
}

void begin_one_later(KernelRun& run, Kernel kernel) {
  auto* first_id = run.of<std::int64_t>(kernel);
  if (first_id != nullptr && run.rank > 0) ++*first_id;
}

}  // namespace

void KernelRun::compute() {
  device.run(call);
  is_computed = true;
}

void KernelRun::compute_with(std::size_t place, const Tensor& other) {
  std::vector<const Tensor*> inputs(call.inputs.begin(), call.inputs.end());
  inputs[place] = &other;
  call.inputs = inputs;
  compute();
}

std::shared_ptr<sim::CpuDevice> device_with(WrongKernel wrong) {
  return std::make_shared<WrongDevice>(wrong);
}

// ---- linear layers, norms and activations

void bias_is_a_little_larger_on_one_rank(KernelRun& run) {
  if (is_one_rank(run)) enlarge_bias(run);
}
void bias_is_a_little_larger_on_all_ranks(KernelRun& run) { enlarge_bias(run); }

void epsilon_differs_on_one_rank(KernelRun& run) {
  auto* form = run.of<sim::NormParameters>(Kernel::normalize);
  if (form != nullptr && is_one_rank(run)) form->epsilon.denominator *= 10;
}

void activation_differs_on_one_rank(KernelRun& run) {
  using enum sim::Activation;
  auto* function = run.of<sim::Activation>(Kernel::activate);
  if (function != nullptr && is_one_rank(run)) *function = *function == silu ? gelu_erf : silu;
}

void derivative_of_other_function(KernelRun& run) {
  using enum sim::Activation;
  if (auto* function = run.of<sim::Activation>(Kernel::activate_backward))
    *function = *function == gelu_tanh ? gelu_erf : gelu_tanh;
}

void weight_gradient_twice(KernelRun& run) {
  const auto* form = run.of<sim::MatmulParameters>(Kernel::matmul);
  if (form == nullptr || !form->accumulate) return;
  run.compute();
  run.compute();
}

// ---- attention

/// Each position gets the row of the next position, and the last gets that of the first.
void rotary_from_position_one(KernelRun& run) {
  move_positions(run, [](std::int64_t p, std::int64_t rows) { return (p + 1) % rows; });
}

void positions_of_the_first_half_again(KernelRun& run) {
  move_positions(run,
                 [](std::int64_t p, std::int64_t rows) { return p % std::max<std::int64_t>(1, rows / 2); });
}

void rotary_not_turned_back(KernelRun& run) {
  if (auto* is_backward = run.of<bool>(Kernel::rotate)) *is_backward = false;
}

void causal_mask_dropped(KernelRun& run) {
  if (auto* scores = run.of<sim::SoftmaxParameters>(Kernel::softmax)) scores->keys = {};
}

void window_one_token_wider(KernelRun& run) {
  auto* scores = run.of<sim::SoftmaxParameters>(Kernel::softmax);
  if (scores != nullptr && scores->keys.window >= 0) ++scores->keys.window;
}

void scores_not_scaled(KernelRun& run) {
  if (auto* scores = run.of<sim::SoftmaxParameters>(Kernel::softmax)) scores->divisor = 1;
}

void scores_scaled_by_half(KernelRun& run) {
  if (auto* scores = run.of<sim::SoftmaxParameters>(Kernel::softmax))
    scores->divisor = (scores->divisor + 1) / 2;
}

void pairs_not_sorted(KernelRun& run) {
  const auto* order = run.of<std::array<int, 4>>(Kernel::permute);
  if (order == nullptr || *order != std::array{0, 1, 3, 2}) return;
  copy(run.input(0).flat(), run.output().flat());
  run.is_computed = true;
}

void gradient_of_scores_not_scaled(KernelRun& run) {
  if (auto* divisor = run.of<std::int64_t>(Kernel::softmax_backward)) *divisor = 1;
}

/// The shape is [B, n, S, d], and the first two heads change places in every sequence.
void heads_permuted(KernelRun& run) {
  if (run.call.kernel != Kernel::permute) return;
  run.compute();
  const Tensor& to = run.output();
  if (to.shape()[1] < 2) return;
  const std::int64_t head = to.shape()[2] * to.shape()[3], sequence = to.shape()[1] * head;
  for (std::int64_t b = 0; b < to.shape()[0]; ++b) {
    const Tensor first = to.flat().rows(b * sequence, b * sequence + head);
    const Tensor second = to.flat().rows(b * sequence + head, b * sequence + 2 * head);
    const Tensor kept = sim::scale(first, {1, 1});
    copy(second, first);
    copy(kept, second);
  }
}

// ---- vocabulary

void first_id_off_by_one(KernelRun& run) { begin_one_later(run, Kernel::lookup); }
void gradient_of_first_id_off_by_one(KernelRun& run) { begin_one_later(run, Kernel::add_to_rows); }

void foreign_ids_are_the_first(KernelRun& run) {
  const auto* first_id = run.of<std::int64_t>(Kernel::lookup);
  if (first_id == nullptr) return;
  run.compute();
  const Tensor &table = run.input(0), &ids = run.input(1);
  std::vector<std::int32_t> values(static_cast<std::size_t>(ids.count()));
  ids.device().to_host(ids, std::as_writable_bytes(std::span(values)));
  for (std::size_t t = 0; t < values.size(); ++t) {
    const std::int64_t own = values[t] - *first_id;
    if (own >= 0 && own < table.shape()[0]) continue;
    copy(table.rows(0, 1), run.output().rows(static_cast<std::int64_t>(t), static_cast<std::int64_t>(t) + 1));
  }
}

void target_off_by_one(KernelRun& run) {
  auto* loss = run.of<sim::TokenLoss>(Kernel::token_parts);
  if (loss != nullptr && run.rank > 0) ++loss->first_id;
}

void ignored_tokens_counted(KernelRun& run) {
  for (const Kernel kernel : {Kernel::token_loss, Kernel::token_loss_backward})
    if (auto* loss = run.of<sim::TokenLoss>(kernel)) loss->ignored_id = -1;
}

void padding_counted(KernelRun& run) {
  if (auto* columns = run.of<std::int64_t>(Kernel::row_max)) *columns = sim::columns_of(run.input(0));
  if (auto* loss = run.of<sim::TokenLoss>(Kernel::token_parts)) loss->columns = sim::columns_of(run.input(0));
}

void smoothing_by_local_width(KernelRun& run) {
  if (auto* loss = run.of<sim::TokenLoss>(Kernel::token_parts))
    loss->vocabulary = sim::columns_of(run.input(0));
  if (auto* loss = run.of<sim::TokenLoss>(Kernel::token_loss))
    loss->vocabulary = std::max<std::int64_t>(loss->columns, 1);
}

void gradient_of_padding_kept(KernelRun& run) {
  if (auto* loss = run.of<sim::TokenLoss>(Kernel::token_loss_backward))
    loss->columns = sim::columns_of(run.input(0));
}

// ---- the optimizer

void every_parameter_decays(KernelRun& run) {
  if (auto* step = run.of<sim::AdamStep>(Kernel::adam)) step->weight_decay = {1, 4};
}

void decay_of_the_other_kind(KernelRun& run) {
  if (auto* step = run.of<sim::AdamStep>(Kernel::adam)) step->decoupled = !step->decoupled;
}

void every_step_is_the_first(KernelRun& run) {
  if (auto* step = run.of<sim::AdamStep>(Kernel::adam)) step->step = 1;
}

void one_rank_does_not_clip(KernelRun& run) {
  if (run.call.kernel == Kernel::scale_by && is_one_rank(run)) run.is_computed = true;
}

void norm_is_not_rooted(KernelRun& run) {
  if (run.call.kernel == Kernel::clip_factor)
    run.compute_with(0, sim::combine(sim::ReduceOp::product, run.input(0), run.input(0)));
}

}  // namespace test
