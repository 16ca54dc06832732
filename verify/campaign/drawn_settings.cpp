#include "verify/campaign/drawn_settings.h"

#include <algorithm>
#include <utility>

namespace verify {

namespace {

constexpr int kMostClasses = 4;
constexpr std::uint64_t kGroupsForOneOfOneRank = 10;
constexpr int kMostReplicas = 2;
/// Seeds of settings are below this, so that --seed takes each of them.
constexpr std::uint32_t kMostSeed = 1U << 24U;
// Indexes of the first factors.
constexpr std::size_t kBeside = 0, kReplicas = 1, kFirstAxis = 2;
/// A factor takes three random numbers for a run: for its turn, for its class and for its number.
constexpr std::uint64_t kTurn = 0, kClass = 1, kNumber = 2, kDraws = 3;

}  // namespace

PairCover::PairCover(const std::vector<int>& values) {
  for (const int count : values) {
    first_.push_back(ids_);
    ids_ += static_cast<std::size_t>(count);
  }
  const std::size_t factors = values.size();
  all_.open.assign(ids_ * ids_, 0);
  all_.open_of_factor.assign(ids_ * factors, 0);
  for (std::size_t f = 0; f < factors; ++f) {
    for (std::size_t g = 0; g < factors; ++g) {
      if (f == g) continue;
      for (int value = 0; value < values[f]; ++value) {
        all_.open_of_factor[id(f, value) * factors + g] = values[g];
        for (int other = 0; other < values[g]; ++other) all_.open[id(f, value) * ids_ + id(g, other)] = 1;
        if (f < g) all_.left += static_cast<std::size_t>(values[g]);
      }
    }
  }
  now_ = all_;
}

void PairCover::close(Pairs& pairs, std::size_t factor, int value, std::size_t other, int other_value) const {
  const std::size_t a = id(factor, value), b = id(other, other_value);
  if (pairs.open[a * ids_ + b] == 0) return;
  pairs.open[a * ids_ + b] = pairs.open[b * ids_ + a] = 0;
  --pairs.open_of_factor[a * first_.size() + other];
  --pairs.open_of_factor[b * first_.size() + factor];
  --pairs.left;
}

void PairCover::leave_out(std::size_t factor, int value, std::size_t other, int other_value) {
  close(all_, factor, value, other, other_value);
  close(now_, factor, value, other, other_value);
}

PairCover::Gain PairCover::gain(std::size_t factor, int value, const std::vector<int>& row) const {
  Gain gain;
  const std::size_t own = id(factor, value);
  for (std::size_t other = 0; other < row.size(); ++other) {
    if (other == factor) continue;
    if (row[other] == kNone) {
      gain.chances += now_.open_of_factor[own * row.size() + other];
    } else {
      gain.pairs += is_open(own, id(other, row[other])) ? 1 : 0;
    }
  }
  return gain;
}

void PairCover::cover(const std::vector<int>& row) {
  for (std::size_t f = 0; f < row.size(); ++f) {
    for (std::size_t g = f + 1; g < row.size(); ++g) {
      if (row[f] != kNone && row[g] != kNone) close(now_, f, row[f], g, row[g]);
    }
  }
  if (now_.left > 0) return;
  now_ = all_;
  ++covers_;
}

int DrawnSettings::Range::classes() const {
  return static_cast<int>(std::min<std::int64_t>(most - least + 1, kMostClasses));
}

DrawnSettings::Range DrawnSettings::Range::numbers_of(int a_class) const {
  const bool is_short = most - least < kMostClasses;
  if (is_short || a_class == 0) return {least + a_class, least + a_class};
  const std::int64_t rest = most - least;
  return {least + 1 + rest * (a_class - 1) / (kMostClasses - 1), least + rest * a_class / (kMostClasses - 1)};
}

int DrawnSettings::Range::class_of(std::int64_t number) const {
  int a_class = 0;
  while (numbers_of(a_class).most < number) ++a_class;
  return a_class;
}

DrawnSettings::DrawnSettings(const Case& the_case, const std::string& property,
                             std::vector<sim::DType> dtypes, std::uint64_t seed, int max_world)
    : ranks_(the_case.ranks()),
      dtypes_(std::move(dtypes)),
      random_(sim::KeyedRandom(seed).named(the_case.name()).named(property)),
      random_of_worlds_(random_.named("world")),
      random_of_seeds_(random_.named("seed")),
      dimensions_(the_case.dimensions()),
      cover_({}) {
  const auto others = std::stable_partition(dimensions_.begin(), dimensions_.end(),
                                            [](const Dimension& d) { return d.is_an_axis; });
  axes_ = static_cast<std::size_t>(others - dimensions_.begin());
  const int most_replicas = ranks_ == Ranks::tensor_parallel && max_world > 1 ? kMostReplicas : 1;
  add_factor("ranks beside the axes", {1, max_world});
  add_factor("replicas", {1, most_replicas});
  for (std::size_t i = 0; i < axes_; ++i) add_dimension(dimensions_[i]);
  add_factor("dtype", {0, std::ssize(dtypes_) - 1});
  for (std::size_t i = axes_; i < dimensions_.size(); ++i) add_dimension(dimensions_[i]);
  by_axes_.resize(axes_ + 2);
  add_worlds({}, max_world);
  keep_worlds_that_fit();
  std::vector<int> classes;
  for (const Factor& factor : factors_) classes.push_back(factor.range.classes());
  cover_ = PairCover(classes);
  leave_out_impossible_pairs();
}

void DrawnSettings::add_factor(const std::string& name, Range range) {
  factors_.push_back({range, random_.named(name), factors_.size()});
}

void DrawnSettings::add_dimension(const Dimension& dimension) {
  add_factor("dimension " + dimension.name, {dimension.least, dimension.most});
  for (std::size_t i = 0; i < axes_; ++i) {
    if (dimension.most_needs == dimensions_[i].name) factors_.back().needs = kFirstAxis + i;
  }
}

/// Adds all worlds that begin with these numbers. A number that is the least of its range is taken even where
/// the world has no room for it.
void DrawnSettings::add_worlds(World world, int max_world) {
  const std::size_t at = world.numbers.size();
  if (at == kFirstAxis + axes_) {
    const auto in_use = std::ranges::count_if(world.numbers, [](auto number) { return number > 1; });
    const bool has_replicas = world.numbers[kReplicas] > 1;
    world.row.assign(factors_.size(), PairCover::kNone);
    for (std::size_t f = 0; f < at; ++f) world.row[f] = factors_[f].range.class_of(world.numbers[f]);
    by_axes_[static_cast<std::size_t>(in_use) - (has_replicas ? 1 : 0)].push_back(std::move(world));
    return;
  }
  const Range range = factors_[at].range;
  for (std::int64_t number = range.least; number <= range.most; ++number) {
    World next = world;
    next.numbers.push_back(number);
    const std::int64_t replicas = at >= kReplicas ? next.numbers[kReplicas] : 1;
    const std::int64_t group_size =
        at == kReplicas ? world.group_size : world.group_size * std::max<std::int64_t>(number, 1);
    const bool fits = group_size * replicas <= max_world;
    if (!fits && number > range.least) return;
    next.fits = world.fits && fits;
    if (fits) next.group_size = static_cast<int>(group_size);
    add_worlds(std::move(next), max_world);
  }
}

/// Leaves out the worlds that do not fit, unless there are no others: the case then divides its group as far
/// as it can.
void DrawnSettings::keep_worlds_that_fit() {
  const auto any_fits = [](const std::vector<World>& worlds) {
    return std::ranges::any_of(worlds, [](const World& world) { return world.fits; });
  };
  if (std::ranges::any_of(by_axes_, any_fits)) {
    for (std::vector<World>& worlds : by_axes_)
      std::erase_if(worlds, [](const World& world) { return !world.fits; });
  }
  std::erase_if(by_axes_, [](const std::vector<World>& worlds) { return worlds.empty(); });
}

/// Returns whether a pair of this class with a class of the other factor can be covered in this world: the
/// class can be drawn there and has an effect. Its pair with the axis that it needs counts without one.
bool DrawnSettings::counts(std::size_t factor, int a_class, std::size_t other, const World& world) const {
  const bool is_of_worlds = factor < kFirstAxis + axes_;
  if (is_of_worlds && world.row[factor] != a_class) return false;
  return has_effect(factor, a_class, world) || factors_[factor].needs == other;
}

/// Leaves out the pairs that cannot be covered in any world of at most --max-world ranks.
void DrawnSettings::leave_out_impossible_pairs() {
  const auto is_possible = [&](std::size_t f, int a, std::size_t g, int b) {
    return std::ranges::any_of(by_axes_, [&](const std::vector<World>& worlds) {
      return std::ranges::any_of(
          worlds, [&](const World& world) { return counts(f, a, g, world) && counts(g, b, f, world); });
    });
  };
  for (std::size_t f = 0; f < factors_.size(); ++f) {
    for (std::size_t g = f + 1; g < factors_.size(); ++g) {
      for (int a = 0; a < factors_[f].range.classes(); ++a) {
        for (int b = 0; b < factors_[g].range.classes(); ++b) {
          if (!is_possible(f, a, g, b)) cover_.leave_out(f, a, g, b);
        }
      }
    }
  }
}

/// Draws a world with the number of axes whose turn it is. Of all such worlds it is one whose numbers are in
/// the most open pairs.
const DrawnSettings::World& DrawnSettings::drawn_world() const {
  const std::size_t deepest = by_axes_.size() - 1;
  const bool is_least = deepest == 0 || number_ % kGroupsForOneOfOneRank == kGroupsForOneOfOneRank - 1;
  const std::uint64_t turn = number_ - number_ / kGroupsForOneOfOneRank;
  const std::vector<World>& worlds = by_axes_[is_least ? 0 : 1 + turn % deepest];
  const std::size_t first = random_of_worlds_.below(number_, static_cast<std::uint32_t>(worlds.size()));
  const World* best = nullptr;
  int most = -1;
  for (std::size_t i = 0; i < worlds.size(); ++i) {
    const World& world = worlds[(first + i) % worlds.size()];
    int open = 0;
    for (std::size_t f = 0; f < world.numbers.size(); ++f) {
      const PairCover::Gain gain = cover_.gain(f, world.row[f], world.row);
      open += gain.pairs + gain.chances;
    }
    if (open <= most) continue;
    most = open;
    best = &world;
  }
  return *best;
}

/// Returns whether a class of a factor has an effect of its own in this world.
bool DrawnSettings::has_effect(std::size_t factor, int a_class, const World& world) const {
  const Factor& own = factors_[factor];
  return own.needs == factor || a_class < own.range.classes() - 1 || world.numbers[own.needs] > 1;
}

/// Returns how many open pairs a class would close in the row. A class without effect closes only its pair
/// with the axis that it needs.
PairCover::Gain DrawnSettings::gain(std::size_t factor, int a_class, const World& world,
                                    const std::vector<int>& row) const {
  if (has_effect(factor, a_class, world)) return cover_.gain(factor, a_class, row);
  const std::size_t axis = factors_[factor].needs;
  return {cover_.is_open(factor, a_class, axis, row[axis]) ? 1 : 0, 0};
}

/// Gives the row a class of each factor that it does not have yet, in a drawn order. It is the class that
/// closes the most open pairs; among several such classes, one is drawn.
void DrawnSettings::fill(const World& world, std::vector<int>& row) const {
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t f = 0; f < row.size(); ++f) {
    if (row[f] == PairCover::kNone) order.emplace_back(factors_[f].random.bits(number_ * kDraws + kTurn), f);
  }
  std::ranges::sort(order);
  for (const auto& [turn, f] : order) {
    const int classes = factors_[f].range.classes();
    const auto first = static_cast<int>(
        factors_[f].random.below(number_ * kDraws + kClass, static_cast<std::uint32_t>(classes)));
    int best = first;
    PairCover::Gain most = gain(f, first, world, row);
    for (int i = 1; i < classes; ++i) {
      const int a_class = (first + i) % classes;
      const PairCover::Gain brought = gain(f, a_class, world, row);
      if (brought <= most) continue;
      most = brought;
      best = a_class;
    }
    row[f] = best;
  }
}

