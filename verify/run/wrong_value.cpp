#include "verify/run/wrong_value.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <utility>

#include "sim/comm/process_group.h"
#include "verify/output/phrases.h"
#include "verify/run/wrong_norm.h"

namespace verify {

namespace {

constexpr double kUnit = std::numeric_limits<double>::epsilon();
constexpr double kEqual = (1 << 25) * kUnit;       // of the largest element; chosen
constexpr double kCounts = 1.0 / (1 << 13);        // of it: a smaller tensor is not taken for another; chosen
constexpr double kOfNumber = 1.0 / (1 << 6);       // the most that one number may be beside a factor; chosen
constexpr double kLooksRight = 1.0 / (1 << 17);    // a factor this near to 1 is told by its difference
constexpr double kSameFactor = (1 << 29) * kUnit;  // of a factor and a whole number; chosen

struct Seen : SeenValue {
  explicit Seen(const SeenValue& value) : SeenValue(value), scale(largest_of(serial)) {}
  double scale;

  bool is(double x, double wanted) const {
    return x == wanted || std::abs(x - wanted) <= std::max(kEqual * std::max(scale, std::abs(wanted)), bound);
  }
  /// The share of the largest element by which a relation may be missed.
  double share() const { return std::max(kSameFactor, bound / scale); }
  /// Whether every element on wrong ranks is what `wanted` says of its number in the whole.
  template <typename Wanted>
  bool all(const Wanted& wanted) const {
    for (const Piece& piece : got.pieces) {
      if (!wrong.ranks.contains(piece.rank)) continue;
      for (std::size_t i = 0; i < piece.places.size(); ++i)
        if (!is(piece.elements[i], wanted(static_cast<std::size_t>(piece.places[i])))) return false;
    }
    return true;
  }
};

std::string no_number(const Seen& seen) {
  for (const Piece& piece : seen.got.pieces)
    for (std::size_t i = 0; i < piece.places.size(); ++i)
      if (!std::isfinite(piece.elements[i]) &&
          piece.elements[i] != seen.serial[static_cast<std::size_t>(piece.places[i])])
        return "it has elements that are no numbers";
  return "";
}

std::string zero(const Seen& seen) {
  return seen.all([](std::size_t) { return 0.0; }) ? "it is zero" : "";
}

bool is_whole(double x, double share) {
  return std::abs(x) > 1.5 && std::abs(x - std::round(x)) <= share * std::abs(x);
}

/// Returns "2 times" or "1/2 of", and the names of sizes that are the number, or whose square is it.
std::string text_of_factor(double factor, double share, const Seen& seen) {
  const bool is_part = std::abs(factor) < 1;
  const double times = is_part ? 1 / factor : factor;
  const double whole = std::round(times);
  if (std::abs(times - whole) > share * std::abs(times)) {
    const bool looks_right = std::abs(factor - 1) < kLooksRight;
    return looks_right ? fmt::format("it is 1 {} {:.2g} times ", factor < 1 ? '-' : '+', std::abs(factor - 1))
                       : fmt::format("it is {:.6g} times ", factor);
  }
  const bool is_square = has_squares(seen.wrong.key);
  std::vector<std::string> called;
  double of_layout = 0;
  for (const auto& [name, number] : seen.names.sizes) {
    const auto size = static_cast<double>(number);
    if ((is_square ? size * size : size) != whole) continue;
    of_layout = size;
    called.push_back(name);
  }
  const std::string of = called.empty() ? ""
                                        : fmt::format(" ({} is {}{})", fmt::join(called, ", "), of_layout,
                                                      is_square ? ", squared" : "");
  return is_part ? fmt::format("it is 1/{}{} of ", whole, of) : fmt::format("it is {}{} times ", whole, of);
}

/// Looks for the factor by which the value is nearest to the right one.
std::string factor(const Seen& seen) {
  double both = 0, right = 0;
  for (const Piece& piece : seen.got.pieces) {
    if (!seen.wrong.ranks.contains(piece.rank)) continue;
    for (std::size_t i = 0; i < piece.places.size(); ++i) {
      const double wanted = seen.serial[static_cast<std::size_t>(piece.places[i])];
      both += piece.elements[i] * wanted;
      right += wanted * wanted;
    }
  }
  const double found = both / right;
  const double share = seen.share();
  if (!(std::abs(found) > share) || !std::isfinite(found) || std::abs(found - 1) <= share) return "";
  if (!seen.all([&](std::size_t i) { return found * seen.serial[i]; })) return "";
  const double of_number = std::min(share, kOfNumber);
  if (seen.serial.size() == 1 && !is_whole(found, of_number) && !is_whole(1 / found, of_number)) return "";
  return text_of_factor(found, share, seen) + "the right one";
}

/// Ranks that hold the same elements of a value, and the different copies that they have of them.
struct Copies {
  std::vector<std::int64_t> places;
  std::vector<std::vector<double>> values;
  std::vector<std::vector<int>> holders;  // of each copy
};

std::vector<Copies> copies_of(const GlobalValue& value) {
  std::map<std::vector<std::int64_t>, Copies> by_places;
  for (const Piece& piece : value.pieces) {
    Copies& copies = by_places[piece.places];
    copies.places = piece.places;
    const auto known = std::ranges::find(copies.values, piece.elements);
    if (known == copies.values.end()) {
      copies.values.push_back(piece.elements);
      copies.holders.push_back({piece.rank});
    } else {
      copies.holders[static_cast<std::size_t>(known - copies.values.begin())].push_back(piece.rank);
    }
  }
  std::vector<Copies> all;
  for (auto& [places, copies] : by_places) all.push_back(std::move(copies));
  return all;
}

/// Returns the dimensions of a layout, in Megatron's order, along which these ranks lie: "tp".
std::string dimensions_of(const std::vector<int>& ranks, const NamesOfLayout& names) {
  std::vector<std::string> found;
  std::int64_t stride = 1;
  for (const char* name : {"tp", "cp", "dp", "pp"}) {
    const auto size = std::ranges::find(names.sizes, name, &std::pair<std::string, std::int64_t>::first);
    if (size == names.sizes.end()) continue;
    bool lie_along = size->second == std::ssize(ranks);
    for (std::size_t i = 1; i < ranks.size(); ++i) lie_along = lie_along && ranks[i] - ranks[i - 1] == stride;
    if (lie_along) found.emplace_back(name);
    stride *= size->second;
  }
  return found.size() == 1 ? found.front() : "";
}

/// Returns a name of the ranks over which copies differ, one rank of each: "tp (ranks 0, 1)".
std::string group_over(const Copies& copies, const NamesOfLayout& names) {
  std::vector<int> ranks;
  for (const std::vector<int>& holders : copies.holders) ranks.push_back(holders.front());
  std::ranges::sort(ranks);
  const std::string text = sim::text_of_ranks(ranks);
  const std::string dimension = dimensions_of(ranks, names);
  if (!dimension.empty()) return fmt::format("{} ({})", dimension, text);
  for (const sim::GuestGroup& group : names.groups)
    if (group.members == ranks && names.sizes.empty()) return fmt::format("{} ({})", group.name, text);
  return text;
}

/// Whether the copies add up to the right values, or are such in the mean.
bool add_up(const Copies& copies, double divisor, const Seen& seen) {
  for (std::size_t i = 0; i < copies.places.size(); ++i) {
    double sum = 0;
    for (const std::vector<double>& copy : copies.values) sum += copy[i];
    if (!seen.is(sum / divisor, seen.serial[static_cast<std::size_t>(copies.places[i])])) return false;
  }
  return true;
}

std::string missing_sum(const Seen& seen) {
  const std::vector<Copies> all = copies_of(seen.got);
  if (all.empty() || std::ranges::any_of(all, [](const Copies& each) { return each.values.size() < 2; }))
    return "";
  const auto mean = [](const Copies& each) { return static_cast<double>(each.values.size()); };
  const std::string over = group_over(all.front(), seen.names);
  if (std::ranges::all_of(all, [&](const Copies& each) { return add_up(each, 1, seen); }))
    return fmt::format("each rank holds its own term: the sum over {} is missing", over);
  if (std::ranges::all_of(all, [&](const Copies& each) { return add_up(each, mean(each), seen); }))
    return fmt::format("each rank holds its own term: the mean over {} is missing", over);
  return "";
}

std::string another_tensor(const Seen& seen) {
  for (const auto& [key, stored] : seen.reference.values) {
    if (key.kind != seen.wrong.key.kind || key == seen.wrong.key || stored.whole != seen.got.whole) continue;
    const std::vector<double> other = seen.reference.at(key).elements();
    if (largest_of(other) < kCounts * seen.scale) continue;
    if (seen.all([&](std::size_t i) { return other[i]; })) return "it is " + text_of(key);
    const bool is_step_before = key.name == seen.wrong.key.name && key.step + 1 == seen.wrong.key.step;
    if (is_step_before && seen.all([&](std::size_t i) { return seen.serial[i] + other[i]; }))
      return fmt::format("{} is added to it", text_of(key));
  }
  return "";
}

}  // namespace

std::string measured_value(const SeenValue& value) {
  if (value.serial.size() == 1) {
    const double got = value.got.elements().front(), right = value.serial.front();
    const std::string own = fmt::format("{:.8g}", got), wanted = fmt::format("{:.8g}", right);
    return own == wanted ? fmt::format("it differs from {} by {:.2g}", wanted, got - right)
                         : fmt::format("it is {} in place of {}", own, wanted);
  }
  double error = 0;
  for (const Piece& piece : value.got.pieces)
    for (std::size_t i = 0; i < piece.places.size(); ++i)
      error = std::max(error,
                       std::abs(piece.elements[i] - value.serial[static_cast<std::size_t>(piece.places[i])]));
  const double largest = largest_of(value.serial);
  return fmt::format("it differs in {} of {} elements, by {:.2g}{} at most",
                     grouped_digits(value.wrong.wrong), grouped_digits(value.wrong.elements),
                     largest > 0 ? error / largest : error, largest > 0 ? " of the largest" : "");
}

std::string explained_value(const SeenValue& value) {
  const Seen seen(value);
  for (std::string (*const recogniser)(const Seen&) :
       {no_number, zero, factor, missing_sum, another_tensor}) {
    std::string what = recogniser(seen);
    if (!what.empty()) return what;
  }
  const std::string norm = explained_norm(value);
  return norm.empty() ? measured_value(value) : norm;
}

}  // namespace verify
