#include "verify/run/watched_values.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "sim/comm/process_group.h"
#include "verify/output/phrases.h"
#include "verify/run/placements.h"
#include "verify/run/wrong_value.h"

namespace verify {

namespace {

constexpr std::int64_t kExplainedOfWatch = 8;  // values that differ; of the others it is only said

/// Splits a text at tabs. The last part has what is left.
std::vector<std::string> parts_of_name(const std::string& name, std::size_t most) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = name.find('\t'); end != std::string::npos && parts.size() + 1 < most;
       end = name.find('\t', begin)) {
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(name.substr(begin));
  return parts;
}

void add_watched(WatchedValues& all, int rank, const std::string& name, StoredValue::Part part) {
  const std::vector<std::string> parts = parts_of_name(name, 5);
  if (parts.size() < 5) return;
  const WatchedKey key{part.place.step, part.place.kind == "watched gradient", parts[1], parts[2]};
  const auto [found, is_new] = all.values.try_emplace(key);
  WatchedValues::Value& value = found->second;
  if (is_new) {
    all.order.push_back(key);
    value.kind = parts[3];
    value.layers = parts[4];
  }
  if (value.layers != parts[4]) value.disagreement = "ranks have other layers of the module";
  StoredValue stored{.whole = part.place.whole, .parts = {}, .disagreement = {}};
  stored.parts.push_back(std::move(part));
  if (!value.parts[rank].emplace(std::stoll("0" + parts[0]), std::move(stored)).second)
    value.disagreement = fmt::format("rank {} has several modules of this name, or several gradients", rank);
}

void add_published(WatchedValues& all, int rank, const sim::Published& published,
                   const sim::GuestPlace& place, ReadElements read) {
  if (place.kind == "watched" || place.kind == "watched gradient")
    return add_watched(all, rank, published.name, {rank, place, std::move(read)});
  if (place.kind != "unwatched" && place.kind != "unmatched") return;
  const std::vector<std::string> parts = parts_of_name(published.name, 2);
  (place.kind == "unwatched" ? all.unwatched : all.unmatched)[parts.front()] = parts.back();
}

/// Names a value in a forward as explanations do.
ValueKey named_in(const WatchedKey& key, std::int64_t forward) {
  return {key.step, key.is_gradient ? PublishedKind::gradient : PublishedKind::value,
          fmt::format("what {} {} (microbatch {})", key.module, key.role, forward)};
}

/// Returns the values of one rank by forwards.
GlobalValues by_microbatch(const WatchedValues& watched) {
  GlobalValues all;
  for (const auto& [key, value] : watched.values)
    for (const auto& [number, stored] : value.parts.begin()->second)
      all.values.emplace(named_in(key, number), stored);
  return all;
}

/// The numbers of one value: those of the reference, and those of all ranks of a layout.
struct WatchNumbers {
  std::vector<std::vector<double>> right;  // by forward
  std::vector<double> bounds;
  std::map<int, std::vector<std::vector<double>>> got;  // by rank and forward
};

/// How well a placement explains a value.
struct PlacementFit {
  const Placement* placement;
  double factor;
  std::int64_t wrong = 0;
  double error = 0;  // the sum of squares
};

PlacementFit fit_of(const Placement& placement, double factor, const WatchNumbers& numbers,
                    const std::vector<std::int64_t>& whole, bool counts_all) {
  PlacementFit fit{&placement, factor};
  for (const auto& [rank, forwards] : numbers.got) {
    const std::vector<std::int64_t> places = placement.places(rank, whole);
    for (std::size_t number = 0; number < forwards.size(); ++number) {
      const auto of_reference = static_cast<std::size_t>(
          placement.forward(rank, static_cast<std::int64_t>(number), std::ssize(forwards)));
      const std::vector<double>& right = numbers.right[of_reference];
      for (std::size_t i = 0; i < places.size(); ++i) {
        const double got = forwards[number][i] / factor, wanted = right[static_cast<std::size_t>(places[i])];
        const double error = got == wanted ? 0 : std::abs(got - wanted);
        fit.error += error * error;
        if (!(error <= numbers.bounds[of_reference])) ++fit.wrong;
      }
      if (fit.wrong > 0 && !counts_all) return fit;
    }
  }
  return fit;
}

/// Returns why shapes say nothing of places: they are not the same in all forwards; "" if they are.
std::string varying_shape(const WatchedValues::Value& right, const WatchedValues::Value& got) {
  for (const WatchedValues::Value* value : {&right, &got}) {
    const StoredValue& first = value->parts.begin()->second.begin()->second;
    for (const auto& [rank, forwards] : value->parts)
      for (const auto& [number, stored] : forwards)
        if (stored.whole != first.whole)
          return fmt::format("its shape is {} and {}: it depends on data, or on the rank",
                             text_of_shape(first.whole), text_of_shape(stored.whole));
  }
  return "";
}

/// Returns why forwards are not those of the reference, divided among ranks; "" if they may be.
std::string other_forwards(const WatchedValues::Value& right, const WatchedValues::Value& got) {
  const auto& of_reference = right.parts.begin()->second;
  const std::size_t first = got.parts.begin()->second.size();
  for (const auto* const all : {&right.parts, &got.parts})
    for (const auto& [rank, forwards] : *all)
      if (forwards.rbegin()->first + 1 != std::ssize(forwards))
        return fmt::format("rank {} does not have it in all microbatches", rank);
  for (const auto& [rank, forwards] : got.parts)
    if (forwards.size() != first || of_reference.size() % first != 0)
      return fmt::format("rank {} has it {} times in a step, and the reference {} times", rank,
                         forwards.size(), of_reference.size());
  return "";
}

}  // namespace

