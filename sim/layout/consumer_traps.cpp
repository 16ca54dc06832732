#include "sim/layout/consumer_traps.h"

#include <cstddef>
#include <fmt/format.h>
#include <optional>
#include <span>

namespace sim {

namespace {

constexpr const char* kInterInstanceGroup = "inter_instance_group";
constexpr const char* kInstanceCoverage = "instance_coverage";
constexpr const char* kDispatcherOrder = "dispatcher_order";

/// Warns about the first inter-edp group whose members differ in their dense shard: they belong to
/// different dp-cp groups, or own different slices of the gradient buffer (their positions in intra-dp-cp
/// differ).
std::optional<Warning> inter_instance_group(const Layout& layout) {
  const GroupKind& replicas = *layout.find("dp-cp");
  const GroupKind& instance = *layout.find("intra-dp-cp");
  std::optional<Warning> warning;
  layout.find("inter-edp")->for_each_group([&](int group, std::span<const int> members) {
    if (warning) return;
    for (const int rank : members) {
      const bool same_model = replicas.place_of(rank)->group == replicas.place_of(members[0])->group;
      const bool same_slice = instance.place_of(rank)->position == instance.place_of(members[0])->position;
      if (same_model && same_slice) continue;
      warning = Warning{
          kInterInstanceGroup,
          fmt::format(
              "order {}: Megatron all-reduces dense gradients across optimizer instances over inter-edp, "
              "but ranks {} and {} of inter-edp group {} {}: silently wrong sums",
              layout.order, members[0], rank, group,
              same_model ? "own different slices of the gradient buffer"
                         : "hold different dense parameters")};
      return;
    }
  });
  return warning;
}

std::optional<Warning> instance_coverage(const Layout& layout) {
  const GroupKind& norm_group = *layout.find("intra-dist-opt");
  std::optional<Warning> warning;
  layout.find("intra-dp-cp")->for_each_group([&](int, std::span<const int> members) {
    if (warning) return;
    for (const int rank : members) {
      if (norm_group.place_of(rank)->group == norm_group.place_of(members[0])->group) continue;
      warning = Warning{
          kInstanceCoverage,
          fmt::format(
              "order {}: ranks {} and {} share an intra-dp-cp group but lie in different intra-dist-opt "
              "groups: the gradient norm of an optimizer instance misses shards",
              layout.order, members[0], rank)};
      return;
    }
  });
  return warning;
}

std::optional<Warning> dispatcher_order(const Layout& layout) {
  if (layout.etp == 1 || layout.ep == 1) return std::nullopt;
  if (layout.expert.stride(Axis::tp) < layout.expert.stride(Axis::ep)) return std::nullopt;
  return Warning{
      kDispatcherOrder,
      fmt::format("order {}: ep (size {}) varies faster than etp (size {}), but the all-to-all token "
                  "dispatcher reads tp-ep groups with etp fastest: tokens reach the wrong experts",
                  layout.order, layout.ep, layout.etp)};
}

}  // namespace

std::vector<Warning> consumer_traps(const Layout& layout) {
  std::vector<Warning> warnings;
  const auto add = [&](std::optional<Warning> warning) {
    if (warning) warnings.push_back(*std::move(warning));
  };
  if (layout.instances > 1) {
    add(inter_instance_group(layout));
    add(instance_coverage(layout));
  }
  add(dispatcher_order(layout));
  return warnings;
}

bool is_consumer_trap(const Warning& warning) {
  return warning.name == kInterInstanceGroup || warning.name == kInstanceCoverage ||
         is_about_all_to_all(warning);
}

bool is_about_all_to_all(const Warning& warning) { return warning.name == kDispatcherOrder; }

}  // namespace sim
