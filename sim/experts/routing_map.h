#pragma once

/// Which tokens go to which experts, on the host. A routing map is decided there (top_choices.h), because the
/// sizes of messages and products depend on it.
///
/// Shapes  [T, E], row-major, one byte for each pair: 1 where token t is routed to expert e. As a tensor the
///         map is i32 [T, E].
/// Calls   none.
/// Errors  routing_map: another number of bytes than T E, a byte that is neither 0 nor 1, experts that the
///         map does not have, or a map of 2^31 pairs or more; those of checks.h.
/// Exact   rows are counted by expert, and inside an expert by token: this is the order in which tokens lie
///         after permute().
/// Source  Megatron-LM, moe_utils.py: routing_map.

#include <cstdint>
#include <vector>

#include "sim/tensor/tensor.h"

namespace sim {

class RoutingMap {
 public:
  RoutingMap() = default;
  /// Makes a map in which no token is routed.
  RoutingMap(std::int64_t tokens, std::int64_t experts);
  RoutingMap(std::int64_t tokens, std::int64_t experts, std::vector<std::uint8_t> chosen);
  /// Copies a map from a tensor of i32, for example one that was gathered from other ranks.
  static RoutingMap from_tensor(const Tensor& map);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t experts() const { return experts_; }
  bool at(std::int64_t token, std::int64_t expert) const { return chosen_[place(token, expert)] != 0; }
  void set(std::int64_t token, std::int64_t expert, bool chosen) {
    chosen_[place(token, expert)] = chosen ? 1 : 0;
  }
  const std::vector<std::uint8_t>& chosen() const { return chosen_; }
  bool operator==(const RoutingMap&) const = default;

  /// Returns the number of pairs that are chosen: the rows that permute() makes.
  std::int64_t rows() const;
  std::vector<std::int64_t> tokens_per_expert() const;
  /// Returns the tokens of one expert, in ascending order.
  std::vector<std::int64_t> tokens_of(std::int64_t expert) const;
  /// Returns the experts of one token, in ascending order.
  std::vector<std::int64_t> experts_of(std::int64_t token) const;
  /// Returns the map of experts begin to begin + count - 1 alone, such as those that live on one rank.
  RoutingMap experts_from(std::int64_t begin, std::int64_t count) const;
  /// Returns the pairs that both maps choose.
  RoutingMap operator&(const RoutingMap& other) const;

  /// Returns the map as i32 [T, E].
  Tensor tensor(Device& device) const;

 private:
  std::size_t place(std::int64_t token, std::int64_t expert) const {
    return static_cast<std::size_t>(token * experts_ + expert);
  }

  std::int64_t tokens_ = 0;
  std::int64_t experts_ = 0;
  std::vector<std::uint8_t> chosen_;
};

}  // namespace sim
