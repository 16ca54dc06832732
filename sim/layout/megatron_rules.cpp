#include "sim/layout/megatron_rules.h"

#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/layout/consumer_traps.h"
#include "sim/layout/kind_table.h"
#include "sim/layout/rank_order.h"
#include "sim/layout/size_rules.h"

namespace sim {

namespace {

/// The sizes of both grids. Divisions round down: dp and edp are meaningful only after the divisibility
/// checks.
struct Derived {
  int world, tp, cp, dp, pp, ep, etp, edp, instances;
};

const char* world_option(const ParallelSizes& sizes) {
  return sizes.local_world_size ? "--local-world-size" : "--world-size";
}

void require_dense_division(const ParallelSizes& sizes) {
  const std::int64_t world = grid_size(sizes);
  const std::int64_t model = capped_product(
      {sizes.tensor_model_parallel_size, sizes.pipeline_model_parallel_size, sizes.context_parallel_size});
  if (world % model == 0) return;
  refuse({.code = "dense_div",
          .option = world_option(sizes),
          .numbers =
              fmt::format("{} ranks, tp * pp * cp = {} * {} * {}", world, sizes.tensor_model_parallel_size,
                          sizes.pipeline_model_parallel_size, sizes.context_parallel_size),
          .rule = "the number of ranks must be a multiple of tp * pp * cp",
          .hint = size_hint(world_option(sizes), (world / model + 1) * model, "smaller parallel sizes")});
}

void require_expert_division(const ParallelSizes& sizes) {
  const std::int64_t world = grid_size(sizes);
  const std::int64_t etp = sizes.expert_tensor_parallel_size.value_or(sizes.tensor_model_parallel_size);
  const std::int64_t model =
      capped_product({etp, sizes.expert_model_parallel_size, sizes.pipeline_model_parallel_size});
  if (world % model == 0) return;
  const std::int64_t pp = sizes.pipeline_model_parallel_size;
  refuse(
      {.code = "expert_div",
       .option = "--expert-model-parallel-size",
       .numbers = fmt::format("{} ranks, etp * ep * pp = {} * {} * {}{}", world, etp,
                              sizes.expert_model_parallel_size, sizes.pipeline_model_parallel_size,
                              sizes.expert_tensor_parallel_size ? "" : " (etp is tp unless given)"),
       .rule = "the number of ranks must be a multiple of etp * ep * pp",
       .hint = world % pp == 0
                   ? fmt::format("sizes with etp * ep dividing {}, the ranks of a pipeline stage", world / pp)
                   : std::string("a --pipeline-model-parallel-size that divides the number of ranks")});
}

void require_split_rank_absent(const ParallelSizes& sizes) {
  if (!sizes.pipeline_model_parallel_split_rank) return;
  refuse(
      {.code = "rules_conflict",
       .option = "--pipeline-model-parallel-split-rank",
       .numbers = fmt::format("given as {} with --rules megatron", *sizes.pipeline_model_parallel_split_rank),
       .rule = "current Megatron has no split rank (removed in 0.14); the legacy rule book has one",
       .hint = "--rules legacy, or leave the option out"});
}

Derived derive(const ParallelSizes& sizes) {
  Derived d{};
  d.world = narrow(grid_size(sizes));
  d.tp = narrow(sizes.tensor_model_parallel_size);
  d.cp = narrow(sizes.context_parallel_size);
  d.pp = narrow(sizes.pipeline_model_parallel_size);
  d.ep = narrow(sizes.expert_model_parallel_size);
  d.etp = narrow(sizes.expert_tensor_parallel_size.value_or(sizes.tensor_model_parallel_size));
  d.dp = d.world / (d.tp * d.cp * d.pp);
  d.edp = narrow(grid_size(sizes) / capped_product({d.etp, d.ep, d.pp}));
  d.instances = narrow(sizes.num_distributed_optimizer_instances);
  return d;
}

void require_pipeline_order(const ParallelSizes& sizes, const Derived& d) {
  // Megatron looks at the raw string here, so TP-CP-EP-DP-PP does not count as ending with pp.
  if (sizes.order.ends_with("pp") || d.pp == 1 || d.edp == d.dp) return;
  refuse({.code = "not_pp_last",
          .option = "--order",
          .numbers = fmt::format("'{}' does not end with pp, pp is {}, dp is {}, edp is {}", sizes.order,
                                 d.pp, d.dp, d.edp),
          .rule = "with pp > 1 the order must end with pp (in lower case) unless dp = edp, that is etp * ep "
                  "= tp * cp",
          .hint = fmt::format("--order {}", kDefaultOrder)});
}

void require_same_pipelines(const ParallelSizes& sizes, const RankGrid& dense, const RankGrid& expert) {
  if (dense.listing({Axis::pp}) == expert.listing({Axis::pp})) return;
  refuse({.code = "pp_mismatch",
          .option = "--order",
          .numbers =
              fmt::format("order '{}': the stride of pp is {} in the dense grid and {} in the expert grid",
                          sizes.order, dense.stride(Axis::pp), expert.stride(Axis::pp)),
          .rule = "dense and expert layers must lie in the same pipelines",
          .hint = fmt::format("--order {}", kDefaultOrder)});
}

void require_instances(const Derived& d, const char* code, const char* what, int size) {
  if (size % d.instances == 0) return;
  refuse({.code = code,
          .option = "--num-distributed-optimizer-instances",
          .numbers = fmt::format("{} instances, {} is {}", d.instances, what, size),
          .rule = "the number of instances must divide dp * cp and edp",
          .hint = "--num-distributed-optimizer-instances 1"});
}

void require_hierarchical_cp(const ParallelSizes& sizes) {
  const auto& levels = sizes.hierarchical_context_parallel_sizes;
  if (levels.empty()) return;
  std::int64_t product = 1;
  for (const std::int64_t size : levels) product = capped_product({product, size});
  if (product == sizes.context_parallel_size) return;
  refuse({.code = "hcp_prod",
          .option = "--hierarchical-context-parallel-sizes",
          .numbers = fmt::format("{}, cp is {}", fmt::join(levels, " * "), sizes.context_parallel_size),
          .rule = "the product of the hierarchical sizes must be cp",
          .hint = fmt::format("--hierarchical-context-parallel-sizes {}", sizes.context_parallel_size)});
}

PerAxis<int> dense_sizes_of(const Derived& d) { return {{d.tp, d.cp, 1, d.dp, d.pp}}; }
PerAxis<int> expert_sizes_of(const Derived& d) { return {{d.etp, 1, d.ep, d.edp, d.pp}}; }

/// Checks the expert grid, and returns whether it and the dense grid can be built. One of the dense sizes is
/// not refused a second time.
bool expert_grid_divides(const ParallelSizes& sizes, bool dense_divides, Refusals& refusals) {
  const bool has_own_sizes = sizes.expert_model_parallel_size > 1 || sizes.expert_tensor_parallel_size;
  if (!dense_divides && !has_own_sizes) return false;
  return refusals.keep([&] { require_expert_division(sizes); }) && dense_divides;
}

/// Checks the sizes by every rule, in the order of Megatron's own checks. A rule about the ranks of a grid is
/// checked only if the sizes divide the grid, and a rule about axes only if the order can be read.
void require_all_rules(const ParallelSizes& sizes) {
  Refusals refusals;
  refusals.keep([&] { require_split_rank_absent(sizes); });
  const bool dense_divides = refusals.keep([&] { require_dense_division(sizes); });
  refusals.keep([&] {
    require_pipeline(sizes.virtual_pipeline_model_parallel_size, sizes.pipeline_model_parallel_size);
  });
  std::vector<Axis> order;
  const bool has_order = refusals.keep([&] { order = parse_order(sizes.order); });
  const Derived d = dense_divides ? derive(sizes) : Derived{};
  const auto has_axes = [&](const PerAxis<int>& grid) {
    return refusals.keep([&] { require_axes_present(sizes.order, order, grid); });
  };
  bool has_grids = dense_divides && has_order && has_axes(dense_sizes_of(d));
  const bool expert_divides = expert_grid_divides(sizes, dense_divides, refusals);
  has_grids = expert_divides && has_order && has_axes(expert_sizes_of(d)) && has_grids;
  if (expert_divides && has_order) {
    has_grids = refusals.keep([&] { require_pipeline_order(sizes, d); }) && has_grids;
  }
  if (has_grids) {
    refusals.keep([&] {
      require_same_pipelines(sizes, RankGrid(completed(order), dense_sizes_of(d), 0),
                             RankGrid(completed(order), expert_sizes_of(d), 0));
    });
  }
  if (dense_divides) refusals.keep([&] { require_instances(d, "ndoi_dense", "dp * cp", d.dp * d.cp); });
  refusals.keep([&] { require_hierarchical_cp(sizes); });
  if (has_order) refusals.keep([&] { require_tp_present(sizes.order, order); });
  if (expert_divides) refusals.keep([&] { require_instances(d, "ndoi_expert", "edp", d.edp); });
  refusals.throw_if_any();
}

/// Unless the sizes say otherwise, the first and the last rank of a pipeline hold an embedding.
KindSizes kind_sizes(const ParallelSizes& sizes, int pp) {
  KindSizes kinds{.position_embedding = {0}};
  for (const std::int64_t rank : sizes.embedding_pipeline_ranks) kinds.embedding.push_back(narrow(rank));
  if (kinds.embedding.empty()) kinds.embedding = pp > 1 ? std::vector{0, pp - 1} : std::vector{0};
  for (const std::int64_t size : sizes.hierarchical_context_parallel_sizes) {
    kinds.hierarchical_context_parallel_sizes.push_back(narrow(size));
  }
  return kinds;
}

}  // namespace

Layout make_megatron_layout(const ParallelSizes& sizes) {
  require_sizes(sizes);
  require_all_rules(sizes);
  const std::vector<Axis> order = parse_order(sizes.order);
  const Derived d = derive(sizes);
  const int first_rank = narrow(sizes.rank_offset);
  RankGrid dense(completed(order), dense_sizes_of(d), first_rank);
  RankGrid expert(completed(order), expert_sizes_of(d), first_rank);
  Layout layout{.rules = RuleBook::megatron,
                .order = sizes.order,
                .world_size = narrow(sizes.world_size),
                .grid_size = d.world,
                .first_rank = first_rank,
                .tp = d.tp,
                .cp = d.cp,
                .dp = d.dp,
                .pp = d.pp,
                .ep = d.ep,
                .etp = d.etp,
                .edp = d.edp,
                .instances = d.instances,
                .embedding_pipeline_ranks = sizes.embedding_pipeline_ranks,
                .dense = std::move(dense),
                .expert = std::move(expert),
                .kinds = {},
                .creation = {},
                .warnings = {}};
  add_kinds(kind_sizes(sizes, d.pp), layout);
  layout.warnings = consumer_traps(layout);
  return layout;
}

}  // namespace sim
