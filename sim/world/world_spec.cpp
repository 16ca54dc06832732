#include "sim/world/world_spec.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include "sim/base/error.h"

namespace sim {

namespace {

std::string schedule_text(const Schedule& schedule) {
  switch (schedule.policy) {
    case SchedulePolicy::round_robin:
      return "round_robin";
    case SchedulePolicy::uniform:
      return fmt::format("uniform, schedule seed {}", schedule.seed);
    case SchedulePolicy::pct:
      return fmt::format("pct of depth {}, schedule seed {}", schedule.depth, schedule.seed);
  }
  return "";
}

std::string order_text(const ReductionOrder& order) {
  switch (order.kind) {
    case ReductionOrderKind::rank_order:
      return "rank_order";
    case ReductionOrderKind::nccl_ring:
      return "nccl_ring";
    case ReductionOrderKind::shuffled:
      return fmt::format("shuffled({})", order.seed);
  }
  return "";
}

void require_field(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  refuse({.code = "world_spec",
          .option = name,
          .numbers = fmt::format("{}", value),
          .rule = fmt::format("it is from {} to {}", least, most),
          .hint = fmt::format("{} {}", name, least)});
}

}  // namespace

WorldSpec world_of(int ranks) { return {.layout = make_layout({.world_size = ranks}, RuleBook::megatron)}; }

std::string text_of(const WorldSpec& spec) {
  return fmt::format("{} ranks{}, seed {}, schedule {}, {} {}, {}, reduction order {}, eager bytes {}",
                     spec.layout.grid_size,
                     spec.ranks.empty() ? "" : fmt::format(" ({} of them run)", spec.ranks.size()), spec.seed,
                     schedule_text(spec.schedule), spec.threads, spec.threads == 1 ? "thread" : "threads",
                     spec.contexts == ContextKind::fiber ? "fibers" : "a thread for each rank",
                     order_text(spec.reduction_order), spec.eager_bytes);
}

void check(const WorldSpec& spec) {
  require_field("--threads", spec.threads, 1, 256);
  if (spec.schedule.policy > SchedulePolicy::pct) {
    refuse({.code = "world_spec",
            .option = "--schedule",
            .numbers = fmt::format("SchedulePolicy({})", static_cast<int>(spec.schedule.policy)),
            .rule = "a policy is one of the named values of SchedulePolicy",
            .hint = "SchedulePolicy::round_robin"});
  }
  const std::int64_t ranks = spec.ranks.empty() ? spec.layout.grid_size : std::ssize(spec.ranks);
  if (spec.contexts == ContextKind::thread && ranks > kMostThreadRanks) {
    refuse({.code = "world_spec",
            .option = "--ranks-as threads",
            .numbers = fmt::format("{} ranks", ranks),
            .rule = fmt::format("at most {} ranks run as threads", kMostThreadRanks),
            .hint = "--ranks-as fibers"});
  }
  require_field("--eager-bytes", spec.eager_bytes, 0, std::int64_t{1} << 40);
  require_field("--stack-bytes", static_cast<std::int64_t>(spec.stack_bytes), 16 << 10, kMaxSize);
  require_field("--pct-depth", spec.schedule.depth, 1, 64);
  require_field("kept calls", spec.kept_calls, 0, std::int64_t{1} << 32);
  require_field("call limit", spec.call_limit, 1, std::int64_t{1} << 32);
  require_field("gpus per node", spec.nodes.gpus_per_node, 1, kMaxSize);
  const bool ascending =
      std::adjacent_find(spec.ranks.begin(), spec.ranks.end(), std::greater_equal<>()) == spec.ranks.end();
  if (!ascending ||
      (!spec.ranks.empty() && (spec.ranks.front() < spec.layout.first_rank ||
                               spec.ranks.back() - spec.layout.first_rank >= spec.layout.grid_size))) {
    refuse({.code = "world_spec",
            .option = "WorldSpec::ranks",
            .numbers =
                fmt::format("a list of {} ranks for a world of {}", spec.ranks.size(), spec.layout.grid_size),
            .rule = "the list has ranks of the world, in ascending order",
            .hint = "an empty list, for all ranks of the world"});
  }
}

}  // namespace sim
