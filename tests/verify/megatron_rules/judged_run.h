#pragma once

/// Judges the arguments of a run as `replay --from` does, before any work.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "tests/support/run.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/requests/scenario.h"
#include "verify/requests/scenario_request.h"

namespace test {

using Codes = std::set<std::string>;

struct JudgedAsScenario {
  Codes refused;  // empty: accepted
  std::optional<verify::ScenarioRequest> request;
};

inline JudgedAsScenario judged(verify::RunArguments arguments, std::int64_t world) {
  JudgedAsScenario judged;
  try {
    arguments.name = "run";
    arguments.world_size = world;
    const verify::RunOfFile run = verify::run_of(std::move(arguments));
    judged.request = verify::scenario_request({"", "run", "", run.settings, run});
  } catch (const sim::Error& error) {
    judged.refused.insert(error.refusal().code);
    for (const sim::Refusal& refusal : sim::further_refusals(error)) judged.refused.insert(refusal.code);
  }
  return judged;
}

}  // namespace test
