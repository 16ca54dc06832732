#pragma once

/// The scalars that a tensor can hold, with their sizes and names.
///
/// Shapes  f64 8 bytes, f32 4, bf16 2, field 8 per level (sim/base/field.h), i32 4.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/base/bfloat16.h"
#include "sim/base/check.h"
#include "sim/base/field.h"

namespace sim {

/// Rank programs compute in the first five. The last two are those of programs outside (sim/guest): they are
/// moved and reduced, and no other kernel takes them.
enum class DType : std::uint8_t { f64, f32, bf16, field, i32, i64, u8 };

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return sizeof(double);
    case DType::i64:
      return sizeof(std::int64_t);
    case DType::u8:
      return 1;
    case DType::f32:
    case DType::i32:
      return sizeof(float);
    case DType::bf16:
      return sizeof(bfloat16);
    case DType::field:
      return sizeof(Field);
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"f64", "f32", "bf16", "field", "i32", "i64", "u8"};
  return kNames[static_cast<std::size_t>(dtype)];
}

/// Calls visit with a value of the C++ type that represents the dtype, for kernels: visit(double{}),
/// visit(float{}), ...
template <typename Visit>
decltype(auto) with_scalar(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::f64:
      return visit(double{});
    case DType::f32:
      return visit(float{});
    case DType::bf16:
      return visit(bfloat16{});
    case DType::field:
      return visit(Field{});
    default:
      break;
  }
  CHECK(dtype == DType::i32);
  return visit(std::int32_t{});
}

/// The same for all dtypes, for what programs outside ask for as well.
template <typename Visit>
decltype(auto) with_any_scalar(DType dtype, Visit&& visit) {
  if (dtype == DType::i64) return visit(std::int64_t{});
  if (dtype == DType::u8) return visit(std::uint8_t{});
  return with_scalar(dtype, visit);
}

}  // namespace sim
