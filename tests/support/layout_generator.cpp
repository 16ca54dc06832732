#include "tests/support/layout_generator.h"

#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/layout/layout.h"

namespace sim {

void showValue(const ParallelSizes& sizes, std::ostream& out) {
  out << fmt::format(
      "--world-size {} --tensor-model-parallel-size {} --context-parallel-size {} "
      "--expert-model-parallel-size {} "
      "--pipeline-model-parallel-size {} --num-distributed-optimizer-instances {} --rank-offset {} --order "
      "{}",
      sizes.world_size, sizes.tensor_model_parallel_size, sizes.context_parallel_size,
      sizes.expert_model_parallel_size, sizes.pipeline_model_parallel_size,
      sizes.num_distributed_optimizer_instances, sizes.rank_offset, sizes.order);
  if (sizes.expert_tensor_parallel_size) {
    out << " --expert-tensor-parallel-size " << *sizes.expert_tensor_parallel_size;
  }
  if (sizes.virtual_pipeline_model_parallel_size) {
    out << " --virtual-pipeline-model-parallel-size " << *sizes.virtual_pipeline_model_parallel_size;
  }
  if (!sizes.hierarchical_context_parallel_sizes.empty()) {
    out << fmt::format(" --hierarchical-context-parallel-sizes {}",
                       fmt::join(sizes.hierarchical_context_parallel_sizes, " "));
  }
  if (sizes.pipeline_model_parallel_split_rank) {
    out << " --rules legacy --pipeline-model-parallel-split-rank "
        << *sizes.pipeline_model_parallel_split_rank;
  }
}

}  // namespace sim

namespace test {

namespace {

std::vector<int> divisors(int n) {
  std::vector<int> result;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) result.push_back(d);
  }
  return result;
}

int divisor(int n, int choice) {
  const std::vector<int> all = divisors(n);
  return all[static_cast<std::size_t>(choice) % all.size()];
}

/// Returns permutation `number` of the default order, in lexicographic order.
std::string order_number(int number) {
  std::vector<std::string> axes = {"tp", "cp", "ep", "dp", "pp"};
  std::vector<std::string> order;
  for (int left = 5; left > 0; --left) {
    const auto at = axes.begin() + number % left;
    order.push_back(*at);
    axes.erase(at);
    number /= left;
  }
  return fmt::format("{}", fmt::join(order, "-"));
}

sim::ParallelSizes work_out(const std::array<int, 12>& n) {
  sim::ParallelSizes sizes;
  int room = kLargestWorld;
  const auto take = [&](int wanted) {
    const int size = std::min(wanted + 1, room);
    room /= size;
    return size;
  };
  const int tp = take(n[0]);
  const int pp = take(n[1]);
  const int cp = take(n[2]);
  const int dp = take(n[3]);
  const int stage = tp * cp * dp;
  const int etp = n[4] == 0 && stage % tp == 0 ? tp : divisor(stage, n[4] - 1);
  const int ep = divisor(stage / etp, n[5]);
  sizes.world_size = stage * pp;
  sizes.tensor_model_parallel_size = tp;
  sizes.pipeline_model_parallel_size = pp;
  sizes.context_parallel_size = cp;
  sizes.expert_model_parallel_size = ep;
  if (n[4] != 0) sizes.expert_tensor_parallel_size = etp;
  sizes.num_distributed_optimizer_instances = divisor(std::gcd(dp * cp, stage / (etp * ep)), n[6]);
  if (n[7] != 0) {
    const int inner = divisor(cp, n[7] - 1);
    const int middle = divisor(cp / inner, n[11]);
    sizes.hierarchical_context_parallel_sizes = {inner, middle, cp / inner / middle};
  }
  sizes.order = order_number(n[8]);
  sizes.rank_offset = n[9];
  if (n[10] != 0 && pp > 1) sizes.virtual_pipeline_model_parallel_size = n[10];
  return sizes;
}

}  // namespace

rc::Gen<sim::ParallelSizes> megatron_sizes() {
  using rc::gen::inRange;
  // Most sizes are small, and a few are large.
  const auto size =
      rc::gen::weightedOneOf<int>({{6, inRange(0, 4)}, {3, inRange(0, 12)}, {1, inRange(0, 200)}});
  return rc::gen::map(
      rc::gen::tuple(size, size, size, size, inRange(0, 8), inRange(0, 12), inRange(0, 6), inRange(0, 5),
                     inRange(0, 120), inRange(0, 3), inRange(0, 4), inRange(0, 4)),
      [](const auto& t) {
        return std::apply([](auto... numbers) { return work_out(std::array<int, 12>{numbers...}); }, t);
      });
}

rc::Gen<sim::ParallelSizes> accepted_megatron_sizes() {
  return rc::gen::suchThat(megatron_sizes(), [](const sim::ParallelSizes& sizes) {
    try {
      sim::make_layout(sizes, sim::RuleBook::megatron);
      return true;
    } catch (const sim::Error&) {
      return false;
    }
  });
}

rc::Gen<sim::ParallelSizes> legacy_sizes() {
  using rc::gen::inRange;
  return rc::gen::map(rc::gen::tuple(inRange(1, 20), inRange(1, 20), inRange(1, 12), inRange(-20, 21)),
                      [](const std::tuple<int, int, int, int>& t) {
                        const auto [tp, pp, dp, split] = t;
                        sim::ParallelSizes sizes;
                        sizes.tensor_model_parallel_size = tp;
                        sizes.pipeline_model_parallel_size = pp;
                        sizes.world_size = tp * pp * dp;
                        if (split > 0 && split <= pp) sizes.pipeline_model_parallel_split_rank = split - 1;
                        if (split < 0 && -split <= pp)
                          sizes.pipeline_model_parallel_split_rank = split;  // counts from the end
                        return sizes;
                      });
}

}  // namespace test
