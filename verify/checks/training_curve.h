#pragma once

/// What a training of virtual ranks came to, step by step, beside one device.
///
/// Shapes  losses, reference and bounds have one number a step.

#include <string>
#include <vector>

namespace verify {

struct TrainingCurve {
  std::string world;              // "tp 4, pp 2, dp 2 for 128"
  std::string model;              // "4 layers, hidden 32, ..."
  std::vector<double> losses;     // of the ranks, in f32
  std::vector<double> reference;  // of one device, in double
  std::vector<double> bounds;     // how far rounding may lead
  bool is_equal_in_field = false;
};

}  // namespace verify
