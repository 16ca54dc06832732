#include "verify/run/value_bounds.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace verify {

namespace {

/// Shares of the largest elements of a tensor, and of all tensors of its kind.
struct Shares {
  double of_tensor, of_all;
};

constexpr double power_of_half(int power) { return 1.0 / static_cast<double>(std::int64_t{1} << power); }

Shares shares_in(sim::DType dtype) {
  if (dtype == sim::DType::f64) return {power_of_half(30), power_of_half(43)};
  if (dtype == sim::DType::f32) return {power_of_half(10), power_of_half(18)};
  if (dtype == sim::DType::f16) return {power_of_half(6), power_of_half(12)};
  return {power_of_half(3), power_of_half(9)};
}

constexpr double kOfTwin = 16;
constexpr double kOfAllBesideTensor = power_of_half(13);
constexpr double kMostTypical = power_of_half(5);  // from here on, a bound lets twice a value be right

/// Returns the largest difference of two values of one shape.
double largest_error(const GlobalValue& some, const GlobalValue& others) {
  if (some.whole != others.whole) return 0;
  const std::vector<double> a = some.elements(), b = others.elements();
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const double error = std::abs(a[i] - b[i]); std::isfinite(error)) most = std::max(most, error);
  return most;
}

double median_of(std::vector<double> numbers) {
  const auto middle = numbers.begin() + std::ssize(numbers) / 2;
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

}  // namespace

ValueBounds::Pool ValueBounds::pool_of(const ValueKey& key) {
  const bool is_parameter = key.kind == PublishedKind::parameter, is_named = key.kind == PublishedKind::value;
  return {key.step, is_parameter ? 0 : is_named ? 1 : 2};
}

ValueBounds::ValueBounds(const GlobalValues& reference, const JudgedBy& judged) : coarsest_(judged.coarsest) {
  for (const auto& [key, value] : reference.values) {
    double& most = largest_[{key.step, key.kind}];
    most = std::max(most, largest_of(reference.at(key).elements()));
  }
  if (judged.twin != nullptr) take_twin(reference, *judged.twin);
}

void ValueBounds::take_twin(const GlobalValues& reference, const GlobalValues& twin) {
  std::map<Pool, std::vector<double>> relative;
  for (const auto& [key, value] : reference.values) {
    if (!twin.values.contains(key)) continue;
    const GlobalValue right = reference.at(key);
    const double error = errors_[key] = largest_error(right, twin.at(key));
    if (const double largest = largest_of(right.elements()); error > 0 && largest > 0)
      relative[pool_of(key)].push_back(error / largest);
  }
  for (auto& [pool, errors] : relative) {
    const double typical = typical_[pool] = median_of(std::move(errors));
    if (typical < kMostTypical || !objection_.empty()) continue;
    objection_ = fmt::format(
        "the reference and its twin differ in step {} by {:.2g} of the largest elements of half of their "
        "values, which is no rounding; a program that draws numbers in other dtypes draws other numbers",
        pool.first, typical);
  }
}

double ValueBounds::of(const ValueKey& key, double largest) const {
  const double of_all = key.kind == PublishedKind::value ? 0 : largest_.at({key.step, key.kind});
  const auto typical = typical_.find(pool_of(key));
  const Shares shares = shares_in(typical == typical_.end() ? coarsest_ : sim::DType::f64);
  const double bound = shares.of_tensor * largest + shares.of_all * of_all;
  if (typical == typical_.end()) return bound;
  const auto error = errors_.find(key);
  const double usual = typical->second * (largest + kOfAllBesideTensor * of_all);
  return std::max(bound, kOfTwin * std::max(error == errors_.end() ? 0 : error->second, usual));
}

}  // namespace verify
