#include "verify/run/compared_values.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <tuple>

#include "verify/output/phrases.h"
#include "verify/run/wrong_value.h"

namespace verify {

namespace {

constexpr double kRounding = std::numeric_limits<double>::epsilon();
constexpr double kOfTensor = (1 << 22) * kRounding, kOfAll = (1 << 9) * kRounding;

/// The largest elements of all values of a kind in a step.
using Largest = std::map<std::pair<std::int64_t, PublishedKind>, double>;

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

/// Returns why the numbers of two runs cannot be compared; "" if they can.
std::string why_incomparable(const GlobalValues& layout, const GlobalValues& reference) {
  std::vector<std::string> reasons;
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
      reasons.size() > 1 ? fmt::format("; {} differ, too", counted(std::ssize(reasons) - 1, "other value"))
                         : "";
  return reasons.front() + more;
}

/// Compares one value. What is right raises the worst slack.
WrongValue compared(const ValueKey& key, const GlobalValue& got, const std::vector<double>& serial,
                    double largest_of_all, double& worst_slack) {
  const double bound = kOfTensor * largest_of(serial) + kOfAll * largest_of_all;
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
                               const NamesOfLayout& names) {
  ComparedValues result{.incomparable = why_incomparable(layout, reference)};
  if (!result.incomparable.empty()) return result;
  Largest largest;
  for (const auto& [key, value] : reference.values) {
    double& most = largest[{key.step, key.kind}];
    for (const Piece& piece : value.pieces) most = std::max(most, largest_of(piece.elements));
  }
  for (const ValueKey& key : in_order(reference)) {
    const GlobalValue& right = reference.values.at(key);
    const auto own = layout.values.find(key);
    ++result.values;
    result.elements += right.count();
    if (own == layout.values.end()) {
      result.wrong.push_back({key, right.count(), right.count(), {}, "no rank has it"});
      continue;
    }
    WrongValue value =
        compared(key, own->second, right.elements(), largest[{key.step, key.kind}], result.worst_slack);
    if (value.wrong == 0) continue;
    if (value.what.empty()) value.what = explained_value(value, own->second, reference, names);
    result.wrong.push_back(std::move(value));
  }
  for (const auto& [key, value] : layout.values)
    if (key.kind == PublishedKind::value && !reference.values.contains(key))
      result.wrong.push_back({key, value.count(), value.count(), {}, "the reference does not have it"});
  return result;
}

}  // namespace verify
