#pragma once

/// Tensors in the bytes of a safetensors file: eight bytes of length, a JSON header, the values one after the
/// other.
///
/// Shapes  f64, f32, bf16 and i32 as themselves. An element of the field is four f64, in a last dimension of
///         its own; the metadata names the tensors of which that is so.
/// Errors  safetensors: bytes that are cut short, or whose header does not fit its values; a tensor to be
///         written that does not fit its shape, or whose name is no UTF-8.
/// Exact   little-endian, values as they are, NaN and all; tensors by name, so the same tensors are the same
///         bytes.
/// Source  https://github.com/huggingface/safetensors

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/tensor/dtype.h"

namespace sim {

struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> values;
  bool operator==(const StoredTensor&) const = default;
};

struct Safetensors {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
  bool operator==(const Safetensors&) const = default;
};

/// What a name in such a file has to be.
bool is_utf8(std::string_view name);

std::string encoded(const Safetensors& file);
/// `name` is the file's, for messages.
Safetensors decoded(std::string_view bytes, const std::string& name);

}  // namespace sim
