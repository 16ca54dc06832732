#pragma once

/// Rank programs with a planted defect, each the smallest that shows it: what the diagnosis of the virtual
/// world must find, in scenarios (program = NAME) and in tests. They run in any world of two ranks and more;
/// ranks 0 and 1 misbehave.

#include <string>
#include <string_view>
#include <vector>

#include "sim/comm/rank.h"

namespace verify {

struct PlantedProgram {
  const char* name;
  const char* finding;  // the code that must be found first; "" for a program without a defect
  const char* defect;
  void (*run)(sim::Rank&);
};

const std::vector<PlantedProgram>& planted_programs();

/// Null when there is none of this name.
const PlantedProgram* planted_program(std::string_view name);

}  // namespace verify
