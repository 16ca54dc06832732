#include "sim/experts/host_copies.h"

#include <span>

#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace sim {

Tensor device_ids(Device& device, const Shape& shape, const std::vector<std::int32_t>& ids) {
  return from_host(device, DType::i32, shape, std::as_bytes(std::span(ids)));
}

std::vector<std::int32_t> host_ids(const Tensor& ids) {
  require_own(ids, "host_ids");
  require_i32(ids, "host_ids");
  require_read(ids, "host_ids");
  std::vector<std::int32_t> values(static_cast<std::size_t>(ids.count()));
  ids.device().to_host(ids, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace sim
