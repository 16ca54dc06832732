#include "verify/properties/call_values.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "sim/tensor/device.h"
#include "verify/properties/bench.h"

namespace verify {

namespace {

std::vector<std::byte> bytes_of(const sim::Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  tensor.device().to_host(tensor, bytes);
  return bytes;
}

/// Whether an element is not zero. The zero of floats has two signs.
bool has_a_value(sim::DType dtype, std::span<const std::byte> bytes) {
  constexpr std::byte kSign{0x80};
  const bool has_sign = dtype != sim::DType::field && dtype != sim::DType::i32;
  const auto size = static_cast<std::size_t>(sim::size_of(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool is_last = (i + 1) % size == 0;
    if ((has_sign && is_last ? bytes[i] & ~kSign : bytes[i]) != std::byte{0}) return true;
  }
  return false;
}

/// Whether bf16, which is the upper half of an f32, cannot hold a number.
bool is_wide(double value) {
  constexpr std::uint32_t kLowerHalf = 0xffff;
  const auto single = static_cast<float>(value);
  return static_cast<double>(single) != value || (std::bit_cast<std::uint32_t>(single) & kLowerHalf) != 0;
}

template <typename T>
bool has_wide(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, &bytes[at], sizeof(T));
    if (is_wide(static_cast<double>(value))) return true;
  }
  return false;
}

bool has_wide(sim::DType dtype, std::span<const std::byte> bytes) {
  if (dtype == sim::DType::f32) return has_wide<float>(bytes);
  return dtype == sim::DType::f64 && has_wide<double>(bytes);
}

bool gives_parts(sim::Operation operation) {
  using enum sim::Operation;
  return sim::is_point_to_point(operation) || operation == reduce_scatter || operation == scatter ||
         operation == all_to_all || operation == all_to_all_uneven;
}

void see(const SeenCall& seen, CallValues& values) {
  const bool is_root = seen.place == seen.call.root;
  const sim::Tensor& tensor = seen.is_over ? seen.call.output : seen.call.input;
  const bool is_meant =
      seen.is_over ? gets(seen.call.operation, is_root) : gives(seen.call.operation, is_root);
  if (!is_meant || tensor.is_none() || tensor.count() == 0) return;
  const std::vector<std::byte> bytes = bytes_of(tensor);
  if (seen.is_over) {
    values.gets = true;
    values.gets_a_part = values.gets_a_part || gives_parts(seen.call.operation);
    values.gets_a_value = values.gets_a_value || has_a_value(tensor.dtype(), bytes);
  } else {
    const bool gives_a_value = has_a_value(tensor.dtype(), bytes);
    values.gives_a_value = values.gives_a_value || gives_a_value;
    values.gives_a_number = values.gives_a_number || (gives_a_value && tensor.dtype() != sim::DType::i32);
    values.gives_wide = values.gives_wide || has_wide(tensor.dtype(), bytes);
  }
}

}  // namespace

ValuesBySite call_values(Bench& bench, const Case& the_case, const CaseSetting& setting, WatchedSide side) {
  const std::size_t ranks = bench.run(the_case, setting)->ranks.size();
  std::vector<std::map<std::string, CallValues>> of_ranks(ranks);  // each is used by its rank's thread alone
  bench.run_watched(the_case, setting, side, [&](const SeenCall& seen) {
    see(seen, of_ranks[static_cast<std::size_t>(seen.rank.id)][seen.call.site.name]);
  });
  ValuesBySite all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const auto& [site, values] : of_ranks[rank]) {
      all[site].resize(ranks);
      all[site][rank] = values;
    }
  }
  return all;
}

}  // namespace verify
