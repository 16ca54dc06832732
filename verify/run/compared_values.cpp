#include "verify/run/compared_values.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <tuple>

#include "verify/output/phrases.h"
#include "verify/run/wrong_value.h"

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
  return {power_of_half(3), power_of_half(9)};
}

constexpr double kOfTwin = 16;
constexpr std::int64_t kExplained = 8;  // wrong values of a layout; what the others are is only measured

/// Returns the largest difference of two values in an element that both have.
double largest_error(const std::vector<double>& some, const std::vector<double>& others) {
  double most = 0;
  for (std::size_t i = 0; i < std::min(some.size(), others.size()); ++i)
    if (const double error = std::abs(some[i] - others[i]); error > most) most = error;
  return most;
}

/// How far a right value may be from the reference.
class Bounds {
 public:
  Bounds(const GlobalValues& reference, const JudgedBy& judged)
      : shares_(shares_in(judged.twin != nullptr ? sim::DType::f64 : judged.coarsest)) {
    const GlobalValues* const twin = judged.twin;
    for (const auto& [key, value] : reference.values) {
      const std::vector<double> right = reference.at(key).elements();
      double& most = largest_[{key.step, key.kind}];
      most = std::max(most, largest_of(right));
      if (twin == nullptr || !twin->values.contains(key)) continue;
      const double error = largest_error(right, twin->at(key).elements());
      errors_[key] = error;
      if (error > 0) relative_[key.step].push_back(error / largest_of(right));
    }
  }

  double of(const ValueKey& key, double largest) const {
    const double exact = shares_.of_tensor * largest + shares_.of_all * largest_.at({key.step, key.kind});
    const auto error = errors_.find(key);
    return std::max(
        exact, kOfTwin * std::max(error == errors_.end() ? 0 : error->second, mean_of(key.step) * largest));
  }

 private:
  /// Returns the mean of the relative errors of the twin in a step.
  double mean_of(std::int64_t step) const {
    const auto found = relative_.find(step);
    if (found == relative_.end()) return 0;
    return std::accumulate(found->second.begin(), found->second.end(), 0.0) /
           static_cast<double>(found->second.size());
  }

  Shares shares_;
  std::map<std::pair<std::int64_t, PublishedKind>, double> largest_;  // of all values of a kind in a step
  std::map<ValueKey, double> errors_;                                 // of the twin
  std::map<std::int64_t, std::vector<double>> relative_;              // by step
};

using Numbers = std::map<std::string, std::int64_t>;
Numbers numbers_of(const std::vector<std::string>& names) {
  Numbers numbers;
  for (const std::string& name : names) numbers.emplace(name, std::ssize(numbers));
  return numbers;
}

/// Returns the keys in the order in which a training computes their values: gradients backwards.
std::vector<ValueKey> in_order(const GlobalValues& reference) {
  const Numbers parameters = numbers_of(reference.parameters), named = numbers_of(reference.named);
  std::vector<std::tuple<std::int64_t, PublishedKind, std::int64_t, ValueKey>> ordered;
  for (const auto& [key, value] : reference.values) {
    const Numbers& numbers = key.kind == PublishedKind::value ? named : parameters;
    const auto known = numbers.find(key.name);
    const std::int64_t place = known == numbers.end() ? 0 : known->second;
    ordered.emplace_back(key.step, key.kind, key.kind == PublishedKind::gradient ? -place : place, key);
  }
  std::ranges::sort(ordered);
  std::vector<ValueKey> keys;
  for (const auto& each : ordered) keys.push_back(std::get<ValueKey>(each));
  return keys;
}

/// Says which parameters one run has and the other has not, as it does where they train other models.
std::vector<std::string> other_parameters(const GlobalValues& some, const GlobalValues& others,
                                          const char* where) {
  const std::set<std::string> known(others.parameters.begin(), others.parameters.end());
  std::vector<std::string> missing;
  for (const std::string& name : some.parameters)
    if (!known.contains(name) && !others.left_out.contains(name)) missing.push_back(name);
  if (missing.empty()) return {};
  return {fmt::format("{} has {} that the other lacks, such as {}", where,
                      counted(std::ssize(missing), "parameter"), missing.front())};
}

