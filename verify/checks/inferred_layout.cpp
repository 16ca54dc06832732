#include "verify/checks/inferred_layout.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <utility>

#include "sim/base/error.h"

namespace verify {

namespace {

constexpr std::size_t kMostSizes = 16;       // of which layouts are built
constexpr int kMostRanksOfAllOrders = 4096;  // of a world for which every order is tried

struct GridSizes {
  std::int64_t tp = 1, pp = 1, cp = 1, ep = 1, etp = 1;
};

using KindSizes = std::map<std::string, std::int64_t>;

/// The number of members of each kind's groups. Kinds whose groups differ in size are left out.
KindSizes sizes_by_kind(const GroupDump& job) {
  KindSizes sizes;
  for (const DumpedGroup& group : job.groups) {
    const std::string kind = kind_of_description(group.description);
    if (kind.empty()) continue;
    std::int64_t& known = sizes.try_emplace(kind, std::ssize(group.ranks)).first->second;
    if (known != std::ssize(group.ranks)) known = -1;
  }
  std::erase_if(sizes, [](const auto& one) { return one.second < 0; });
  return sizes;
}

bool agree(const KindSizes& kinds, const KindSizes& expected) {
  return std::ranges::all_of(expected, [&](const auto& one) {
    const auto found = kinds.find(one.first);
    return found == kinds.end() || found->second == one.second;
  });
}

/// Whether the sizes of all dense kinds follow from these sizes of a world.
bool dense_agree(const KindSizes& kinds, const GridSizes& s, std::int64_t world) {
  if (world % (s.tp * s.pp * s.cp) != 0) return false;
  const std::int64_t dp = world / (s.tp * s.pp * s.cp);
  return agree(kinds, {{"tp", s.tp},
                       {"pp", s.pp},
                       {"cp", s.cp},
                       {"dp", dp},
                       {"dp-cp", dp * s.cp},
                       {"mp", s.tp * s.pp},
                       {"tp-cp", s.tp * s.cp},
                       {"tp-dp", s.tp * dp},
                       {"tp-dp-cp", s.tp * dp * s.cp}});
}

/// The same for the kinds of experts.
bool experts_agree(const KindSizes& kinds, const GridSizes& s, std::int64_t world) {
  if (world % (s.etp * s.ep * s.pp) != 0) return false;
  return agree(kinds, {{"ep", s.ep},
                       {"etp", s.etp},
                       {"edp", world / (s.etp * s.ep * s.pp)},
                       {"tp-ep", s.etp * s.ep},
                       {"tp-ep-pp", s.etp * s.ep * s.pp}});
}

/// The sizes that an axis may have: that of its kind, or any divisor of the world.
std::vector<std::int64_t> sizes_to_try(const KindSizes& kinds, const char* kind, std::int64_t world) {
  if (const auto found = kinds.find(kind); found != kinds.end()) return {found->second};
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= world; ++i)
    if (world % i == 0) divisors.push_back(i);
  return divisors;
}

/// Returns sizes that agree with all kinds, the smallest unknown axes first. The dense axes and those of
/// experts have pp in common, and are tried apart: a world may have hundreds of divisors.
std::vector<GridSizes> possible_sizes(const KindSizes& kinds, std::int64_t world) {
  const auto sizes_of = [&](const char* kind) { return sizes_to_try(kinds, kind, world); };
  const std::vector<std::int64_t> cps = sizes_of("cp"), tps = sizes_of("tp");
  const std::vector<std::int64_t> eps = sizes_of("ep"), etps = sizes_of("etp");
  std::map<std::int64_t, std::vector<GridSizes>> dense, experts;  // by cp, and by ep
  for (const std::int64_t pp : sizes_of("pp")) {
    for (const std::int64_t cp : cps)
      for (const std::int64_t tp : tps)
        if (const GridSizes one{.tp = tp, .pp = pp, .cp = cp}; dense_agree(kinds, one, world))
          dense[cp].push_back(one);
    for (const std::int64_t ep : eps)
      for (const std::int64_t etp : etps)
        if (const GridSizes one{.pp = pp, .ep = ep, .etp = etp}; experts_agree(kinds, one, world))
          experts[ep].push_back(one);
  }
  std::vector<GridSizes> found;
  for (const auto& [cp, of_cp] : dense) {
    for (const auto& [ep, of_ep] : experts) {
      for (const GridSizes& one : of_cp) {
        std::vector<GridSizes> own = of_ep;
        std::erase_if(own, [&](const GridSizes& other) { return other.pp != one.pp; });
        // Without groups of experts, etp is tp; with them, 1 comes first.
        std::ranges::stable_partition(own, [&](const GridSizes& o) { return ep == 1 && o.etp == one.tp; });
        for (const GridSizes& other : own) {
          found.push_back({one.tp, one.pp, cp, ep, other.etp});
          if (found.size() == kMostSizes) return found;
        }
      }
    }
  }
  return found;
}

GroupComparison held_against(const GroupDump& dump, const sim::Layout& layout) {
  std::vector<const sim::GroupKind*> kinds;
  for (const sim::GroupKind& kind : layout.kinds) kinds.push_back(&kind);
  return compare_groups({layout, kinds, true, std::nullopt}, dump);
}

}  // namespace

