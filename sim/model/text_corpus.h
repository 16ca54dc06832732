#pragma once

/// Text as training samples: a token is a byte, a document ends where a blank line does, with or without
/// carriage returns.
///
/// Shapes  samples of S tokens, and S labels, each the byte after its token; the vocabulary is
///         kByteVocabulary.
/// Errors  training_text: fewer than S + 1 bytes; a byte 0, which text has none of.
/// Exact   where a sample begins is a function of (seed, number) alone: the same on any layout. With document
///         masks the first byte of a document is nobody's label: samples have unequal numbers of tokens with
///         a loss.
/// Source  Radford et al. 2019 (bytes); Megatron-LM, GPTDataset with --eod-mask-loss.

#include <string>

#include "sim/base/keyed_random.h"
#include "sim/model/batch.h"

namespace sim {

inline constexpr std::int64_t kByteVocabulary = 256;

class TextCorpus {
 public:
  /// `name` is the text's, for messages.
  TextCorpus(const std::string& name, std::string text, std::int64_t seq_length, std::uint64_t seed,
             bool masks_documents = false);

  Sample sample(std::int64_t number) const;

 private:
  bool begins_document(std::size_t at) const;

  std::string text_;
  std::int64_t seq_length_;
  KeyedRandom random_;
  bool masks_documents_;
};

}  // namespace sim
