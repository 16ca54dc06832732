#include "sim/layout/layout.h"

#include <algorithm>
#include <cstddef>

#include "sim/base/check.h"
#include "sim/layout/legacy_rules.h"
#include "sim/layout/megatron_rules.h"

namespace sim {

namespace {

int groups_per_leader(const Layout& layout, const CreationBlock& block, int kind) {
  const int leaders = layout.kinds[static_cast<std::size_t>(block.kinds[0])].count();
  return layout.kinds[static_cast<std::size_t>(kind)].count() / leaders;
}

}  // namespace

const GroupKind* Layout::find(std::string_view name) const {
  for (const GroupKind& kind : kinds) {
    if (kind.name() == name) return &kind;
  }
  return nullptr;
}

CallSequence Layout::calls_of(int kind) const {
  int calls_before = 0;
  for (const CreationBlock& block : creation) {
    CallSequence calls{.first = -1, .each = groups_per_leader(*this, block, kind), .period = 0};
    for (const int member : block.kinds) {
      if (member == kind) calls.first = calls_before + calls.period;
      calls.period += groups_per_leader(*this, block, member);
    }
    if (calls.first >= 0) return calls;
    calls_before += kinds[static_cast<std::size_t>(block.kinds[0])].count() * calls.period;
  }
  CHECK(false && "kind is in no creation block");
  return {};
}

int Layout::call_count() const {
  int calls = 0;
  for (const GroupKind& kind : kinds) calls += kind.count();
  return calls;
}

Layout make_layout(const ParallelSizes& sizes, RuleBook rules) {
  return rules == RuleBook::legacy ? make_legacy_layout(sizes) : make_megatron_layout(sizes);
}

std::vector<std::string> all_kind_names() {
  return {"dp-cp", "intra-dp-cp", "dp",       "cp",       "hcp-L*",    "mp",        "tp",
          "pp",    "embd",        "pos_embd", "tp-dp-cp", "tp-dp",     "tp-cp",     "ep",
          "etp",   "tp-ep",       "tp-ep-pp", "edp",      "intra-edp", "inter-edp", "intra-dist-opt"};
}

bool is_kind_name(const std::string& name) {
  constexpr std::string_view kLevel = "hcp-L";
  if (name.starts_with(kLevel)) {
    return name.size() > kLevel.size() &&
           name.find_first_not_of("0123456789", kLevel.size()) == std::string::npos;
  }
  const std::vector<std::string> names = all_kind_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

GroupKind token_kind(const RankGrid& grid, const char* name, const std::vector<Axis>& axes) {
  return GroupKind(name, grid.listing(axes), grid.group_size(axes));
}

void KindList::lead(const GroupKind& kind) {
  layout_.creation.push_back({});
  follow(kind);
}

void KindList::follow(const GroupKind& kind) {
  layout_.creation.back().kinds.push_back(static_cast<int>(layout_.kinds.size()));
  layout_.kinds.push_back(kind);
}

}  // namespace sim
