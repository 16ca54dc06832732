#include "sim/model/text_corpus.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"

namespace sim {

namespace {

[[noreturn]] void refuse_text(const std::string& name, std::string numbers, const char* rule) {
  refuse({.code = "training_text",
          .option = name,
          .numbers = std::move(numbers),
          .rule = rule,
          .hint = "a file of plain text, of a few kilobytes or more"});
}

}  // namespace

TextCorpus::TextCorpus(const std::string& name, std::string text, std::int64_t seq_length, std::uint64_t seed,
                       bool masks_documents)
    : text_(std::move(text)),
      seq_length_(seq_length),
      random_(KeyedRandom(seed).named("text")),
      masks_documents_(masks_documents) {
  if (std::ssize(text_) <= seq_length) {
    refuse_text(name, fmt::format("a text of {} bytes, for sequences of {}", text_.size(), seq_length),
                "a training text has more bytes than one sequence");
  }
  if (const std::size_t at = text_.find('\0'); at != std::string::npos)
    refuse_text(name, fmt::format("byte {} is 0", at), "a training text has no zero bytes");
}

bool TextCorpus::begins_document(std::size_t at) const {
  if (at < 2 || text_[at - 1] != '\n') return false;
  const std::size_t before = at >= 3 && text_[at - 2] == '\r' ? at - 3 : at - 2;
  return text_[before] == '\n';
}

std::size_t TextCorpus::begin_of(std::int64_t number) const {
  const auto begins = static_cast<std::uint32_t>(std::ssize(text_) - seq_length_);
  return random_.below(static_cast<std::uint64_t>(number), begins);
}

Sample TextCorpus::sample(std::int64_t number) const {
  const std::size_t begin = begin_of(number);
  Sample sample;
  for (std::size_t at = begin; at < begin + static_cast<std::size_t>(seq_length_); ++at) {
    const bool is_masked = masks_documents_ && begins_document(at + 1);
    const auto label = static_cast<std::int32_t>(static_cast<unsigned char>(text_[at + 1]));
    sample.tokens.push_back(static_cast<unsigned char>(text_[at]));
    sample.labels.push_back(is_masked ? static_cast<std::int32_t>(kIgnoredLabel) : label);
  }
  return sample;
}

}  // namespace sim
