#pragma once

/// Which tokens go to which experts, on the host. A routing map is decided there (top_choices.h), because the
/// sizes of messages and products depend on it.
///
/// Shapes  [T, E], row-major, one byte for each pair: 1 where token t is routed to expert e. As a tensor the
///         map is i32 [T, E].
///         A counted map has no pairs: it knows how many tokens each expert has, and not which. It stands
///         where floats have no elements, as a map of a real batch has a million pairs. Its tensor has no
///         elements, either.
/// Calls   none.
/// Errors  routing_map: another number of bytes than T E, a byte that is neither 0 nor 1, experts that the
///         map does not have, a map of 2^31 pairs or more, or a question that a counted map cannot answer;
///         those of checks.h.
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
  /// Makes a map in which tokens choose experts in turn: token t the experts t k, t k + 1, ..., t k + k - 1,
  /// modulo E, where k is topk.
  static RoutingMap in_turn(std::int64_t tokens, std::int64_t experts, std::int64_t topk);
  /// Makes the same map, counted.
  static RoutingMap counted_in_turn(std::int64_t tokens, std::int64_t experts, std::int64_t topk);
  /// Makes a counted map from the number of tokens of each expert.
  static RoutingMap counted(std::int64_t tokens, std::vector<std::int64_t> tokens_per_expert);
  /// Copies a map from a tensor of i32, for example one that was gathered from other ranks.
  static RoutingMap from_tensor(const Tensor& map);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t experts() const { return experts_; }
  bool is_counted() const { return !counts_.empty(); }
  bool at(std::int64_t token, std::int64_t expert) const { return chosen()[place(token, expert)] != 0; }
  void set(std::int64_t token, std::int64_t expert, bool chosen) {
    chosen_[place(token, expert)] = chosen ? 1 : 0;
  }
  const std::vector<std::uint8_t>& chosen() const {
    if (is_counted()) refuse_pairs();
    return chosen_;
  }
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
  /// Returns which tokens go to which groups of `width` neighbouring experts: to those that have one of their
  /// experts. Of the counted maps only those in turn know it.
  RoutingMap groups_of(std::int64_t width) const;
  /// Returns the pairs that both maps choose.
  RoutingMap operator&(const RoutingMap& other) const;

  /// Returns the map as i32 [T, E]; without elements if it is counted.
  Tensor tensor(Device& device) const;

 private:
  std::size_t place(std::int64_t token, std::int64_t expert) const {
    return static_cast<std::size_t>(token * experts_ + expert);
  }
  [[noreturn]] static void refuse_pairs();

  std::int64_t tokens_ = 0;
  std::int64_t experts_ = 0;
  std::vector<std::uint8_t> chosen_;  // empty in a counted map
  std::vector<std::int64_t> counts_;  // the tokens of each expert, in a counted map alone
  std::int64_t experts_in_turn_ = 0;  // of a token, in a counted map in turn
};

}  // namespace sim
