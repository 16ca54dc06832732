#include "sim/experts/routing_map.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>
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

RoutingMap RoutingMap::in_turn(std::int64_t tokens, std::int64_t experts, std::int64_t topk) {
  RoutingMap map(tokens, experts);
  for (std::int64_t choice = 0; choice < tokens * topk; ++choice)
    map.set(choice / topk, choice % experts, true);
  return map;
}

RoutingMap RoutingMap::counted_in_turn(std::int64_t tokens, std::int64_t experts, std::int64_t topk) {
  require_size(tokens, experts);
  std::vector<std::int64_t> counts;
  for (std::int64_t e = 0; e < experts; ++e)
    counts.push_back((tokens * topk + experts - 1 - e) / experts);  // the choices n with n % E = e
  RoutingMap map = counted(tokens, std::move(counts));
  map.experts_in_turn_ = topk;
  return map;
}

RoutingMap RoutingMap::counted(std::int64_t tokens, std::vector<std::int64_t> tokens_per_expert) {
  require_size(tokens, std::ssize(tokens_per_expert));
  RoutingMap map;
  map.tokens_ = tokens;
  map.experts_ = std::ssize(tokens_per_expert);
  map.counts_ = std::move(tokens_per_expert);
  return map;
}

void RoutingMap::refuse_pairs() {
  refuse_map("a counted map, asked for pairs of a token and an expert",
             "a counted map knows how many tokens each expert has, and not which",
             "a device whose floats have elements, or a question that numbers of tokens answer");
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

std::int64_t RoutingMap::rows() const {
  if (is_counted()) return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  return std::count(chosen_.begin(), chosen_.end(), 1);
}

std::vector<std::int64_t> RoutingMap::tokens_per_expert() const {
  if (is_counted()) return counts_;
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
  if (is_counted()) return counted(tokens_, {counts_.begin() + begin, counts_.begin() + begin + count});
  RoutingMap part(tokens_, count);
  for (std::int64_t t = 0; t < tokens_; ++t) {
    for (std::int64_t e = 0; e < count; ++e) part.set(t, e, at(t, begin + e));
  }
  return part;
}

RoutingMap RoutingMap::groups_of(std::int64_t width) const {
  if (width < 1 || experts_ % width != 0) {
    refuse_map(fmt::format("{} experts in groups of {}", experts_, width), "groups divide the experts evenly",
               "the experts of one rank");
  }
  const std::int64_t groups = experts_ / width;
  if (!is_counted()) {
    RoutingMap map(tokens_, groups);
    for (std::size_t pair = 0; pair < chosen_.size(); ++pair) {
      const auto i = static_cast<std::int64_t>(pair);
      if (chosen_[pair] != 0) map.set(i / experts_, i % experts_ / width, true);
    }
    return map;
  }
  if (experts_in_turn_ == 0) refuse_pairs();
  // Tokens repeat each other's choices after a cycle of them.
  const std::int64_t cycle = experts_ / std::gcd(experts_, experts_in_turn_);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(groups));
  for (std::int64_t t = 0; t < std::min(cycle, tokens_); ++t) {
    const std::int64_t first = t * experts_in_turn_ / width;
    const std::int64_t last = (t * experts_in_turn_ + experts_in_turn_ - 1) / width;
    for (std::int64_t group = first; group <= std::min(last, first + groups - 1); ++group)
      counts[static_cast<std::size_t>(group % groups)] += (tokens_ - t + cycle - 1) / cycle;
  }
  return counted(tokens_, std::move(counts));
}

RoutingMap RoutingMap::operator&(const RoutingMap& other) const {
  if (tokens_ != other.tokens_ || experts_ != other.experts_) {
    refuse_map(fmt::format("[{}, {}] and [{}, {}]", tokens_, experts_, other.tokens_, other.experts_),
               "both maps have the same tokens and experts", "maps of one microbatch");
  }
  if (is_counted() || other.is_counted()) refuse_pairs();
  RoutingMap both = *this;
  for (std::size_t i = 0; i < chosen_.size(); ++i) both.chosen_[i] &= other.chosen_[i];
  return both;
}

Tensor RoutingMap::tensor(Device& device) const {
  if (is_counted()) return device.empty(DType::i32, {tokens_, experts_});
  return device_ids(device, {tokens_, experts_}, {chosen_.begin(), chosen_.end()});
}

}  // namespace sim
