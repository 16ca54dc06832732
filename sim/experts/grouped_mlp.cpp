#include "sim/experts/grouped_mlp.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/experts/row_operations.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

class ParameterMaker {
 public:
  ParameterMaker(Rank& rank, const ExpertGrid& grid, const GroupedMlpConfig& config)
      : rank_(rank), grid_(grid), config_(config), is_own_(grid.differs_from_dense_grid(tp_size(rank))) {}

  GroupedMlp::Expert expert(std::int64_t e) const {
    const std::string name = fmt::format("{}.local_experts.{}", config_.name, e);
    const int stride = config_.activation.gated ? 2 : 1;
    const std::int64_t inside = stride * config_.ffn_hidden_size, hidden = config_.hidden_size;
    GroupedMlp::Expert expert;
    expert.fc1_weight = made(name + ".linear_fc1.weight", {inside, hidden}, 0, stride);
    if (config_.bias) expert.fc1_bias = made(name + ".linear_fc1.bias", {inside}, 0, stride);
    expert.fc2_weight = made(name + ".linear_fc2.weight", {hidden, config_.ffn_hidden_size}, 1, 1);
    if (config_.bias) expert.fc2_bias = made(name + ".linear_fc2.bias", {hidden}, -1, 1);
    return expert;
  }

 private:
  static int tp_size(Rank& rank) { return rank.groups.get("tp").size(); }

  Parameter made(std::string name, const Shape& whole, int dim, int stride) const {
    const Partition partition{
        .dim = dim, .stride = stride, .place = grid_.etp.rank(), .size = grid_.etp.size()};
    Parameter parameter =
        make_parameter(rank_, std::move(name), config_.dtype, whole, partition, config_.initial);
    parameter.attributes.allreduce = !is_own_;
    return parameter;
  }

  Rank& rank_;
  const ExpertGrid& grid_;
  const GroupedMlpConfig& config_;
  bool is_own_;  // the experts are reduced over other ranks than dense parameters
};

void require_sizes(const GroupedMlpConfig& config) {
  if (config.hidden_size >= 1 && config.ffn_hidden_size >= 1) return;
  refuse({.code = "moe_sizes",
          .option = config.name,
          .numbers =
              fmt::format("hidden size {}, ffn hidden size {}", config.hidden_size, config.ffn_hidden_size),
          .rule = "an expert has at least one feature outside and inside",
          .hint = "--hidden-size and --moe-ffn-hidden-size of at least 1"});
}

void require_equal_parts(const GroupedMlpConfig& config, int etp) {
  const std::int64_t size = config.ffn_hidden_size;
  if (size % etp == 0) return;
  refuse({.code = "moe_ffn_etp_div",
          .option = config.name,
          .numbers = fmt::format("an ffn hidden size of {} over {} expert-tensor-parallel ranks", size, etp),
          .rule = "every expert-tensor-parallel rank has as many columns of an expert",
          .hint = fmt::format("--moe-ffn-hidden-size {}, or another --expert-tensor-parallel-size",
                              (size / etp + 1) * etp)});
}

void require_no_bias(const GroupedMlpConfig& config, int etp) {
  if (!config.bias || etp == 1) return;
  refuse({.code = "moe_bias_etp",
          .option = config.name,
          .numbers = fmt::format("biases, and etp is {}", etp),
          .rule = "experts with biases are not cut over expert-tensor-parallel ranks",
          .hint = "--disable-bias-linear, or --expert-tensor-parallel-size 1"});
}

GroupedMlpConfig checked(GroupedMlpConfig config, int etp) {
  Refusals refusals;
  refusals.keep([&] { require_sizes(config); });
  refusals.keep([&] { require_equal_parts(config, etp); });
  refusals.keep([&] { require_no_bias(config, etp); });
  refusals.throw_if_any();
  return config;
}

}  // namespace

void require_experts(const GroupedMlpConfig& config, int etp) { checked(config, etp); }

