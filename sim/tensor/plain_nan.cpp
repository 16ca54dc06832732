#include "sim/tensor/plain_nan.h"

#include <cstdint>
#include <cstring>

#include "sim/base/vectorised.h"

namespace sim {

namespace {

/// `infinity` and `nan` are the bits of the positive infinity and of the plain NaN. Without its sign, and
/// read as a whole number, a NaN is larger than infinity.
template <typename Bits>
void make_plain(std::span<std::byte> values, Bits infinity, Bits nan) {
  constexpr Bits kWithoutSign = static_cast<Bits>(~Bits{0}) >> 1;
  vectorised([&] {
    for (std::size_t i = 0; i + sizeof(Bits) <= values.size(); i += sizeof(Bits)) {
      Bits bits;
      std::memcpy(&bits, values.data() + i, sizeof bits);
      bits = static_cast<Bits>(bits & kWithoutSign) > infinity ? nan : bits;
      std::memcpy(values.data() + i, &bits, sizeof bits);
    }
  });
}

}  // namespace

void make_nans_plain(DType dtype, std::span<std::byte> values) {
  if (dtype == DType::f64) make_plain<std::uint64_t>(values, 0x7ff0000000000000, 0x7ff8000000000000);
  if (dtype == DType::f32) make_plain<std::uint32_t>(values, 0x7f800000, 0x7fc00000);
  if (dtype == DType::bf16) make_plain<std::uint16_t>(values, 0x7f80, 0x7fc0);
}

}  // namespace sim