std::optional<JudgedLayout> inferred_layout(const GroupDump& job, std::int64_t world_size) {
  const KindSizes kinds = sizes_by_kind(job);
  if (kinds.empty() || world_size < 1) return std::nullopt;
  const std::vector<GridSizes> sizes = possible_sizes(kinds, world_size);
  std::optional<JudgedLayout> best;
  const auto is_perfect = [&] { return best && best->comparison.is_equal(); };
  const auto attempt = [&](const GridSizes& asked, const std::string& order) {
    if (is_perfect()) return;
    try {
      sim::Layout layout = sim::make_layout({.world_size = world_size,
                                             .tensor_model_parallel_size = asked.tp,
                                             .pipeline_model_parallel_size = asked.pp,
                                             .context_parallel_size = asked.cp,
                                             .expert_model_parallel_size = asked.ep,
                                             .expert_tensor_parallel_size = asked.etp,
                                             .order = order},
                                            sim::RuleBook::megatron);
      GroupComparison comparison = held_against(job, layout);
      if (best && comparison.differing >= best->comparison.differing) return;
      best.emplace(JudgedLayout{std::move(layout), true, std::move(comparison)});
    } catch (const sim::Error&) {
      // A layout that Megatron refuses is not that of a job.
    }
  };
  for (const GridSizes& one : sizes) {
    for (const char* order : {sim::kDefaultOrder, sim::kTpPpDpOrder}) attempt(one, order);
  }
  if (is_perfect() || sizes.empty() || world_size > kMostRanksOfAllOrders) return best;
  std::array<std::string, 5> axes = {"cp", "dp", "ep", "pp", "tp"};
  do {
    attempt(sizes.front(), fmt::format("{}", fmt::join(axes, "-")));
  } while (std::ranges::next_permutation(axes).found);
  return best;
}

std::string sizes_text(const sim::Layout& layout) {
  return fmt::format("{} ranks, tp {}, cp {}, dp {}, pp {}; experts: etp {}, ep {}, edp {}; order {}",
                     layout.world_size, layout.tp, layout.cp, layout.dp, layout.pp, layout.etp, layout.ep,
                     layout.edp, layout.order);
}

Json judged_layout_json(const JudgedLayout& judged) {
  const sim::Layout& layout = judged.layout;
  return {{"inferred", judged.is_inferred},
          {"world_size", layout.world_size},
          {"order", layout.order},
          {"tp", layout.tp},
          {"cp", layout.cp},
          {"dp", layout.dp},
          {"pp", layout.pp},
          {"ep", layout.ep},
          {"etp", layout.etp},
          {"edp", layout.edp},
          {"groups_judged", judged.comparison.groups},
          {"groups_differing", judged.comparison.differing},
          {"groups_not_judged", judged.comparison.not_judged}};
}

JudgedLayout judged_layout(const GroupDump& job, sim::Layout layout) {
  GroupComparison comparison = held_against(job, layout);
  return {std::move(layout), false, std::move(comparison)};
}

}  // namespace verify
