#pragma once

/// Training samples from a text. A token is one byte, and a document ends with a blank line, with or without
/// carriage returns.
///
/// Shapes  samples of S tokens and S labels; a label is the byte after its token. The vocabulary size is
///         kByteVocabulary.
/// Errors  training_text: fewer than S + 1 bytes; a zero byte, which a text does not contain.
/// Exact   The first byte of a sample is a function of (seed, number) only, so it is the same on any layout.
///         With document masks, the first byte of a document is never a label, so samples differ in the
///         number of tokens that have a loss.
/// Source  Radford et al. 2019 (bytes); Megatron-LM, GPTDataset with --eod-mask-loss.

#include <string>

#include "sim/base/keyed_random.h"
#include "sim/model/batch.h"

namespace sim {

inline constexpr std::int64_t kByteVocabulary = 256;

class TextCorpus {
 public:
  /// Error messages name the text as `name`.
  TextCorpus(const std::string& name, std::string text, std::int64_t seq_length, std::uint64_t seed,
             bool masks_documents = false);

  Sample sample(std::int64_t number) const;

  const std::string& text() const { return text_; }
  std::int64_t seq_length() const { return seq_length_; }
  bool masks_documents() const { return masks_documents_; }
  /// Returns the byte of the text at which a sample begins.
  std::size_t begin_of(std::int64_t number) const;

 private:
  bool begins_document(std::size_t at) const;

  std::string text_;
  std::int64_t seq_length_;
  KeyedRandom random_;
  bool masks_documents_;
};

}  // namespace sim
