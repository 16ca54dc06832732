#include "sim/tensor/running_device.h"

namespace sim {

namespace {

thread_local const Device* running = nullptr;

}  // namespace

const Device* running_device() { return running; }

RunningDevice::RunningDevice(const Device* device) : before_(running) { running = device; }

RunningDevice::~RunningDevice() { running = before_; }

}  // namespace sim
