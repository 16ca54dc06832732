#pragma once

/// What a rank program is given: everything that differs from rank to rank is reachable from here. A rank
/// program is ordinary blocking C++, written once, and runs on virtual ranks and on real ones.
///
/// Calls   values leave a device only through publish() and host_bytes(); no clocks, no globals, no iteration
///         over unordered containers. Communication goes through `groups`.

#include <functional>
#include <string>
#include <utility>

#include "sim/base/keyed_random.h"
#include "sim/comm/groups.h"
#include "sim/layout/layout.h"
#include "sim/tensor/ops.h"

namespace sim {

struct Rank {
  int id;  // global
  const Layout& layout;
  Device& device;
  Groups& groups;
  const KeyedRandom& random;
  Recorder& record;

  /// Keeps the values of a tensor for the report: part of the run hash.
  void publish(std::string name, const Tensor& tensor) { record.publish(std::move(name), tensor); }
};

using RankProgram = std::function<void(Rank&)>;

}  // namespace sim
