#pragma once

/// A training sample cut from a text, without the code of sim/model. A token is a byte, and the label of a
/// token is the byte that follows it. With document masks, a byte that begins a document is no token's label.
///
/// Shapes  S tokens and S labels, from byte `begin` of the text on.
/// Exact   a document begins after a blank line; a line may end with a carriage return and a line feed.
/// Source  Megatron-LM, GPTDataset with --eod-mask-loss, for a text without tokens that end documents.

#include <cstdint>
#include <string_view>
#include <vector>

namespace verify::reference {

struct TextSample {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;  // `ignored` if the token has no loss
};

/// Whether the text before a place ends with a blank line.
inline bool ends_with_blank_line(std::string_view before) {
  return before.ends_with("\n\n") || before.ends_with("\n\r\n");
}

inline TextSample text_sample(std::string_view text, std::size_t begin, std::int64_t sequence,
                              bool masks_documents, std::int64_t ignored) {
  TextSample sample;
  const std::string_view bytes = text.substr(begin, static_cast<std::size_t>(sequence) + 1);
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    sample.tokens.push_back(static_cast<unsigned char>(bytes[i]));
    const bool begins_document = ends_with_blank_line(text.substr(0, begin + i + 1));
    const std::int64_t following = static_cast<unsigned char>(bytes[i + 1]);
    sample.labels.push_back(masks_documents && begins_document ? ignored : following);
  }
  return sample;
}

}  // namespace verify::reference
