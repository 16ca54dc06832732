#include "verify/checks/group_comparison.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <utility>

#include "sim/layout/kind_table.h"
#include "verify/output/phrases.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

using What = GroupDifference::What;

/// Whether a layout could have the kind of this description. Layouts do not have those of the weight shards
/// of GTP, of hybrid context parallelism, and of gathers in groups of their own. A group without a
/// description, which PyTorch's recorder of Gloo has, could be any.
bool is_modelled(const std::string& description) {
  return !description.empty() && description.find("GTP") == std::string::npos &&
         !description.starts_with("HYBRID_DP_CP_GROUP_") && !description.ends_with("_AG");
}

std::string kind_of(const std::string& description) {
  return sim::find_kind(description) != nullptr ? description : kind_of_description(description);
}

std::vector<int> sorted(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  return ranks;
}

/// Returns the elements of the first list that are not in the second; both are ascending.
std::vector<int> without(const std::vector<int>& ranks, const std::vector<int>& others) {
  std::vector<int> rest;
  std::set_difference(ranks.begin(), ranks.end(), others.begin(), others.end(), std::back_inserter(rest));
  return rest;
}

std::string ranks_phrase(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  std::string list = ranks_text(ranks);
  return "ranks " + list.substr(1, list.size() - 2);
}

class Comparison {
 public:
  Comparison(const ComparedGroups& ours, const GroupDump& dump) : ours_(ours), dump_(dump) {}

  GroupComparison result() {
    compare_worlds();
    for (const sim::GroupKind* kind : ours_.kinds) row_of(kind->name(), described(*kind));
    for (const DumpedGroup& group : dump_.groups) judge(group);
    for (Row& row : rows_) find_missing(row);
    for (Row& row : rows_) {
      result_.differing += row.counts.foreign + row.counts.other_order;
      if (!dump_.is_partial()) result_.differing += row.counts.missing;
      result_.kinds.push_back(std::move(row.counts));
    }
    std::ranges::stable_sort(result_.differences,
                             [&](const auto& a, const auto& b) { return place(a) < place(b); });
    return std::move(result_);
  }

 private:
  struct Row {
    const sim::GroupKind* kind = nullptr;  // null where the layout has no such kind
    KindComparison counts;
    std::vector<bool> seen;  // by the index of our group
  };

  static std::string described(const sim::GroupKind& kind) {
    return sim::find_kind(kind.name())->description_of(kind.name());
  }

  std::size_t place(const GroupDifference& difference) const {
    return row_numbers_.at(difference.description);
  }

  /// The row of a description. A document of this program has kinds in the place of descriptions.
  Row& row_of(const std::string& kind, const std::string& description) {
    const auto [found, is_new] = row_numbers_.try_emplace(description, rows_.size());
    if (!is_new) return rows_[found->second];
    Row row{
        .kind = ours_.layout.find(kind), .counts = {.kind = kind, .description = description}, .seen = {}};
    if (row.kind == nullptr) {
      row.counts.kind.clear();
    } else {
      row.seen.resize(static_cast<std::size_t>(row.kind->count()));
      row.counts.groups = row.kind->count();
      if (ours_.rank) row.counts.groups = row.kind->place_of(*ours_.rank) ? 1 : 0;
    }
    rows_.push_back(std::move(row));
    return rows_.back();
  }

  void compare_worlds() {
    const std::int64_t world = ours_.layout.world_size;
    if (dump_.world_size) {
      if (*dump_.world_size == world) return;
      result_.world = fmt::format("the dump is of {}, and the layout has {}",
                                  counted(*dump_.world_size, "rank"), counted(world, "rank"));
      return;
    }
    int largest = 0;
    for (const DumpedGroup& group : dump_.groups)
      largest = std::max(largest, *std::ranges::max_element(group.ranks));
    if (largest >= world)
      result_.world =
          fmt::format("the dump names rank {}, and the layout has {}", largest, counted(world, "rank"));
  }

  bool is_chosen(const std::string& kind) const {
    return ours_.are_all_kinds ||
           std::ranges::any_of(ours_.kinds, [&](const auto* one) { return one->name() == kind; });
  }