/// Returns why the numbers of two runs cannot be compared; "" if they can.
std::string why_incomparable(const GlobalValues& layout, const GlobalValues& reference) {
  std::vector<std::string> reasons = other_parameters(reference, layout, "the reference");
  for (std::string& reason : other_parameters(layout, reference, "this run"))
    reasons.push_back(std::move(reason));
  for (const auto& [key, value] : reference.values) {
    const auto own = layout.values.find(key);
    if (own == layout.values.end() || key.step > 0) continue;
    if (!own->second.disagreement.empty())
      reasons.push_back(fmt::format("{} is {}", text_of(key), own->second.disagreement));
    else if (own->second.whole != value.whole)
      reasons.push_back(fmt::format("{} is {} here and {} in the reference", text_of(key),
                                    text_of_shape(own->second.whole), text_of_shape(value.whole)));
  }
  if (reasons.empty()) return "";
  const std::string more =
      reasons.size() > 1 ? fmt::format("; and {} more", counted(std::ssize(reasons) - 1, "difference")) : "";
  return reasons.front() + more;
}

/// Compares one value. What is right raises the worst slack.
WrongValue compared(const ValueKey& key, const GlobalValue& got, const std::vector<double>& serial,
                    double bound, double& worst_slack) {
  std::set<std::int64_t> wrong, present;
  WrongValue value{.key = key, .elements = std::ssize(serial)};
  for (const Piece& piece : got.pieces) {
    for (std::size_t i = 0; i < piece.places.size(); ++i) {
      const std::int64_t place = piece.places[i];
      const double right = serial[static_cast<std::size_t>(place)];
      const double error = piece.elements[i] == right ? 0 : std::abs(piece.elements[i] - right);
      present.insert(place);
      if (error <= bound) {
        if (bound > 0) worst_slack = std::max(worst_slack, error / bound);
        continue;
      }
      wrong.insert(place);
      value.ranks.insert(piece.rank);
    }
  }
  value.wrong = std::ssize(wrong);
  const std::int64_t absent = value.elements - std::ssize(present);
  if (absent > 0) {
    value.wrong += absent;
    value.what = fmt::format("no rank has {} of its {}", absent, counted(value.elements, "element"));
  }
  return value;
}

}  // namespace

ComparedValues compared_values(const GlobalValues& layout, const GlobalValues& reference,
                               const NamesOfLayout& names, const JudgedBy& judged) {
  ComparedValues result{.incomparable = why_incomparable(layout, reference)};
  if (!result.incomparable.empty()) return result;
  const Bounds bounds(reference, judged);
  for (const ValueKey& key : in_order(reference)) {
    const StoredValue& stored = reference.values.at(key);
    ++result.values;
    result.elements += stored.count();
    if (!layout.values.contains(key)) {
      result.wrong.push_back({key, stored.count(), stored.count(), {}, "no rank has it"});
      continue;
    }
    const GlobalValue got = layout.at(key);
    const std::vector<double> serial = reference.at(key).elements();
    const double bound = bounds.of(key, largest_of(serial));
    WrongValue value = compared(key, got, serial, bound, result.worst_slack);
    if (value.wrong == 0) continue;
    const SeenValue seen{value, got, serial, bound, layout, reference, names};
    if (value.what.empty())
      value.what = std::ssize(result.wrong) < kExplained ? explained_value(seen) : measured_value(seen);
    result.wrong.push_back(std::move(value));
  }
  for (const auto& [key, value] : layout.values)
    if (key.kind == PublishedKind::value && !reference.values.contains(key))
      result.wrong.push_back({key, value.count(), value.count(), {}, "the reference does not have it"});
  return result;
}

}  // namespace verify
