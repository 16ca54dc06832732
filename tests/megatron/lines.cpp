#include "tests/megatron/lines.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "tests/support/tensor_values.h"

namespace test {

std::vector<Json> lines_of(const std::string& file) {
  std::ifstream stream(std::string(SHARDPROOF_MEGATRON_DATA) + "/" + file);
  std::vector<Json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  EXPECT_FALSE(lines.empty()) << file;
  return lines;
}

std::vector<double> numbers_of(const Json& array) {
  if (!array.is_array()) return {array.get<double>()};
  std::vector<double> numbers;
  for (const Json& part : array) {
    const std::vector<double> inner = numbers_of(part);
    numbers.insert(numbers.end(), inner.begin(), inner.end());
  }
  return numbers;
}

sim::Tensor matrix_of(sim::Device& device, const Json& rows) {
  const auto columns = static_cast<std::int64_t>(rows.at(0).size());
  return tensor_of(device, sim::DType::f64, {static_cast<std::int64_t>(rows.size()), columns},
                   numbers_of(rows));
}

sim::Tensor vector_of(sim::Device& device, const Json& values) {
  return tensor_of(device, sim::DType::f64, {static_cast<std::int64_t>(values.size())}, numbers_of(values));
}

sim::RoutingMap map_of(const Json& rows) {
  std::vector<std::uint8_t> chosen;
  for (const double number : numbers_of(rows)) chosen.push_back(number != 0 ? 1 : 0);
  return {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.at(0).size()), chosen};
}

sim::Ratio ratio_of(double decimal) {
  for (std::int64_t denominator = 1; denominator <= 1'000'000'000; denominator *= 10) {
    const std::int64_t numerator = std::llround(decimal * static_cast<double>(denominator));
    if (static_cast<double>(numerator) / static_cast<double>(denominator) == decimal)
      return {numerator, denominator};
  }
  ADD_FAILURE() << decimal << " has more than nine decimals";
  return {0, 1};
}

testing::AssertionResult are_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  if (got.size() != wanted.size())
    return testing::AssertionFailure() << got.size() << " values instead of " << wanted.size();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double bound = kUnits * kUnitOfOne * std::max(1.0, std::fabs(wanted[i]));
    if (std::fabs(got[i] - wanted[i]) <= bound) continue;
    return testing::AssertionFailure()
           << "value " << i << " is " << testing::PrintToString(got[i]) << " instead of "
           << testing::PrintToString(wanted[i]) << ", off by " << got[i] - wanted[i];
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult are_near(const sim::Tensor& got, const Json& wanted) {
  return are_near(values<double>(got), numbers_of(wanted));
}

}  // namespace test