WatchedValues watched_values(const sim::RunReport& report, const sim::GuestRecord& record) {
  WatchedValues all{.ranks = std::ssize(record.places)};
  for (std::size_t rank = 0; rank < record.places.size(); ++rank) {
    const std::vector<sim::Published>& published = report.ranks[rank].published;
    for (std::size_t i = 0; i < std::min(published.size(), record.places[rank].size()); ++i)
      add_published(all, report.ranks[rank].rank, published[i], record.places[rank][i],
                    reading_of(published[i]));
  }
  return all;
}

namespace {

/// Compares the values of one layout with those of the reference, one after the other.
class WatchComparison {
 public:
  WatchComparison(const WatchedValues& right, const GlobalValues& reference, const ValueBounds& bounds,
                  const WatchedValues& layout, const NamesOfLayout& names, bool layout_holds)
      : right_(right),
        reference_(reference),
        bounds_(bounds),
        layout_(layout),
        names_(names),
        layout_holds_(layout_holds) {}

  ComparedWatch made() {
    ComparedWatch all;
    bool differs = false;
    for (std::int64_t step = 0; step == 0 || (!differs && step < reference_.steps()); ++step)
      for (const WatchedKey& key : right_.order) {
        if (key.step != step) continue;
        WatchRow row = compared(key);
        differs = differs || row.state == WatchState::differs;
        if (step == 0 || row.state == WatchState::differs) all.rows.push_back(std::move(row));
      }
    for (const WatchedKey& key : layout_.order)
      if (key.step == 0 && !right_.values.contains(key))
        all.rows.push_back({key, WatchState::not_compared, 0, "the reference does not have it"});
    all.factor = factor_.value_or(1);
    return all;
  }

