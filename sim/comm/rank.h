#pragma once

/// The argument of a rank program. Everything that differs from rank to rank is reachable from it. A rank
/// program is ordinary blocking C++ code: the same program runs on virtual ranks and on real ones.
///
/// Calls   a program reads values from its device only through publish() and host_bytes(). It uses no clocks,
///         no global variables and no iteration over unordered containers. It communicates through `groups`.

#include <functional>
#include <string>
#include <utility>

#include "sim/base/keyed_random.h"
#include "sim/comm/groups.h"
#include "sim/layout/layout.h"
#include "sim/tensor/ops.h"

namespace sim {

struct Rank {
  int id;  // global rank
  const Layout& layout;
  Device& device;
  Groups& groups;
  const KeyedRandom& random;
  Recorder& record;

  /// Copies the values of a tensor into the report of this rank. They are part of the run hash, and every NaN
  /// among them is the plain one (plain_nan.h).
  void publish(std::string name, const Tensor& tensor) { record.publish(std::move(name), tensor); }
};

using RankProgram = std::function<void(Rank&)>;

}  // namespace sim
