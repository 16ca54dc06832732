#include "verify/cases/spread.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <utility>
#include <vector>

namespace verify {

namespace {

using Deviations = std::map<std::string, reference::Matrix<double>>;

bool is_second_moment(const std::string& name) { return name.ends_with("exp_avg_sq"); }

void take_larger(const Wholes<reference::Perturbed>& values, const Wholes<reference::Perturbed>& perturbed,
                 Deviations& largest) {
  for (const auto& [name, value] : values) {
    double* most = largest.at(name).data();
    const auto& other = perturbed.at(name);
    const bool has_roots = is_second_moment(name);
    for (Eigen::Index i = 0; i < value.size(); ++i) {
      const double a = other.data()[i].value(), b = value.data()[i].value();
      const double deviation = has_roots ? std::fabs(std::sqrt(a) - std::sqrt(b)) : std::fabs(a - b);
      most[i] =
          std::isfinite(deviation) ? std::max(most[i], deviation) : std::numeric_limits<double>::infinity();
    }
  }
}

/// Returns the least deviation that an element of a tensor counts as: 1/share of the mean of the deviations
/// that are finite.
double least_deviation(const reference::Matrix<double>& largest, int share) {
  double sum = 0, count = 0;
  for (Eigen::Index i = 0; i < largest.size(); ++i) {
    if (!std::isfinite(largest.data()[i])) continue;
    sum += largest.data()[i];
    ++count;
  }
  return share == 0 || count == 0 ? 0 : sum / count / share;
}

}  // namespace

reference::Rounding rounding_of(sim::DType dtype, int parts) {
  if (dtype == sim::DType::f64) return reference::rounding_of_f64(parts);
  return dtype == sim::DType::bf16 ? reference::rounding_of_bf16(parts) : reference::rounding_of_f32(parts);
}

bool is_bounded(const Wholes<reference::Bounded>& wholes) {
  return std::ranges::all_of(wholes, [](const auto& whole) {
    const auto& [name, values] = whole;
    return std::all_of(values.data(), values.data() + values.size(),
                       [](const reference::Bounded& x) { return std::isfinite(x.error()); });
  });
}

Wholes<reference::Bounded> spread(const reference::Rounding& rounding, const PerturbedRun& run,
                                  const reference::SpreadSize& size, int threads) {
  // A bf16 tensor has less precision than the arithmetic, so that storing rounds once more.
  const double store = rounding.store > rounding.unit ? rounding.store : 0;
  const auto perturbation = [&](int seed) {
    return reference::Perturbation{
        .unit = rounding.unit, .store = store, .state = static_cast<std::uint64_t>(seed)};
  };
  const auto values = run({});
  Deviations largest;
  for (const auto& [name, value] : values)
    largest[name] = reference::Matrix<double>::Zero(value.rows(), value.cols());
  for (int first = 1; first <= size.runs; first += threads) {
    std::vector<std::future<Wholes<reference::Perturbed>>> others;
    for (int seed = first + 1; seed < first + threads && seed <= size.runs; ++seed)
      others.push_back(std::async(std::launch::async, run, perturbation(seed)));
    take_larger(values, run(perturbation(first)), largest);
    for (auto& other : others) take_larger(values, other.get(), largest);
  }
  Wholes<reference::Bounded> wholes;
  for (const auto& [name, value] : values) {
    reference::Matrix<reference::Bounded> bounded(value.rows(), value.cols());
    const double least = least_deviation(largest.at(name), size.least_share);
    const bool has_roots = is_second_moment(name);
    for (Eigen::Index i = 0; i < value.size(); ++i) {
      const double of_element = value.data()[i].value();
      const double bound = size.deviations * (std::max(largest.at(name).data()[i], least) + rounding.least);
      const double of_square = bound * (2 * std::sqrt(of_element) + bound) + rounding.least;
      bounded.data()[i] = {of_element, has_roots ? of_square : bound, nullptr};
    }
    wholes[name] = std::move(bounded);
  }
  return wholes;
}

}  // namespace verify
