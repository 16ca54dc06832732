#pragma once

/// Lines of what Megatron's own code computes, as data, and how values are held against them. The README.md
/// files beside the data explain how to read them.
///
/// Exact   Megatron computed in f64. A value is right within kUnits units in the last place of 1, or of
///         itself if it is larger: it is the result of fewer than kUnits operations, and each rounds numbers
///         of that size once here and once there.

#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/experts/routing_map.h"
#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/ops.h"

namespace test {

using Json = nlohmann::ordered_json;

inline constexpr double kUnits = 64;
inline constexpr double kUnitOfOne = std::numeric_limits<double>::epsilon();

/// Returns the lines of a file of tests/megatron, such as "moe/router.jsonl".
std::vector<Json> lines_of(const std::string& file);

/// Returns all numbers of nested arrays, in their order.
std::vector<double> numbers_of(const Json& array);
/// Returns an f64 matrix of an array of rows. `columns` is needed where there may be no row.
sim::Tensor matrix_of(sim::Device& device, const Json& rows);
sim::Tensor vector_of(sim::Device& device, const Json& values);
sim::RoutingMap map_of(const Json& rows);

/// Returns a decimal number such as 2.5 as 25/10.
sim::Ratio ratio_of(double decimal);

/// Says which values differ by more than the bound; success if none does.
testing::AssertionResult are_near(const std::vector<double>& got, const std::vector<double>& wanted);
testing::AssertionResult are_near(const sim::Tensor& got, const Json& wanted);

}  // namespace test
