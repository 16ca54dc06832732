#include "verify/inspect/inferred_layout.h"

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
KindSizes sizes_by_kind(const Job& job) {
  std::map<std::string, std::set<std::int64_t>> all;
  for (const JobGroup& group : job.groups) {
    if (!group.kind.empty() && group.has_known_members) all[group.kind].insert(std::ssize(group.members));
  }
  KindSizes sizes;
  for (const auto& [kind, found] : all) {
    if (found.size() == 1) sizes[kind] = *found.begin();
  }
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

std::vector<std::int64_t> divisors_of(std::int64_t world) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= world; ++i) {
    if (world % i == 0) divisors.push_back(i);
  }
  return divisors;
}

/// The sizes that an axis may have: that of its kind, or any divisor.
std::vector<std::int64_t> sizes_to_try(const KindSizes& kinds, const char* kind,
                                       const std::vector<std::int64_t>& divisors) {
  const auto found = kinds.find(kind);
  return found == kinds.end() ? divisors : std::vector<std::int64_t>{found->second};
}

/// The sizes of one axis that go with those of two others.
using Fitting = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>>;

/// Returns the sizes of a third axis that agree with each pair of sizes of two.
template <typename Agree>
Fitting fitting(const std::vector<std::int64_t>& firsts, const std::vector<std::int64_t>& seconds,
                const std::vector<std::int64_t>& thirds, const Agree& agree) {
  Fitting found;
  for (const std::int64_t first : firsts) {
    for (const std::int64_t second : seconds) {
      for (const std::int64_t third : thirds)
        if (agree(first, second, third)) found[{first, second}].push_back(third);
    }
  }
  return found;
}

/// Returns sizes that agree with all kinds, the smallest unknown axes first. The dense axes and those of
/// experts have pp in common, and are tried apart: a world may have hundreds of divisors.
std::vector<GridSizes> possible_sizes(const KindSizes& kinds, std::int64_t world) {
  const std::vector<std::int64_t> divisors = divisors_of(world);
  const auto sizes_of = [&](const char* kind) { return sizes_to_try(kinds, kind, divisors); };
  const std::vector<std::int64_t> cps = sizes_of("cp"), eps = sizes_of("ep"), pps = sizes_of("pp");
  // By cp and pp, and by ep and pp.
  const Fitting tps_of = fitting(cps, pps, sizes_of("tp"), [&](auto cp, auto pp, auto tp) {
    return dense_agree(kinds, {.tp = tp, .pp = pp, .cp = cp}, world);
  });
  const Fitting etps_of = fitting(eps, pps, sizes_of("etp"), [&](auto ep, auto pp, auto etp) {
    return experts_agree(kinds, {.pp = pp, .ep = ep, .etp = etp}, world);
  });
  std::vector<GridSizes> found;
  for (const std::int64_t cp : cps) {
    const auto first = tps_of.lower_bound({cp, 0}), last = tps_of.lower_bound({cp + 1, 0});
    for (const std::int64_t ep : eps) {
      for (auto dense = first; dense != last; ++dense) {
        const std::int64_t pp = dense->first.second;
        const auto experts = etps_of.find({ep, pp});
        if (experts == etps_of.end()) continue;
        for (const std::int64_t tp : dense->second) {
          std::vector<std::int64_t> own = experts->second;
          // Without groups of experts, etp is tp; with them, 1 comes first.
          std::stable_partition(own.begin(), own.end(),
                                [&](std::int64_t etp) { return ep == 1 && etp == tp; });
          for (const std::int64_t etp : own) {
            found.push_back({tp, pp, cp, ep, etp});
            if (found.size() == kMostSizes) return found;
          }
        }
      }
    }
  }
  return found;
}

GroupDump dump_of(const Job& job) {
  GroupDump dump;
  dump.form = DumpForm::flight_recorder;
  for (const JobGroup& group : job.groups) {
    if (!group.has_known_members) continue;
    if (group.description == "default_pg") {
      dump.world_size = std::max<std::int64_t>(dump.world_size.value_or(0), std::ssize(group.members));
      continue;
    }
    std::string description = group.description == "undefined" ? "" : group.description;
    dump.groups.push_back({std::move(description), group.members});
  }
  return dump;
}

GroupComparison held_against(const GroupDump& dump, const sim::Layout& layout) {
  std::vector<const sim::GroupKind*> kinds;
  for (const sim::GroupKind& kind : layout.kinds) kinds.push_back(&kind);
  return compare_groups({layout, kinds, true, std::nullopt}, dump);
}

}  // namespace

std::optional<JudgedLayout> inferred_layout(const Job& job) {
  const KindSizes kinds = sizes_by_kind(job);
  if (kinds.empty() || job.world_size < 1) return std::nullopt;
  const std::vector<GridSizes> sizes = possible_sizes(kinds, job.world_size);
  const GroupDump dump = dump_of(job);
  std::optional<JudgedLayout> best;
  const auto is_perfect = [&] { return best && best->comparison.is_equal(); };
  const auto attempt = [&](const GridSizes& asked, const std::string& order) {
    if (is_perfect()) return;
    try {
      sim::Layout layout = sim::make_layout({.world_size = job.world_size,
                                             .tensor_model_parallel_size = asked.tp,
                                             .pipeline_model_parallel_size = asked.pp,
                                             .context_parallel_size = asked.cp,
                                             .expert_model_parallel_size = asked.ep,
                                             .expert_tensor_parallel_size = asked.etp,
                                             .order = order},
                                            sim::RuleBook::megatron);
      GroupComparison comparison = held_against(dump, layout);
      if (best && comparison.differing >= best->comparison.differing) return;
      best.emplace(JudgedLayout{std::move(layout), true, std::move(comparison)});
    } catch (const sim::Error&) {
      // A layout that Megatron refuses is not that of a job.
    }
  };
  for (const GridSizes& one : sizes) {
    for (const char* order : {sim::kDefaultOrder, sim::kTpPpDpOrder}) attempt(one, order);
  }
  if (is_perfect() || sizes.empty() || job.world_size > kMostRanksOfAllOrders) return best;
  std::array<std::string, 5> axes = {"cp", "dp", "ep", "pp", "tp"};
  do {
    attempt(sizes.front(), fmt::format("{}", fmt::join(axes, "-")));
  } while (std::ranges::next_permutation(axes).found);
  return best;
}

JudgedLayout judged_layout(const Job& job, sim::Layout layout) {
  GroupComparison comparison = held_against(dump_of(job), layout);
  return {std::move(layout), false, std::move(comparison)};
}

}  // namespace verify
