#pragma once

/// Which rank's device this thread computes for at the moment. A rank that uses what belongs to another one
/// would make results depend on the schedule; knowing who runs is how it is found.
///
/// Calls   null outside of rank programs, where any device may be used. A world sets it around each step of a
///         rank.

namespace sim {

class Device;

const Device* running_device();

/// While it lives, this thread computes for a device.
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
