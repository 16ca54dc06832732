#include "verify/run/compared_values.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <utility>

#include "verify/output/phrases.h"
#include "verify/run/wrong_value.h"

namespace verify {

namespace {

constexpr std::int64_t kExplained = 8;  // wrong values of a layout; what the others are is only measured

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
    const auto known = numbers.find(names_of_state(key).parameter);
    const std::int64_t place = known == numbers.end() ? 0 : known->second;
    ordered.emplace_back(key.step, key.kind, key.kind == PublishedKind::gradient ? -place : place, key);
  }
  std::ranges::sort(ordered);
  std::vector<ValueKey> keys;
  for (const auto& each : ordered) keys.push_back(std::get<ValueKey>(each));
  return keys;
}

/// Says which parameters of the reference a run lacks, as it does if it trains another model.
std::vector<std::string> lacking(const GlobalValues& layout, const GlobalValues& reference) {
  std::vector<std::string> missing = parameters_beside(reference, layout);
  std::erase_if(missing, [&](const std::string& name) { return layout.left_out.contains(name); });
  if (missing.empty()) return {};
  return {fmt::format("it lacks {} of the reference, such as {}", counted(std::ssize(missing), "parameter"),
                      missing.front())};
}

/// Says how a value of a run is another thing than that of the reference; "" if it is not.
std::string other_shape(const StoredValue& own, const StoredValue& right) {
  if (!own.disagreement.empty()) return "its shape is " + own.disagreement;
  if (own.whole == right.whole) return "";
  return fmt::format("its shape is {} here and {} in the reference", text_of_shape(own.whole),
                     text_of_shape(right.whole));
}

/// Returns why the numbers of two runs cannot be compared; "" if they can.
std::string why_incomparable(const GlobalValues& layout, const GlobalValues& reference) {
  std::vector<std::string> reasons = lacking(layout, reference);
  if (layout.steps() != reference.steps())
    reasons.push_back(fmt::format("this run has {}, and the reference {}", counted(layout.steps(), "step"),
                                  counted(reference.steps(), "step")));
  for (const auto& [key, value] : reference.values) {
    if (!value.disagreement.empty())
      reasons.push_back(fmt::format("{} in the reference is {}", text_of(key), value.disagreement));
    const auto own = layout.values.find(key);
    if (own == layout.values.end() || key.step > 0) continue;
    if (const std::string other = other_shape(own->second, value); !other.empty())
      reasons.push_back(fmt::format("{}: {}", text_of(key), other));
  }
  if (reasons.empty()) return "";
  const std::string more =
      reasons.size() > 1 ? fmt::format("; and {} more", counted(std::ssize(reasons) - 1, "difference")) : "";
  return reasons.front() + more;
}

/// Whether a place is among some, which are none or all that a value has.
bool is_among(const std::vector<bool>& places, std::size_t place) { return !places.empty() && places[place]; }

/// Compares one value of the right shape, but for elements that are `free`. What is right raises the worst
/// slack.
WrongValue compared(const ValueKey& key, const GlobalValue& got, const std::vector<double>& serial,
                    double bound, const std::vector<bool>& free, double& worst_slack) {
  std::vector<bool> wrong(serial.size()), present(serial.size());
  WrongValue value{.key = key, .elements = std::ssize(serial)};
  for (const Piece& piece : got.pieces) {
    for (std::size_t i = 0; i < piece.places.size(); ++i) {
      const auto place = static_cast<std::size_t>(piece.places[i]);
      const double right = serial[place];
      const double error = piece.elements[i] == right ? 0 : std::abs(piece.elements[i] - right);
      present[place] = true;
      if (is_among(free, place)) continue;
      if (error <= bound) {
        if (bound > 0) worst_slack = std::max(worst_slack, error / bound);
        continue;
      }
      wrong[place] = true;
      value.ranks.insert(piece.rank);
    }
  }
  value.wrong = std::ranges::count(wrong, true);
  const std::int64_t absent = std::ranges::count(present, false);
  if (absent > 0) {
    value.wrong += absent;
    value.what = fmt::format("no rank has {} of its {}", absent, counted(value.elements, "element"));
  }
  return value;
}

/// Holds the values of a run against those of the reference, one after the other.
class Comparison {
 public:
  Comparison(const GlobalValues& layout, const GlobalValues& reference, const NamesOfLayout& names,
             const JudgedBy& judged)
      : layout_(layout),
        reference_(reference),
        names_(names),
        bounds_(reference, judged),
        has_twin_(judged.twin != nullptr) {
    result_.incomparable = bounds_.objection();
    const std::vector<std::string> beside = parameters_beside(layout, reference);
    only_here_.insert(beside.begin(), beside.end());
  }

  ComparedValues made() {
    for (const ValueKey& key : in_order(reference_)) {
      if (!result_.incomparable.empty()) return std::move(result_);
      if (is_compared(key)) compare(key);
    }
    for (const auto& [key, value] : layout_.values) find_only_here(key, value);
    return std::move(result_);
  }

