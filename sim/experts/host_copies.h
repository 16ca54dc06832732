#pragma once

/// Whole numbers that travel between the host and the device: ids, counts and masks.
///
/// Shapes  any. A tensor of ids is i32.
/// Calls   host_ids waits for the device.
/// Errors  those of checks.h and ops.h.
/// Source  none.

#include <cstdint>
#include <vector>

#include "sim/tensor/tensor.h"

namespace sim {

Tensor device_ids(Device& device, const Shape& shape, const std::vector<std::int32_t>& ids);
std::vector<std::int32_t> host_ids(const Tensor& ids);

}  // namespace sim
