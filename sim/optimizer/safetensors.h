#pragma once

/// Encodes and decodes tensors as the bytes of a safetensors file: eight bytes of length, a JSON header, then
/// the values of one tensor after another.
///
/// Shapes  f64, f32, bf16, f16 and i32 are stored as they are. An element of the field is stored as four f64,
///         in an additional last dimension; the metadata names the tensors that are stored so.
/// Errors  safetensors: bytes that are cut short, or whose header does not fit its values; a tensor to be
///         written that does not fit its shape, or whose name is not UTF-8.
/// Exact   Values are little-endian and unchanged, NaNs included. Tensors are sorted by name, so the same
///         tensors give the same bytes.
/// Source  https://github.com/huggingface/safetensors

#include <cstddef>
#include <cstdint>
#include <istream>
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

/// What the header of a file says, without the values.
struct SafetensorsIndex {
  struct Place {
    DType dtype = DType::f32;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, bytes = 0;  // of its values in the file
  };
  std::map<std::string, Place> tensors;
  std::map<std::string, std::string> metadata;
};

/// Whether a text is valid UTF-8, as the names in a safetensors file must be.
bool is_utf8(std::string_view name);

std::string encoded(const Safetensors& file);
/// Decodes a file. Messages name it as `name`.
Safetensors decoded(std::string_view bytes, const std::string& name);
/// Reads the header of a file of this many bytes from a stream at its begin.
SafetensorsIndex safetensors_index(std::istream& file, std::uint64_t size, const std::string& name);

}  // namespace sim