 private:
  /// A state is not, if the optimizers of one run do not have it.
  bool is_compared(const ValueKey& key) const {
    const std::string state = names_of_state(key).state;
    return key.kind != PublishedKind::state ||
           (layout_.states.contains(state) && reference_.states.contains(state));
  }

  void compare(const ValueKey& key) {
    const StoredValue& stored = reference_.values.at(key);
    const auto own = layout_.values.find(key);
    ++result_.values;
    result_.kinds.insert(key.kind);
    result_.elements += stored.count();
    if (own == layout_.values.end()) return add_wrong(key, stored, "no rank has it");
    if (const std::string other = other_shape(own->second, stored); !other.empty())
      return add_wrong(key, own->second, other);
    const GlobalValue right = reference_.at(key), got = layout_.at(key);
    const std::vector<double> serial = right.elements();
    if (std::ranges::any_of(serial, [](double x) { return std::isnan(x); })) {
      result_.incomparable = text_of(key) + ": elements of the reference are no numbers, or no rank has them";
      return;
    }
    const double bound = bounds_.of(key, largest_of(serial));
    double of_reference = 0;
    if (const WrongValue two = compared(key, right, serial, bound, {}, of_reference); two.wrong > 0) {
      result_.incomparable = fmt::format("{}: ranks of the reference hold different copies", text_of(key));
      return;
    }
    WrongValue value = compared(key, got, serial, bound, free_elements(key), result_.worst_slack);
    if (key.kind == PublishedKind::gradient && !has_twin_) learn_noise(key.name, got, serial, bound);
    if (value.wrong == 0) return;
    const SeenValue seen{value, got, serial, bound, layout_, reference_, names_};
    if (value.what.empty())
      value.what = std::ssize(result_.wrong) < kExplained ? explained_value(seen) : measured_value(seen);
    result_.wrong.push_back(std::move(value));
  }

  /// Learns which elements of a gradient are zero but for rounding, and not exactly.
  void learn_noise(const std::string& parameter, const GlobalValue& got, const std::vector<double>& serial,
                   double bound) {
    std::vector<bool> noise(serial.size());
    for (const Piece& piece : got.pieces)
      for (std::size_t i = 0; i < piece.places.size(); ++i) {
        const auto place = static_cast<std::size_t>(piece.places[i]);
        const double own = std::abs(piece.elements[i]), right = std::abs(serial[place]);
        if (own <= bound && right <= bound && std::max(own, right) > 0) noise[place] = true;
      }
    if (std::ranges::find(noise, true) == noise.end()) return;
    std::vector<bool>& known = noise_[parameter];
    known.resize(serial.size());
    for (std::size_t i = 0; i < noise.size(); ++i) known[i] = known[i] || noise[i];
  }

  /// Returns which elements of a value are not judged; none if all are.
  std::vector<bool> free_elements(const ValueKey& key) const {
    const NamesOfState names = names_of_state(key);
    const bool is_updated = key.kind == PublishedKind::parameter || names.state == "main_param";
    const auto noise = noise_.find(names.parameter);
    if (!is_updated || noise == noise_.end()) return {};
    return std::cmp_equal(noise->second.size(), reference_.values.at(key).count()) ? noise->second
                                                                                   : std::vector<bool>{};
  }

  void add_wrong(const ValueKey& key, const StoredValue& stored, const std::string& what) {
    result_.wrong.push_back({key, stored.count(), stored.count(), {}, what});
  }

  /// A gradient that is zero, and its states, may be left out by the reference. A parameter that the
  /// reference lacks, such as a copy of the embedding on another stage, is not compared.
  void find_only_here(const ValueKey& key, const StoredValue& value) {
    const bool is_derived = key.kind == PublishedKind::gradient || key.kind == PublishedKind::state;
    const bool is_of_parameter = key.kind == PublishedKind::parameter || is_derived;
    if (reference_.values.contains(key) || !is_compared(key)) return;
    if (is_of_parameter && only_here_.contains(names_of_state(key).parameter)) return;
    const bool may_be_zero = is_derived && value.disagreement.empty();
    if (may_be_zero && largest_of(layout_.at(key).elements()) == 0) return;
    add_wrong(key, value, "the reference does not have it");
  }

  const GlobalValues &layout_, &reference_;
  const NamesOfLayout& names_;
  ValueBounds bounds_;
  bool has_twin_;
  std::set<std::string> only_here_;                 // parameters
  std::map<std::string, std::vector<bool>> noise_;  // of parameters: elements without a true gradient
  ComparedValues result_;
};

}  // namespace

ComparedValues compared_values(const GlobalValues& layout, const GlobalValues& reference,
                               const NamesOfLayout& names, const JudgedBy& judged) {
  std::string why = why_incomparable(layout, reference);
  if (!why.empty()) return {.incomparable = std::move(why)};
  return Comparison(layout, reference, names, judged).made();
}

}  // namespace verify
