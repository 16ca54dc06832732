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
  const CallLog& calls = state.recorder->calls();
  add_facts(finding, calls.empty() ? CallFacts{.rank = state.rank, .state = "had made no call"}
                                   : facts_of(calls.back(), state.rank, "made as its last call"));
  return finding;
}

RankState::RankState(VirtualWorld& owner, int global_rank, int slot_in_world)
    : world(owner),
      rank(global_rank),
      slot(slot_in_world),
      recorder(std::make_shared<Recorder>(
          owner.spec().call_limit,
          [this] { give_up("its program catches call_limit or out_of_memory and continues"); },
          owner.spec().publish_limit, owner.spec().kept_calls)),
      refusal_limit(*recorder, owner.spec().call_limit,
                    [this](const Refusal& latest) { give_up(sentence_of_refusals(latest)); }) {}

void RankState::give_up(std::string sentence) {
  world.give_up(*this, thrown(*this, "rank_will_not_end", std::move(sentence),
                              "a rank program comes to an end", "end the loop that makes this call"));
}

void RankState::fail(Finding finding) {
  threw = std::make_unique<Finding>(std::move(finding));
  status = RankStatus::threw;
}

}  // namespace sim
