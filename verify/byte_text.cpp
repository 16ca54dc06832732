#include "verify/byte_text.h"

#include <fmt/format.h>
#include <iterator>

namespace verify {

std::string byte_text(std::int64_t bytes) {
  constexpr std::int64_t kExact = 10'000;
  if (bytes < kExact) return fmt::format("{} B", bytes);
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes) / 1000;
  const char* const* unit = kUnits;
  for (; value >= 1000 && unit != std::end(kUnits) - 1; ++unit) value /= 1000;
  return fmt::format("{:.2f} {}", value, *unit);
}

}  // namespace verify
