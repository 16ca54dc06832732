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
            .rule = "an order is axis names joined by single '-' signs, with none at the ends",
            .hint = fmt::format("--order {}", kDefaultOrder)});
  }
  refuse({.code = "order_unknown_token",
          .option = "--order",
          .numbers = fmt::format("the token '{}' in '{}'", token, order),
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
      refuse({.code = "order_duplicate_token",
              .option = "--order",
              .numbers = fmt::format("'{}' stands twice in '{}'", token, order),
              .rule = "an order names each axis once; Megatron accepts this one and builds groups with ranks "
                      "that do not exist",
              .hint = fmt::format("--order {}", kDefaultOrder)});
    }
    axes.push_back(*axis);
  }
  return axes;
}

void require_axes_present(const std::string& order, const std::vector<Axis>& axes,
                          const PerAxis<int>& sizes) {
  for (const Axis axis : {Axis::cp, Axis::ep, Axis::dp, Axis::pp}) {
    if (contains(axes, axis) || sizes[axis] == 1) continue;
    const char* name = kAxisNames[static_cast<std::size_t>(axis)];
    refuse({.code = "order_missing_axis",
            .option = "--order",
            .numbers = fmt::format("'{}' has no {}, whose size is {}", order, name, sizes[axis]),
            .rule = "an axis may be left out of the order only when its size is 1 (dp stands for edp too)",
            .hint = fmt::format("--order {}", kDefaultOrder)});
  }
}

void require_tp_present(const std::string& order, const std::vector<Axis>& axes) {
  if (contains(axes, Axis::tp)) return;
  refuse({.code = "order_no_tp",
          .option = "--order",
          .numbers = fmt::format("'{}' has no tp", order),
          .rule = "Megatron (0.19 and later) fails on an order without tp, even when its size is 1",
          .hint = fmt::format("--order tp-{}", order)});
}

std::vector<Axis> completed(std::vector<Axis> axes) {
  for (std::size_t i = 0; i < kAxisNames.size(); ++i) {
    if (!contains(axes, static_cast<Axis>(i))) axes.push_back(static_cast<Axis>(i));
  }
  return axes;
}

}  // namespace sim
