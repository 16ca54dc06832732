#include "sim/layout/layout.h"

#include <cstddef>
#include <utility>

#include "sim/base/check.h"
#include "sim/layout/legacy_rules.h"
#include "sim/layout/megatron_rules.h"

namespace sim {

namespace {

/// Calls that one group of the block's first kind brings with it, up to (not including) kind `stop`.
int calls_per_leader(const Layout& layout, const CreationBlock& block, int stop) {
  const int leaders = layout.kinds[static_cast<std::size_t>(block.kinds[0])].count();
  int calls = 0;
  for (const int kind : block.kinds) {
    if (kind == stop) break;
    calls += layout.kinds[static_cast<std::size_t>(kind)].count() / leaders;
  }
  return calls;
}

}  // namespace

const GroupKind* Layout::find(std::string_view name) const {
  for (const GroupKind& kind : kinds) {
    if (kind.name() == name) return &kind;
  }
  return nullptr;
}

int Layout::call_index(int kind, int group) const {
  int calls_before = 0;
  for (const CreationBlock& block : creation) {
    const int leaders = kinds[static_cast<std::size_t>(block.kinds[0])].count();
    const int calls_each = calls_per_leader(*this, block, -1);
    for (const int member : block.kinds) {
      if (member != kind) continue;
      const int each = kinds[static_cast<std::size_t>(kind)].count() / leaders;
      return calls_before + group / each * calls_each + calls_per_leader(*this, block, kind) + group % each;
    }
    calls_before += leaders * calls_each;
  }
  CHECK(false && "kind is in no creation block");
  return -1;
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

const GroupKind& KindList::lead(GroupKind kind) {
  layout_.creation.push_back({});
  follow(std::move(kind));
  return layout_.kinds.back();
}

void KindList::follow(GroupKind kind) {
  layout_.creation.back().kinds.push_back(static_cast<int>(layout_.kinds.size()));
  layout_.kinds.push_back(std::move(kind));
}

}  // namespace sim
