#pragma once
// placeholder until the router's branch is merged
#include <cstdint>
#include <utility>
#include <vector>

namespace sim {

class RoutingMap {
 public:
  RoutingMap() = default;
  RoutingMap(std::int64_t tokens, std::int64_t experts, std::vector<std::uint8_t> chosen)
      : tokens_(tokens), experts_(experts), chosen_(std::move(chosen)) {}
  std::int64_t tokens() const { return tokens_; }
  std::int64_t experts() const { return experts_; }
  bool at(std::int64_t t, std::int64_t e) const { return chosen_[static_cast<std::size_t>(t * experts_ + e)] != 0; }

 private:
  std::int64_t tokens_ = 0, experts_ = 0;
  std::vector<std::uint8_t> chosen_;
};

}  // namespace sim
