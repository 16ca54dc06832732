#include "sim/experts/host_copies.h"

#include <cstddef>
#include <cstring>
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
  const std::vector<std::byte> bytes = host_bytes(ids);
  std::vector<std::int32_t> values(bytes.size() / sizeof(std::int32_t));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace sim
