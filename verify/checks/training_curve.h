#pragma once

/// The losses of a training on virtual ranks, step by step, next to those of one device.
///
/// Shapes  losses, reference and bounds have one number per step.

#include <string>
#include <vector>

namespace verify {

struct TrainingCurve {
  std::string world;              // "tp 4, pp 2, dp 2 for 128"
  std::string model;              // "4 layers, hidden 32, ..."
  std::vector<double> losses;     // losses of the ranks, in f32
  std::vector<double> reference;  // losses of one device, in double
  std::vector<double> bounds;     // the largest difference that rounding may cause
  bool is_equal_in_field = false;
};

}  // namespace verify