  void judge(const DumpedGroup& group) {
    const std::string kind = kind_of(group.description);
    if (!is_chosen(kind)) return;
    if (ours_.rank && std::ranges::find(group.ranks, *ours_.rank) == group.ranks.end()) return;
    if (kind.empty() && !is_modelled(group.description)) {
      ++result_.not_judged;
      return;
    }
    ++result_.groups;
    const bool is_kind = kind == group.description && ours_.layout.find(kind) != nullptr;
    Row& row = row_of(kind, is_kind ? described(*ours_.layout.find(kind)) : group.description);
    if (row.kind == nullptr) {
      // A dump may have a million unknown descriptions, and to find the nearest name takes time.
      return add_foreign(row, group, is_full() ? "" : without_kind(kind, group.description));
    }
    const auto place = row.kind->place_of(group.ranks.front());
    if (!place) return add_foreign(row, group, of_others(row, group));
    const std::vector<int> members = row.kind->members(place->group);
    const bool is_other = is_other_embd(row, group.ranks);
    if (!is_other && sorted(members) != sorted(group.ranks))
      return add_foreign(row, group, of_others(row, group));
    const auto seen = row.seen.begin() + place->group;
    if (*seen) return add_foreign(row, group, "the dump has a group of these ranks already");
    *seen = true;
    if (is_other)
      ++row.counts.equal;
    else
      judge_order(row, group.ranks, members);
  }

  /// Whether a group has the first rank of a pipeline, or its first and last, and is embd of a model that is
  /// not known to sum anything over it.
  bool is_other_embd(const Row& row, const std::vector<int>& ranks) const {
    const std::vector<std::int64_t>& known = ours_.layout.embedding_pipeline_ranks;
    if (row.kind->name() != "embd" || known.size() > 1) return false;
    const sim::GroupKind& pipelines = *ours_.layout.find("pp");
    const auto place = pipelines.place_of(ranks.front());
    if (!place || ranks.front() != pipelines.member(place->group, 0)) return false;
    return ranks.size() == 1 ||
           (ranks.size() == 2 && ranks.back() == pipelines.member(place->group, pipelines.size() - 1));
  }

  void judge_order(Row& row, const std::vector<int>& ranks, const std::vector<int>& members) {
    const bool may_be_ascending = dump_.form != DumpForm::shardproof;
    if (ranks == members || (may_be_ascending && std::ranges::is_sorted(ranks))) {
      ++row.counts.equal;
      return;
    }
    ++row.counts.other_order;
    add(row, What::other_order, ranks, "our order is " + ranks_text(members));
  }

  std::string without_kind(const std::string& kind, const std::string& description) const {
    if (!kind.empty()) {
      const std::string_view same_as = sim::find_kind(kind)->same_as;
      return fmt::format("the layout has no {} groups{}", kind,
                         same_as.empty() ? "" : fmt::format("; they would be those of {}", same_as));
    }
    std::vector<std::string> known;
    for (const sim::GroupKind& one : ours_.layout.kinds)
      known.push_back(dump_.form == DumpForm::shardproof ? one.name() : described(one));
    const std::string nearest = nearest_name(description, known);
    return "no kind has this description" + (nearest.empty() ? "" : "; the nearest is " + nearest);
  }

  /// Says how a group differs from those of ours whose ranks it has.
  std::string of_others(const Row& row, const DumpedGroup& group) const {
    const std::vector<int> ranks = sorted(group.ranks);
    std::map<int, int> shared;  // ranks that each of our groups shares with this one
    std::vector<int> in_none;
    for (const int rank : ranks) {
      const auto place = row.kind->place_of(rank);
      place ? static_cast<void>(++shared[place->group]) : in_none.push_back(rank);
    }
    return how_shared(*row.kind, ranks, shared, in_none) + of_another_kind(row, ranks);
  }

