#include "verify/cases/scalars.h"

namespace verify {

std::vector<sim::Field> fields_of(std::span<const std::byte> bytes) {
  std::vector<sim::Field> values(bytes.size() / sizeof(sim::Field));
  if (!bytes.empty()) std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
  return values;
}

}  // namespace verify
