#include "verify/vocabulary/hybrid_pattern.h"

#include <boost/algorithm/string.hpp>
#include <cstddef>

namespace verify {

std::int64_t HybridPattern::layers() const {
  std::int64_t count = 0;
  for (const std::string& segment : segments) count += std::ssize(segment);
  return count;
}

HybridPattern parse_hybrid_pattern(const std::string& text) {
  if (text.empty()) return {};
  HybridPattern pattern;
  boost::split(pattern.predictions, text, boost::is_any_of("/"));
  boost::split(pattern.segments, pattern.predictions.front(), boost::is_any_of("|"));
  pattern.predictions.erase(pattern.predictions.begin());
  return pattern;
}

namespace {

using LayersOfRanks = std::vector<std::vector<std::int64_t>>;

/// Deals segments out to the ranks in turn.
LayersOfRanks dealt_segments(const std::vector<std::string>& segments, std::size_t ranks) {
  if (segments.size() % ranks != 0) return {};
  LayersOfRanks layers(ranks);
  for (std::size_t i = 0; i < segments.size(); ++i) layers[i % ranks].push_back(std::ssize(segments[i]));
  return layers;
}

/// Cuts layers evenly, except for those of the ends that are given.
LayersOfRanks cut_evenly(std::int64_t layers, std::int64_t ranks, const GivenEnds& ends) {
  const std::int64_t middle_ranks = ranks - (ends.first ? 1 : 0) - (ends.last ? 1 : 0);
  const std::int64_t middle = layers - ends.first.value_or(0) - ends.last.value_or(0);
  if (middle < 0 || middle_ranks < 0 || (middle_ranks == 0 ? middle != 0 : middle % middle_ranks != 0))
    return {};
  LayersOfRanks cut(static_cast<std::size_t>(ranks), {middle_ranks == 0 ? 0 : middle / middle_ranks});
  if (ends.first) cut.front() = {*ends.first};
  if (ends.last) cut.back() = {*ends.last};
  return cut;
}

}  // namespace

std::vector<std::vector<std::int64_t>> layers_of_ranks(const HybridPattern& pattern, std::int64_t ranks,
                                                       const GivenEnds& ends) {
  if (pattern.segments.empty() || ranks < 1 || ranks > pattern.layers()) return {};
  return pattern.segments.size() > 1 ? dealt_segments(pattern.segments, static_cast<std::size_t>(ranks))
                                     : cut_evenly(pattern.layers(), ranks, ends);
}

}  // namespace verify
