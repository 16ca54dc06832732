#pragma once

/// The device of the rank for which this thread computes at the moment. If a rank used the tensors of
/// another rank, results would depend on the schedule. Knowing which rank runs makes such a use
/// detectable.
///
/// Calls   the device is null outside of rank programs, where any device may be used. A world sets it
///         around each step of a rank.

namespace sim {

class Device;

const Device* running_device();

/// While this object lives, the thread computes for `device`.
class RunningDevice {
 public:
  explicit RunningDevice(const Device* device);
  ~RunningDevice();
  RunningDevice(const RunningDevice&) = delete;
  RunningDevice& operator=(const RunningDevice&) = delete;

 private:
  const Device* before_;
};

}  // namespace sim