  static std::string how_shared(const sim::GroupKind& kind, const std::vector<int>& ranks,
                                const std::map<int, int>& shared, const std::vector<int>& in_none) {
    if (shared.empty())
      return ranks_phrase(in_none) + (in_none.size() == 1 ? " is" : " are") + " in no group of ours";
    const bool has_whole =
        std::ranges::all_of(shared, [&](const auto& one) { return one.second == kind.size(); });
    if (has_whole && in_none.empty()) {
      std::vector<std::string> joined;
      for (const auto& [index, count] : shared) {
        if (joined.size() == 4) {
          joined.emplace_back(fmt::format("{} more", shared.size() - joined.size()));
          break;
        }
        joined.push_back(ranks_text(kind.members(index)));
      }
      return fmt::format("it joins {} of our groups: {}", shared.size(), fmt::join(joined, " and "));
    }
    const auto nearest =
        std::ranges::max_element(shared, [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::vector<int> ours = kind.members(nearest->first);
    const std::vector<int> foreign = without(ranks, sorted(ours));
    const std::vector<int> lacking = without(sorted(ours), ranks);
    std::string text = "ours is " + ranks_text(ours) + ":";
    if (!foreign.empty()) text += " " + ranks_phrase(foreign) + " is foreign";
    if (!foreign.empty() && !lacking.empty()) text += ",";
    if (!lacking.empty()) text += " " + ranks_phrase(lacking) + " is missing";
    if (foreign.size() > 1) text.replace(text.find(" is foreign"), 11, " are foreign");
    if (lacking.size() > 1) text.replace(text.rfind(" is missing"), 11, " are missing");
    return text;
  }

  /// Names a kind that has a group of these ranks: the description may be another one's.
  std::string of_another_kind(const Row& row, const std::vector<int>& ranks) const {
    for (const sim::GroupKind& kind : ours_.layout.kinds) {
      const auto place = &kind == row.kind ? std::nullopt : kind.place_of(ranks.front());
      if (place && kind.size() == std::ssize(ranks) && sorted(kind.members(place->group)) == ranks)
        return fmt::format("; these are the ranks of a group of {}", kind.name());
    }
    return "";
  }

  void find_missing(Row& row) {
    if (row.kind == nullptr) return;
    const auto look_at = [&](int group) {
      if (row.seen[static_cast<std::size_t>(group)]) return;
      ++row.counts.missing;
      if (!dump_.is_partial()) add(row, What::missing, row.kind->members(group), "");
    };
    if (ours_.rank) {
      if (const auto place = row.kind->place_of(*ours_.rank)) look_at(place->group);
      return;
    }
    for (int group = 0; group < row.kind->count(); ++group) look_at(group);
  }

  bool is_full() const { return result_.differences.size() == kMostDifferences; }

  void add_foreign(Row& row, const DumpedGroup& group, const std::string& explanation) {
    ++row.counts.foreign;
    add(row, What::foreign, group.ranks, explanation);
  }

  void add(const Row& row, What what, std::vector<int> ranks, std::string explanation) {
    if (is_full()) return;
    result_.differences.push_back({.what = what,
                                   .kind = row.counts.kind,
                                   .description = row.counts.description,
                                   .ranks = std::move(ranks),
                                   .explanation = std::move(explanation)});
  }

  const ComparedGroups& ours_;
  const GroupDump& dump_;
  std::vector<Row> rows_;
  std::map<std::string, std::size_t> row_numbers_;  // by description
  GroupComparison result_;
};

}  // namespace

const char* difference_name(GroupDifference::What what) {
  switch (what) {
    case What::missing:
      return "missing";
    case What::foreign:
      return "foreign";
    case What::other_order:
      return "other_order";
  }
  return "";
}

std::string kind_of_description(std::string description) {
  // "DATA_PARALLEL_GROUP_GLOO" and "..._GROUP_GLOO_L0"; and a group that has more members only where ranks
  // share the parameters of an expert.
  for (const std::string_view more : {"_GLOO", "_WITH_EGTP"}) {
    const std::size_t at = description.find(more);
    if (at != std::string::npos) description.erase(at, more.size());
  }
  return sim::kind_described_as(description);
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  if (ranks.size() <= kShown + 1) return fmt::format("[{}]", fmt::join(ranks, ","));
  return fmt::format("[{},..,{}]", fmt::join(ranks.begin(), ranks.begin() + kShown, ","), ranks.back());
}

GroupComparison compare_groups(const ComparedGroups& ours, const GroupDump& dump) {
  return Comparison(ours, dump).result();
}

}  // namespace verify
