#include "sim/layout/layout.h"

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
  SIM_CHECK(false && "kind is in no creation block");
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

}  // namespace sim
