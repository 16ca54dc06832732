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

/// Returns the largest finite difference of the elements of two values of one shape.
double largest_error(const std::vector<double>& some, const std::vector<double>& others) {
  double most = 0;
  for (std::size_t i = 0; i < some.size(); ++i)
    if (const double error = std::abs(some[i] - others[i]); std::isfinite(error))
      most = std::max(most, error);
  return most;
}

double median_of(std::vector<double> numbers) {
  const auto middle = numbers.begin() + std::ssize(numbers) / 2;
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

/// Returns the elements by which a value is judged.
std::vector<double> judged_elements(const ValueKey& key, std::vector<double> elements) {
  if (has_squares(key))
    for (double& x : elements) x = std::copysign(std::sqrt(std::abs(x)), x);
  return elements;
}

/// Returns what is said to be of one kind with a value.
std::tuple<std::int64_t, PublishedKind, std::string> alike(const ValueKey& key) {
  return {key.step, key.kind, names_of_state(key).state};
}

}  // namespace

ValueBounds::Pool ValueBounds::pool_of(const ValueKey& key) {
  Pool pool = alike(key);
  PublishedKind& kind = std::get<PublishedKind>(pool);
  if (kind == PublishedKind::loss || kind == PublishedKind::norm) kind = PublishedKind::gradient;
  return pool;
}

ValueBounds::ValueBounds(const GlobalValues& reference, const JudgedBy& judged) : coarsest_(judged.coarsest) {
  std::map<Pool, std::vector<double>> relative;
  for (const auto& [key, value] : reference.values) {
    const std::vector<double> right = judged_elements(key, reference.at(key).elements());
    const double largest = largest_of(right);
    double& most = largest_[alike(key)];
    most = std::max(most, largest);
    if (judged.twin == nullptr) continue;
    const auto of_twin = judged.twin->values.find(key);
    if (of_twin == judged.twin->values.end() || of_twin->second.whole != value.whole) continue;
    const double error = errors_[key] =
        largest_error(right, judged_elements(key, judged.twin->at(key).elements()));
    if (error > 0 && largest > 0) relative[pool_of(key)].push_back(error / largest);
  }
  for (auto& [pool, errors] : relative) take_typical(pool, median_of(std::move(errors)));
}

void ValueBounds::take_typical(const Pool& pool, double typical) {
  typical_[pool] = typical;
  const bool is_of_states =
      std::get<PublishedKind>(pool) == PublishedKind::state;  // of other values, too, then
  if (typical < kMostTypical || !objection_.empty() || is_of_states) return;
  objection_ = fmt::format(
      "the reference and its twin differ in step {} by {:.2g} of the largest elements of half of their "
      "values, which is no rounding; a program that draws numbers in other dtypes draws other numbers",
      std::get<std::int64_t>(pool), typical);
}

double ValueBounds::of(const ValueKey& key, double largest) const {
  if (!has_squares(key)) return bound_of(key, largest);
  const double root = std::sqrt(largest), of_root = bound_of(key, root);
  return of_root * (2 * root + of_root);
}

double ValueBounds::bound_of(const ValueKey& key, double largest) const {
  const double of_all = key.kind == PublishedKind::value ? 0 : largest_.at(alike(key));
  const auto typical = typical_.find(pool_of(key));
  const Shares shares = shares_in(typical == typical_.end() ? coarsest_ : sim::DType::f64);
  const double bound = shares.of_tensor * largest + shares.of_all * of_all;
  if (typical == typical_.end()) return bound;
  const auto error = errors_.find(key);
  const double usual = typical->second * (largest + kOfAllBesideTensor * of_all);
  return std::max(bound, kOfTwin * std::max(error == errors_.end() ? 0 : error->second, usual));
}

}  // namespace verify