/// Closes the pairs of a row in which both classes have an effect, and those of a class without effect with
/// the axis that it needs.
void DrawnSettings::cover(const World& world, std::vector<int> row) {
  for (std::size_t f = 0; f < row.size(); ++f) {
    if (has_effect(f, row[f], world)) continue;
    const std::size_t axis = factors_[f].needs;
    std::vector<int> pair(row.size(), PairCover::kNone);
    std::swap(pair[f], row[f]);
    pair[axis] = row[axis];
    cover_.cover(pair);
  }
  cover_.cover(row);
}

std::int64_t DrawnSettings::drawn_number(std::size_t factor, int a_class) const {
  const Range numbers = factors_[factor].range.numbers_of(a_class);
  const auto choices = static_cast<std::uint32_t>(numbers.most - numbers.least + 1);
  return numbers.least + std::int64_t{factors_[factor].random.below(number_ * kDraws + kNumber, choices)};
}

CaseSetting DrawnSettings::next() {
  const World& world = drawn_world();
  std::vector<int> row = world.row;
  fill(world, row);
  const std::size_t dtype = kFirstAxis + axes_;
  CaseSetting setting{.group_size = world.group_size,
                      .replicas = static_cast<int>(world.numbers[kReplicas]),
                      .ranks = ranks_,
                      .dtype = dtypes_[static_cast<std::size_t>(row[dtype])],
                      .seed = random_of_seeds_.below(number_, kMostSeed)};
  for (std::size_t i = 0; i < dimensions_.size(); ++i) {
    const std::size_t factor = kFirstAxis + i + (i < axes_ ? 0 : 1);
    setting.dimensions[dimensions_[i].name] =
        i < axes_ ? world.numbers[factor] : drawn_number(factor, row[factor]);
  }
  cover(world, row);
  ++number_;
  return setting;
}

}  // namespace verify