 private:
  /// Returns why a value is not compared; "" if it is.
  std::string objection(const WatchedKey& key, const WatchedValues::Value& right) const {
    if (right_.ranks != 1) return fmt::format("the reference has {}", counted(right_.ranks, "rank"));
    if (!bounds_.objection().empty()) return bounds_.objection();
    for (const WatchedValues* values : {&layout_, &right_})
      if (const auto why = values->unwatched.find(key.module); why != values->unwatched.end())
        return why->second;
    const auto own = layout_.values.find(key);
    if (own == layout_.values.end()) return "no rank has it";
    const WatchedValues::Value& got = own->second;
    if (got.kind != right.kind)
      return fmt::format("its class is {} here, and {} in the reference", got.kind, right.kind);
    if (got.layers != right.layers) return "ranks have other layers of the module than the reference";
    for (const std::string& why :
         {right.disagreement, got.disagreement, other_forwards(right, got), varying_shape(right, got)})
      if (!why.empty()) return why;
    return "";
  }

  WatchRow compared(const WatchedKey& key) {
    const WatchedValues::Value& right = right_.values.at(key);
    const auto& forwards = right.parts.begin()->second;
    WatchRow row{.key = key, .state = WatchState::not_compared, .microbatches = std::ssize(forwards)};
    row.what = objection(key, right);
    if (!row.what.empty()) return row;
    const WatchedValues::Value& got = layout_.values.at(key);
    const std::vector<std::int64_t>& whole = forwards.begin()->second.whole;
    const auto& of_rank = got.parts.begin()->second;
    const std::vector<std::int64_t>& part = of_rank.begin()->second.whole;
    std::vector<int> ranks;
    for (const auto& [rank, parts] : got.parts) ranks.push_back(rank);
    const std::vector<Placement> placements = placements_of(
        whole, part, std::ssize(forwards) / std::ssize(of_rank), std::ssize(of_rank), ranks, names_.groups);
    if (placements.empty()) {
      row.what = fmt::format("groups of the program do not say how {} becomes {}", text_of_shape(whole),
                             text_of_shape(part));
      return row;
    }
    return judged(std::move(row), placements, numbers_of(key, right, got), whole);
  }

  WatchNumbers numbers_of(const WatchedKey& key, const WatchedValues::Value& right,
                          const WatchedValues::Value& got) const {
    WatchNumbers numbers;
    for (const auto& [number, stored] : right.parts.begin()->second) {
      numbers.right.push_back(stored.parts.front().read());
      numbers.bounds.push_back(bounds_.of(named_in(key, number), largest_of(numbers.right.back())));
    }
    for (const auto& [rank, forwards] : got.parts)
      for (const auto& [number, stored] : forwards) numbers.got[rank].push_back(stored.parts.front().read());
    return numbers;
  }

  std::vector<double> factors_of(const WatchedKey& key, const Placement& placement) const {
    if (!key.is_gradient) return {1};
    if (factor_) return {static_cast<double>(*factor_)};
    const std::vector<std::int64_t> all = placement.factors();
    return {all.begin(), all.end()};
  }

  WatchRow judged(WatchRow row, const std::vector<Placement>& placements, const WatchNumbers& numbers,
                  const std::vector<std::int64_t>& whole) {
    for (const std::vector<double>& right : numbers.right)
      if (std::ranges::any_of(right, [](double x) { return std::isnan(x); })) {
        row.what = "elements of the reference are no numbers";
        return row;
      }
    for (const Placement& placement : placements)
      for (const double factor : factors_of(row.key, placement))
        if (fit_of(placement, factor, numbers, whole, false).wrong == 0) {
          row.state = WatchState::agrees;
          learn_factor(row.key, factor, numbers);
          return row;
        }
    if (layout_holds_) {
      row.what = "the layout holds, so that its parts lie elsewhere than groups and shapes say";
      return row;
    }
    row.state = WatchState::differs;
    if (explained_++ < kExplainedOfWatch) row.what = explained(row.key, placements, numbers, whole);
    return row;
  }

