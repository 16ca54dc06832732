#pragma once

/// The size of a vocabulary as Megatron pads it, so that every tensor-parallel rank has as many rows of it.
///
/// Source  Megatron-LM, core/tokenizers/utils/build_tokenizer.py (vocab_size_with_padding).

#include <cstdint>
#include <optional>

namespace verify {

/// The rows of a rank are a multiple of this unless --make-vocab-size-divisible-by is given.
inline constexpr std::int64_t kVocabularyDivisor = 128;

/// Returns the next multiple of divisor * tp; nothing where that is below 1, or too large a number.
inline std::optional<std::int64_t> padded_vocabulary(std::int64_t vocabulary, std::int64_t tp,
                                                     std::int64_t divisor) {
  std::int64_t multiple = 0, padded = 0;
  if (__builtin_mul_overflow(divisor, tp, &multiple) || multiple < 1) return std::nullopt;
  if (__builtin_add_overflow(vocabulary, multiple - 1, &padded)) return std::nullopt;
  return padded / multiple * multiple;
}

}  // namespace verify
