#pragma once

/// The scalars that a tensor can hold, with their sizes and names.
///
/// Shapes  f64 8 bytes, f32 4, bf16 2, field 8 per level (sim/base/field.h), i32 4; i64 8, f16 2, the others
///         1.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/base/bfloat16.h"
#include "sim/base/check.h"
#include "sim/base/field.h"
#include "sim/base/float16.h"

namespace sim {

/// Rank programs compute in the first five. The others are those of programs outside (sim/guest): they are
/// moved and reduced, and no other kernel takes them. f8e4m3 and f8e5m2 are only moved.
enum class DType : std::uint8_t { f64, f32, bf16, field, i32, i64, f16, i8, u8, f8e4m3, f8e5m2 };

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return sizeof(double);
    case DType::i64:
      return sizeof(std::int64_t);
    case DType::i8:
    case DType::u8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return 1;
    case DType::f16:
      return sizeof(float16);
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
  constexpr std::string_view kNames[] = {"f64", "f32", "bf16", "field",  "i32",   "i64",
                                         "f16", "i8",  "u8",   "f8e4m3", "f8e5m2"};
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
  SIM_CHECK(dtype == DType::i32);
  return visit(std::int32_t{});
}

/// Whether values of the dtype can be added.
constexpr bool is_reducible(DType dtype) { return dtype != DType::f8e4m3 && dtype != DType::f8e5m2; }

/// The same for all reducible dtypes, for what programs outside ask for as well.
template <typename Visit>
decltype(auto) with_any_scalar(DType dtype, Visit&& visit) {
  if (dtype == DType::i64) return visit(std::int64_t{});
  if (dtype == DType::f16) return visit(float16{});
  if (dtype == DType::i8) return visit(std::int8_t{});
  if (dtype == DType::u8) return visit(std::uint8_t{});
  return with_scalar(dtype, visit);
}

}  // namespace sim
