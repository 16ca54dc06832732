#include "sim/world/rank_state.h"

#include <fmt/format.h>
#include <utility>

#include "sim/world/virtual_world.h"

namespace sim {

Finding thrown(const RankState& state, std::string code, std::string sentence, std::string rule,
               std::string hint) {
  Finding finding{.code = std::move(code),
                  .sentence = fmt::format("rank {}: {}", state.rank, sentence),
                  .rule = std::move(rule),
                  .hint = std::move(hint)};
  const std::vector<CallRecord>& calls = state.recorder->calls();
  add_facts(finding, calls.empty() ? CallFacts{.rank = state.rank, .state = "had made no call"}
                                   : facts_of(calls.back(), state.rank, "made as its last call"));
  return finding;
}

RankState::RankState(VirtualWorld& owner, int global_rank) : world(owner), rank(global_rank) {
  const auto give_up = [this] {
    world.give_up(*this,
                  thrown(*this, "rank_will_not_end", "it catches call_limit or out_of_memory and goes on",
                         "a rank program comes to an end", "the loop that makes this call"));
  };
  recorder = std::make_shared<Recorder>(owner.spec().call_limit, give_up, owner.spec().publish_limit);
}

void RankState::fail(Finding finding) {
  threw = std::make_unique<Finding>(std::move(finding));
  status = RankStatus::threw;
}

}  // namespace sim
