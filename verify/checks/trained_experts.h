#pragma once

/// The experts of the GPT that replay trains for a scenario: the scenario's own router, dispatcher and grid,
/// in reduced sizes.
///
/// Shapes  ep and etp are the largest divisors of the trained ranks of a stage that do not exceed the
///         scenario's own. A rank has one or two experts of each layer, also where the scenario has ep above
///         1 and does not say how many experts there are. A token goes to at most half of all experts. Groups
///         of experts are the most that divide the reduced number, up to the scenario's own.
///         Where the scenario has layers without experts, every second layer has none. A capacity factor is
///         at most the one with which a reduced expert may keep all tokens of a rank.

#include <string>
#include <vector>

#include "verify/cases/case_setting.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// Whether the trained model has experts: those of the scenario, or those of its expert grid.
bool trains_experts(const ScenarioRequest& request);

/// Adds the dimensions of the experts to the setting of a training. A model without experts adds none.
void add_experts(const ScenarioRequest& request, CaseSetting& setting);

/// The case (gpt_, moe_ or cp_training) that this training is an instance of.
const char* case_of_training(const CaseSetting& setting);

/// Returns the sizes of the expert grid and the experts, such as "ep 8 for 64, 16 experts for 256".
std::string text_of_experts(const ScenarioRequest& request, const CaseSetting& setting);

/// Names what the scenario's model has and the trained one does not.
std::vector<std::string> left_out_of_training(const ScenarioRequest& request, const CaseSetting& setting);

}  // namespace verify
