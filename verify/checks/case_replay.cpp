#include "verify/checks/case_replay.h"

#include <fmt/format.h>

#include "verify/campaign/case_request.h"
#include "verify/cases/case_list.h"
#include "verify/explain/explanation.h"
#include "verify/properties/bench.h"

namespace verify {

CaseReplay replay_case(const CaseOptions& options, const std::vector<Fault>& faults, const CaseList& cases) {
  const OneCase one = requested_case(options, cases);
  Bench bench;
  bench.plant(faults);
  const Judgement judgement = judge_setting(*one.property, bench, *one.the_case, one.setting);
  const std::string what =
      fmt::format("{} {}, {}", one.the_case->name(), one.property->name, text_of(one.setting));
  if (judgement.holds) return {{"case", true, what}};
  const std::string why =
      judgement.threw ? "" : explanation(bench, *one.the_case, *one.property, one.setting);
  return {{"case", false, fmt::format("{}: {}{}{}", what, judgement.detail, why.empty() ? "" : ". ", why)},
          judgement.finding};
}

}  // namespace verify