GroupedMlp::GroupedMlp(Rank& rank, const ExpertGrid& grid, GroupedMlpConfig config)
    : config_(checked(std::move(config), grid.etp.size())) {
  const ParameterMaker maker(rank, grid, config_);
  for (std::int64_t e = 0; e < grid.local_experts(); ++e)
    experts_.push_back(maker.expert(grid.first_local_expert() + e));
}

std::vector<Parameter*> GroupedMlp::parameters() {
  std::vector<Parameter*> all;
  for (Expert& expert : experts_) {
    all.push_back(&expert.fc1_weight);
    if (config_.bias) all.push_back(&expert.fc1_bias);
    all.push_back(&expert.fc2_weight);
    if (config_.bias) all.push_back(&expert.fc2_bias);
  }
  return all;
}

GroupedMlp::Forward GroupedMlp::forward(const ExpertRows& rows) {
  Forward forward{rows.rows.device().empty(config_.dtype, rows.rows.shape()), {rows.of_expert, {}}};
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const std::int64_t end = begin + rows.of_expert[e];
    SavedOfExpert saved{.rows = rows.rows.rows(begin, end), .probs = rows.probs.rows(begin, end)};
    if (end > begin) {
      Tensor output = forward.output.rows(begin, end);
      copy(forward_expert(experts_[e], saved), output);
    }
    forward.saved.experts.push_back(std::move(saved));
    begin = end;
  }
  return forward;
}

Tensor GroupedMlp::forward_expert(const Expert& expert, SavedOfExpert& saved) const {
  saved.inside = matmul(saved.rows, transposed(expert.fc1_weight.value));
  if (config_.bias) saved.inside = add_bias(saved.inside, expert.fc1_bias.value);
  saved.activated = config_.activation.forward(saved.inside);
  const Tensor output =
      matmul(scaled_rows(saved.activated, saved.probs), transposed(expert.fc2_weight.value));
  return config_.bias ? add(output, products_with_row(saved.probs, expert.fc2_bias.value)) : output;
}

GroupedMlp::Gradients GroupedMlp::backward(const Saved& saved, const Tensor& grad_output) {
  Gradients all{grad_output.device().empty(config_.dtype, grad_output.shape()),
                grad_output.device().empty(config_.dtype, {rows_of(grad_output)})};
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const std::int64_t end = begin + saved.of_expert[e];
    if (end > begin) {
      const Gradients own = backward_expert(experts_[e], saved.experts[e], grad_output.rows(begin, end));
      Tensor rows = all.rows.rows(begin, end), probs = all.probs.rows(begin, end);
      copy(own.rows, rows);
      copy(own.probs, probs);
    }
    begin = end;
  }
  return all;
}

GroupedMlp::Gradients GroupedMlp::backward_expert(Expert& expert, const SavedOfExpert& saved,
                                                  const Tensor& grad) const {
  const Tensor weighted = scaled_rows(saved.activated, saved.probs);
  add_matmul(transposed(grad), weighted, expert.fc2_weight.main_grad);
  const Tensor grad_weighted = matmul(grad, expert.fc2_weight.value);
  Tensor grad_probs = row_dots(grad_weighted, saved.activated);
  if (config_.bias) {
    add_column_sums(scaled_rows(grad, saved.probs), expert.fc2_bias.main_grad);
    grad_probs = add(grad_probs, dots_with_row(grad, expert.fc2_bias.value));
  }
  const Tensor grad_inside =
      config_.activation.backward(saved.inside, scaled_rows(grad_weighted, saved.probs));
  add_matmul(transposed(grad_inside), saved.rows, expert.fc1_weight.main_grad);
  if (config_.bias) add_column_sums(grad_inside, expert.fc1_bias.main_grad);
  return {matmul(grad_inside, expert.fc1_weight.value), grad_probs};
}

}  // namespace sim
