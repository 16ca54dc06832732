#include "sim/experts/expert_bias.h"

#include <numeric>
#include <vector>

#include "sim/experts/host_copies.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace sim {

namespace {

/// Returns sign(mean - tokens) of a row of tokens, without dividing.
std::vector<std::int32_t> signs_of(const std::vector<std::int32_t>& tokens, std::int64_t experts) {
  std::vector<std::int32_t> signs;
  for (auto row = tokens.begin(); row != tokens.end(); row += experts) {
    const std::int64_t sum = std::accumulate(row, row + experts, std::int64_t{0});
    for (auto count = row; count != row + experts; ++count) {
      const std::int64_t difference = sum - experts * *count;
      signs.push_back((difference > 0 ? 1 : 0) - (difference < 0 ? 1 : 0));
    }
  }
  return signs;
}

}  // namespace

Tensor updated_expert_bias(const Tensor& tokens_per_expert, const Tensor& expert_bias, Ratio rate,
                           Communicator& tp_dp_cp) {
  require_inputs({&expert_bias}, "updated_expert_bias");
  require_same_shape(tokens_per_expert, expert_bias, "updated_expert_bias");
  if (tp_dp_cp.size() > 1) tp_dp_cp.all_reduce(tokens_per_expert, ReduceOp::sum, "expert_bias.tokens");
  const std::vector<std::int32_t> signs = signs_of(host_ids(tokens_per_expert), columns_of(expert_bias));
  const Tensor steps =
      cast(device_ids(expert_bias.device(), expert_bias.shape(), signs), expert_bias.dtype());
  return add(expert_bias, scale(steps, rate));
}

}  // namespace sim
