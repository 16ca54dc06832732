#include "verify/vocabulary/hybrid_pattern.h"

#include <cstddef>

namespace verify {

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

std::int64_t HybridPattern::layers() const {
  std::int64_t count = 0;
  for (const std::string& segment : segments) count += std::ssize(segment);
  return count;
}

HybridPattern parse_hybrid_pattern(const std::string& text) {
  if (text.empty()) return {};
  std::vector<std::string> parts = split(text, '/');
  HybridPattern pattern{.segments = split(parts.front(), '|'), .predictions = {}};
  pattern.predictions.assign(parts.begin() + 1, parts.end());
  return pattern;
}

std::vector<std::vector<std::int64_t>> layers_of_ranks(const HybridPattern& pattern, std::int64_t ranks,
                                                       const GivenEnds& ends) {
  const std::int64_t segments = std::ssize(pattern.segments);
  if (segments == 0 || ranks < 1 || ranks > pattern.layers()) return {};
  std::vector<std::vector<std::int64_t>> layers(static_cast<std::size_t>(ranks));
  if (segments > 1) {
    if (segments % ranks != 0) return {};
    for (std::size_t i = 0; i < pattern.segments.size(); ++i)
      layers[i % layers.size()].push_back(std::ssize(pattern.segments[i]));
    return layers;
  }
  const std::int64_t middle_ranks = ranks - (ends.first ? 1 : 0) - (ends.last ? 1 : 0);
  const std::int64_t middle = pattern.layers() - ends.first.value_or(0) - ends.last.value_or(0);
  if (middle < 0 || middle_ranks < 0 || (middle_ranks == 0 ? middle != 0 : middle % middle_ranks != 0))
    return {};
  for (auto& chunks : layers) chunks = {middle_ranks == 0 ? 0 : middle / middle_ranks};
  if (ends.first) layers.front() = {*ends.first};
  if (ends.last) layers.back() = {*ends.last};
  return layers;
}

}  // namespace verify
