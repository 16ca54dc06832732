#include "sim/experts/routing_map.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <string>
#include <utility>

#include "sim/base/error.h"
#include "sim/experts/host_copies.h"
#include "sim/tensor/checks.h"

namespace sim {

namespace {

[[noreturn]] void refuse_map(std::string numbers, const char* rule, const char* hint) {
  refuse({.code = "routing_map",
          .option = "RoutingMap",
          .numbers = std::move(numbers),
          .rule = rule,
          .hint = hint});
}

void require_size(std::int64_t tokens, std::int64_t experts) {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (tokens >= 0 && experts >= 1 && tokens <= most / experts) return;
  refuse_map(fmt::format("{} tokens and {} experts", tokens, experts),
             "a map has at least one expert and fewer than 2^31 pairs, because ids of pairs are i32",
             "fewer tokens in a microbatch");
}

}  // namespace

RoutingMap::RoutingMap(std::int64_t tokens, std::int64_t experts) : tokens_(tokens), experts_(experts) {
  require_size(tokens, experts);
  chosen_.resize(static_cast<std::size_t>(tokens * experts));
}

RoutingMap::RoutingMap(std::int64_t tokens, std::int64_t experts, std::vector<std::uint8_t> chosen)
    : tokens_(tokens), experts_(experts), chosen_(std::move(chosen)) {
  require_size(tokens, experts);
  const bool are_bits =
      std::all_of(chosen_.begin(), chosen_.end(), [](std::uint8_t byte) { return byte <= 1; });
  if (are_bits && static_cast<std::int64_t>(chosen_.size()) == tokens * experts) return;
  refuse_map(fmt::format("{} bytes for {} tokens and {} experts{}", chosen_.size(), tokens, experts,
                         are_bits ? "" : ", one of them above 1"),
             "a map has one byte for each pair of a token and an expert, which is 0 or 1",
             "the bytes of a map, token by token");
}

RoutingMap RoutingMap::from_tensor(const Tensor& map) {
  require_own(map, "routing_map");
  require_i32(map, "routing_map");
  require_shapes(map.shape().dimensions() == 2, {&map}, "routing_map", "a routing map is [T, E]");
  const std::vector<std::int32_t> ids = host_ids(map);
  std::vector<std::uint8_t> chosen(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    chosen[i] = ids[i] == 0 || ids[i] == 1 ? static_cast<std::uint8_t>(ids[i]) : std::uint8_t{2};
  }
  return {map.shape()[0], map.shape()[1], std::move(chosen)};
}

std::int64_t RoutingMap::rows() const { return std::count(chosen_.begin(), chosen_.end(), 1); }

std::vector<std::int64_t> RoutingMap::tokens_per_expert() const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts_));
  for (std::size_t i = 0; i < chosen_.size(); ++i) counts[i % counts.size()] += chosen_[i];
  return counts;
}

std::vector<std::int64_t> RoutingMap::tokens_of(std::int64_t expert) const {
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < tokens_; ++t) {
    if (at(t, expert)) tokens.push_back(t);
  }
  return tokens;
}

std::vector<std::int64_t> RoutingMap::experts_of(std::int64_t token) const {
  std::vector<std::int64_t> experts;
  for (std::int64_t e = 0; e < experts_; ++e) {
    if (at(token, e)) experts.push_back(e);
  }
  return experts;
}

RoutingMap RoutingMap::experts_from(std::int64_t begin, std::int64_t count) const {
  if (begin < 0 || count < 1 || begin > experts_ - count) {
    refuse_map(fmt::format("experts {} to {} of {}", begin, begin + count - 1, experts_),
               "the experts lie inside the map", "the experts of one rank");
  }
  RoutingMap part(tokens_, count);
  for (std::int64_t t = 0; t < tokens_; ++t) {
    for (std::int64_t e = 0; e < count; ++e) part.set(t, e, at(t, begin + e));
  }
  return part;
}

RoutingMap RoutingMap::operator&(const RoutingMap& other) const {
  if (tokens_ != other.tokens_ || experts_ != other.experts_) {
    refuse_map(fmt::format("[{}, {}] and [{}, {}]", tokens_, experts_, other.tokens_, other.experts_),
               "both maps have the same tokens and experts", "maps of one microbatch");
  }
  RoutingMap both = *this;
  for (std::size_t i = 0; i < chosen_.size(); ++i) both.chosen_[i] &= other.chosen_[i];
  return both;
}

Tensor RoutingMap::tensor(Device& device) const {
  return device_ids(device, {tokens_, experts_}, {chosen_.begin(), chosen_.end()});
}

}  // namespace sim
