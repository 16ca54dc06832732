#include "sim/world/rank_state.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <tuple>
#include <utility>

#include "sim/comm/process_group.h"
#include "sim/world/virtual_world.h"

namespace sim {

Finding thrown(const RankState& state, std::string code, std::string sentence, std::string rule,
               std::string hint) {
  Finding finding{.code = std::move(code),
                  .sentence = std::move(sentence),
                  .rule = std::move(rule),
                  .hint = std::move(hint)};
  const CallLog& calls = state.recorder->calls();
  add_facts(finding, calls.empty() ? CallFacts{.rank = state.rank, .state = "had made no call"}
                                   : facts_of(calls.back(), state.rank, "made as its last call"));
  return finding;
}

std::vector<Finding> findings_of_thrown(const std::vector<const RankState*>& threw) {
  std::vector<Finding> findings;
  std::vector<std::vector<int>> ranks;  // of each finding
  for (const RankState* state : threw) {
    const Finding& own = *state->threw;
    const auto known = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
      return std::tie(finding.code, finding.sentence, finding.rule, finding.hint) ==
             std::tie(own.code, own.sentence, own.rule, own.hint);
    });
    if (known == findings.end()) {
      findings.push_back(own);
      ranks.push_back({state->rank});
    } else {
      for (const CallFacts& facts : own.calls) add_facts(*known, facts);
      ranks[static_cast<std::size_t>(known - findings.begin())].push_back(state->rank);
    }
  }
  for (std::size_t i = 0; i < findings.size(); ++i)
    findings[i].sentence = fmt::format("{}: {}", text_of_ranks(ranks[i]), findings[i].sentence);
  return findings;
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
