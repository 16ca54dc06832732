#pragma once

/// The faults that an exam plants in a case: at every site that the case reaches, every fault that has a
/// meaning there, and in every kernel of the device that the case calls.
///
/// Shapes  A case is run in some drawn settings, in the field. A site is known by its name; its calls may be
///         of several operations and go over groups of several kinds. Faults of calls are planted in all
///         calls of a site, and some of them also at place 1 of each group alone, where the ranks of a group
///         then differ. A factor is the size of the group that the call goes over, 1 over it, or 1 + 2^-10.
///         Another group is one of other ranks, if there is one.
/// Exact   a plan is a function of the case, the seed and the largest world.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/properties/bench.h"

namespace verify {

/// A fault, and the drawn settings in which the case reaches its site.
struct PlannedFault {
  std::string text;
  std::vector<std::size_t> settings;  // places in ExamPlan::settings, those of the least work first
};

struct ExamPlan {
  const Case* the_case;
  std::vector<CaseSetting> settings;
  std::vector<std::uint64_t> hashes;      // of the clean run at each setting
  std::vector<std::int64_t> work;         // of that run: its calls and published tensors
  std::vector<PlannedFault> faults;       // those of a site together
  std::vector<std::string> false_alarms;  // what was said of clean runs; it should be empty
};

/// Runs the case without faults, judges these runs by every property, and plans its faults.
ExamPlan exam_plan(const Case& the_case, std::uint64_t seed, int max_world, Bench& bench);

}  // namespace verify
