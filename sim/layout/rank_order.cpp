#include "sim/layout/rank_order.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <optional>

#include "sim/base/error.h"
#include "sim/layout/parallel_sizes.h"

namespace sim {

namespace {

std::vector<std::string> split_tokens(const std::string& order) {
  std::vector<std::string> tokens(1);
  for (const char c : order) {
    if (c == '-') {
      tokens.emplace_back();
    } else {
      tokens.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return tokens;
}

std::optional<Axis> axis_named(const std::string& token) {
  for (std::size_t i = 0; i < kAxisNames.size(); ++i) {
    if (token == kAxisNames[i]) return static_cast<Axis>(i);
  }
  return std::nullopt;
}

bool contains(const std::vector<Axis>& axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

[[noreturn]] void refuse_token(const std::string& order, const std::string& token) {
  if (token.empty()) {
    refuse({.code = "order_empty_token",
            .option = "--order",
            .numbers = fmt::format("'{}' has an empty token", order),
            .rule = "axis names joined by single '-' signs, none at the ends",
            .hint = fmt::format("--order {}", kDefaultOrder)});
  }
  refuse({.code = "order_unknown_token",
          .option = "--order",
          .numbers = fmt::format("'{}' in '{}'", token, order),
          .rule = "an order is made of tp, cp, ep, dp, pp (tp also stands for etp, dp for edp)",
          .hint = fmt::format("--order {}", kDefaultOrder)});
}

}  // namespace

std::vector<Axis> parse_order(const std::string& order) {
  std::vector<Axis> axes;
  for (const std::string& token : split_tokens(order)) {
    const std::optional<Axis> axis = axis_named(token);
    if (!axis) refuse_token(order, token);
    if (contains(axes, *axis)) {
      refuse(
          {.code = "order_duplicate_token",
           .option = "--order",
           .numbers = fmt::format("'{}' stands twice in '{}'", token, order),
           .rule =
               "each axis once; Megatron takes the repetition and builds groups with ranks that do not exist",
           .hint = fmt::format("--order {}", kDefaultOrder)});
    }
    axes.push_back(*axis);
  }
  if (!contains(axes, Axis::tp)) {
    refuse({.code = "order_no_tp",
            .option = "--order",
            .numbers = fmt::format("'{}' has no tp", order),
            .rule = "Megatron (0.19 and later) fails on an order without tp, even when its size is 1",
            .hint = fmt::format("--order tp-{}", order)});
  }
  return axes;
}

void complete_order(const std::string& order, const PerAxis<int>& dense, const PerAxis<int>& expert,
                    std::vector<Axis>& axes) {
  for (std::size_t i = 0; i < kAxisNames.size(); ++i) {
    const auto axis = static_cast<Axis>(i);
    if (contains(axes, axis)) continue;
    const int size = std::max(dense[axis], expert[axis]);
    if (size != 1) {
      const bool only_expert = dense[axis] == 1 && axis == Axis::dp;
      refuse({.code = "order_missing_axis",
              .option = "--order",
              .numbers = fmt::format("'{}' has no {}, and {} is {}", order, kAxisNames[i],
                                     only_expert ? "edp" : kAxisNames[i], size),
              .rule = "an axis may be left out of the order only when its size is 1",
              .hint = fmt::format("--order {}", kDefaultOrder)});
    }
    axes.push_back(axis);
  }
}

}  // namespace sim