  /// The first gradient that is not zero but for rounding says by what all are multiplied.
  void learn_factor(const WatchedKey& key, double factor, const WatchNumbers& numbers) {
    if (!key.is_gradient || factor_) return;
    for (std::size_t number = 0; number < numbers.right.size(); ++number)
      if (largest_of(numbers.right[number]) > 4 * numbers.bounds[number])
        factor_ = static_cast<std::int64_t>(factor);
  }

  /// Says how a value differs under the placement that makes most of it right.
  std::string explained(const WatchedKey& key, const std::vector<Placement>& placements,
                        const WatchNumbers& numbers, const std::vector<std::int64_t>& whole) const {
    std::optional<PlacementFit> best;
    for (const Placement& placement : placements)
      for (const double factor : factors_of(key, placement)) {
        const PlacementFit fit = fit_of(placement, factor, numbers, whole, true);
        if (!best || std::pair(fit.wrong, fit.error) < std::pair(best->wrong, best->error)) best = fit;
      }
    for (std::size_t number = 0; number < numbers.right.size(); ++number) {
      const std::string what = wrong_forward(key, number, *best, numbers, whole);
      if (!what.empty()) return what;
    }
    return "";
  }

  /// Says what is wrong with a value in one forward of the reference; "" if nothing is.
  std::string wrong_forward(const WatchedKey& key, std::size_t number, const PlacementFit& fit,
                            const WatchNumbers& numbers, const std::vector<std::int64_t>& whole) const {
    GlobalValue got{.whole = whole, .pieces = {}};
    const std::vector<double>& right = numbers.right[number];
    WrongValue wrong{.key = named_in(key, static_cast<std::int64_t>(number)),
                     .elements = std::ssize(right),
                     .ranks = {},
                     .what = {}};
    std::set<std::int64_t> places;
    for (const auto& [rank, forwards] : numbers.got)
      for (std::size_t own = 0; own < forwards.size(); ++own) {
        if (std::cmp_not_equal(
                fit.placement->forward(rank, static_cast<std::int64_t>(own), std::ssize(forwards)), number))
          continue;
        Piece piece{rank, fit.placement->places(rank, whole), forwards[own]};
        for (std::size_t i = 0; i < piece.places.size(); ++i) {
          piece.elements[i] /= fit.factor;
          const double wanted = right[static_cast<std::size_t>(piece.places[i])];
          if (piece.elements[i] == wanted || std::abs(piece.elements[i] - wanted) <= numbers.bounds[number])
            continue;
          places.insert(piece.places[i]);
          wrong.ranks.insert(rank);
        }
        got.pieces.push_back(std::move(piece));
      }
    if (places.empty()) return "";
    wrong.wrong = std::ssize(places);
    const GlobalValues none;
    wrong.what = explained_value({wrong, got, right, numbers.bounds[number], none, reference_, names_});
    return fmt::format("{}what {} {} in step {}, microbatch {}, on {}: {}",
                       key.is_gradient ? "the gradient of " : "", key.module, key.role, key.step, number,
                       sim::text_of_ranks({wrong.ranks.begin(), wrong.ranks.end()}), wrong.what);
  }

  const WatchedValues& right_;
  const GlobalValues& reference_;
  const ValueBounds& bounds_;
  const WatchedValues& layout_;
  const NamesOfLayout& names_;
  bool layout_holds_;
  std::optional<std::int64_t> factor_;
  std::int64_t explained_ = 0;
};

}  // namespace

WatchReference::WatchReference(const WatchedValues& reference, const WatchedValues* twin)
    : watched_(reference),
      by_microbatch_(by_microbatch(reference)),
      of_twin_(twin == nullptr ? GlobalValues{} : by_microbatch(*twin)),
      bounds_(by_microbatch_, {.twin = twin == nullptr ? nullptr : &of_twin_}) {}

ComparedWatch WatchReference::compared(const WatchedValues& layout, const NamesOfLayout& names,
                                       bool layout_holds) const {
  return WatchComparison(watched_, by_microbatch_, bounds_, layout, names, layout_holds).made();
}

}  // namespace verify
