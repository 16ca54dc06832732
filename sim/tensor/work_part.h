#pragma once

/// A part of the work of a training step: a layer, in the forward or backward pass of a microbatch. A rank's
/// recorder (sim/comm/recorder.h) has the current part. A counting device (counting_device.h) keeps where
/// each part begins, so that a timeline can say what a rank computes.

#include <cstddef>
#include <cstdint>

namespace sim {

struct WorkPart {
  static constexpr int kNone = -1;
  const char* pass = "";      // "forward" or "backward"; "" outside of the passes
  int microbatch = kNone;     // kNone outside of the passes
  int chunk = kNone;          // of the pipeline rank; kNone outside of the passes
  int layer = kNone;          // its number in the model; kNone outside of the transformer layers
  std::int64_t step = kNone;  // the number of the training step, from 0; kNone before the first one
};

/// The place at which a part begins.
struct WorkMark {
  WorkPart part;
  std::int64_t work = 0;  // the work that the device had counted before
  std::size_t calls = 0;  // the calls that the rank had made before
};

}  // namespace sim
