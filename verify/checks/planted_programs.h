#pragma once

/// Rank programs with a planted defect, which the diagnosis of the virtual world must find, in scenarios
/// (program = NAME) and in tests. Each is the smallest program that shows its defect. They run in any
/// world of at least two ranks, and ranks 0 and 1 misbehave.

#include <string>
#include <string_view>
#include <vector>

#include "sim/comm/rank.h"

namespace verify {

struct PlantedProgram {
  const char* name;
  const char* finding;  // the code of the first finding; "" for a program without a defect
  const char* defect;
  void (*run)(sim::Rank&);
};

const std::vector<PlantedProgram>& planted_programs();

/// Returns the program of this name, or null when there is none.
const PlantedProgram* planted_program(std::string_view name);

}  // namespace verify
