#pragma once

/// The device of the rank for which this thread computes at the moment. If a rank used the tensors of
/// another rank, results would depend on the schedule. Knowing which rank runs makes such a use
/// detectable.
///
/// Calls   the device is null outside of rank programs, where any device may be used. A world sets it
///         around each step of a rank.

#include <utility>

namespace sim {

class Device;

/// While an object of this class lives, the thread computes for `device`. Every kernel asks for the device,
/// so that the functions are inline.
class RunningDevice {
 public:
  explicit RunningDevice(const Device* device) : before_(std::exchange(running_, device)) {}
  ~RunningDevice() { running_ = before_; }
  RunningDevice(const RunningDevice&) = delete;
  RunningDevice& operator=(const RunningDevice&) = delete;

  static const Device* current() { return running_; }
  /// The thread computes for another device in the place of the one for which it computes.
  static void hand_over(const Device* device) { running_ = device; }

 private:
  static inline constinit thread_local const Device* running_ = nullptr;
  const Device* before_;
};

inline const Device* running_device() { return RunningDevice::current(); }

}  // namespace sim
