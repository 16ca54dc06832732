#pragma once

/// The result of one check of replay, which is one row of its table.

#include <string>
#include <vector>

namespace verify {

struct CheckResult {
  std::string check;
  bool holds = false;
  std::string detail;          // what was counted, or the first counterexample
  std::string reproduce = {};  // the options of replay that show the counterexample alone; "" if it has none
};

/// The losses of a training on virtual ranks next to those of one device. Each list has one number per step.
struct TrainingCurve {
  std::string world;              // "tp 4, pp 2, dp 2 for 128"
  std::string model;              // "4 layers, hidden 32, ..."
  std::vector<double> losses;     // losses of the ranks, in f32
  std::vector<double> reference;  // losses of one device, in double
  std::vector<double> bounds;     // the largest difference that rounding may cause
  bool is_equal_in_field = false;
  std::vector<std::string> reduced = {};   // what the model has less of than the scenario's: "layers 32 to 4"
  std::vector<std::string> left_out = {};  // what the scenario's model has and this one does not
};

}  // namespace verify
