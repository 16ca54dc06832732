#include "verify/run/placements.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace verify {

namespace {

/// Groups of one kind and size, of which each rank is in one.
using Family = std::vector<const sim::GuestGroup*>;

std::vector<Family> families_of(const std::vector<sim::GuestGroup>& groups) {
  std::vector<Family> all;
  std::vector<std::set<int>> members;  // of each
  std::map<std::pair<std::string, std::size_t>, std::size_t> last;
  for (const sim::GuestGroup& group : groups) {
    const auto known = last.find({group.name, group.members.size()});
    const bool goes_on = known != last.end() && std::ranges::none_of(group.members, [&](int rank) {
                           return members[known->second].contains(rank);
                         });
    const std::size_t place = goes_on ? known->second : all.size();
    if (!goes_on) {
      all.emplace_back();
      members.emplace_back();
      last[{group.name, group.members.size()}] = place;
    }
    all[place].push_back(&group);
    members[place].insert(group.members.begin(), group.members.end());
  }
  return all;
}

/// Ranks with their parts, and how many parts there are.
struct Division {
  std::int64_t parts;
  PartOfRank part;
};

bool is_complete(const Division& division, std::size_t ranks) {
  std::set<std::int64_t> parts;
  for (const auto& [rank, part] : division.part) parts.insert(part);
  return division.parts > 1 && division.part.size() == ranks && std::ssize(parts) == division.parts;
}

void add_new(std::vector<Division>& all, Division division, std::size_t ranks) {
  if (is_complete(division, ranks) &&
      std::ranges::none_of(all, [&](const Division& each) { return each.part == division.part; }))
    all.push_back(std::move(division));
}

/// Returns how the program's groups divide these ranks, and how all of them are numbered.
std::vector<Division> divisions_of(const std::vector<int>& ranks,
                                   const std::vector<sim::GuestGroup>& groups) {
  std::vector<Division> all;
  for (const Family& family : families_of(groups)) {
    Division made{.parts = std::ssize(family.front()->members), .part = {}};
    for (const sim::GuestGroup* group : family)
      for (std::size_t place = 0; place < group->members.size(); ++place)
        if (std::ranges::find(ranks, group->members[place]) != ranks.end())
          made.part[group->members[place]] = static_cast<std::int64_t>(place);
    add_new(all, std::move(made), ranks.size());
  }
  Division numbered{.parts = std::ssize(ranks), .part = {}};
  for (const int rank : ranks) numbered.part.emplace(rank, std::ssize(numbered.part));
  add_new(all, std::move(numbered), ranks.size());
  return all;
}

/// Adds the divisions by two kinds of groups.
std::vector<Division> with_pairs(const std::vector<Division>& single, std::size_t ranks) {
  std::vector<Division> all = single;
  for (const Division& outer : single) {
    for (const Division& inner : single) {
      Division made{.parts = outer.parts * inner.parts, .part = {}};
      for (const auto& [rank, part] : outer.part) made.part[rank] = part * inner.parts + inner.part.at(rank);
      add_new(all, std::move(made), ranks);
    }
  }
  return all;
}

/// Returns the places of one part of an axis.
std::vector<std::int64_t> taken(const std::vector<std::int64_t>& axis, const AxisCut& cut, int rank) {
  std::int64_t chunks = cut.as == CutAs::contiguous ? cut.parts : 2 * cut.parts;
  if (cut.as == CutAs::interleaved) chunks = std::ssize(axis);
  const std::int64_t size = std::ssize(axis) / chunks, part = cut.part.at(rank);
  std::vector<std::int64_t> numbers{part};
  for (std::int64_t next = part + cut.parts; cut.as == CutAs::interleaved && next < chunks; next += cut.parts)
    numbers.push_back(next);
  if (cut.as == CutAs::mirrored) numbers.push_back(chunks - 1 - part);
  if (cut.as == CutAs::halves) numbers.push_back(cut.parts + part);
  std::vector<std::int64_t> places;
  for (const std::int64_t chunk : numbers)
    places.insert(places.end(), axis.begin() + chunk * size, axis.begin() + (chunk + 1) * size);
  return places;
}

using Cuts = std::vector<AxisCut>;

/// Adds the ways in which a mirrored part is cut once more.
void add_cut_twice(std::int64_t whole, std::int64_t parts, const std::vector<Division>& single,
                   std::vector<Cuts>& all) {
  for (const Division& outer : single) {
    if (parts % outer.parts != 0 || whole / outer.parts % 2 != 0) continue;
    for (const Division& inner : single)
      if (outer.parts * inner.parts == parts)
        all.push_back(
            {{CutAs::mirrored, outer.parts, outer.part}, {CutAs::contiguous, inner.parts, inner.part}});
  }
}

/// Returns the ways in which an axis is cut into parts of a size.
std::vector<Cuts> cuts_of_axis(std::int64_t whole, std::int64_t size, const std::vector<Division>& single,
                               const std::vector<Division>& divisions) {
  if (whole == size) return {{}};
  if (size == 0 || whole % size != 0) return {};
  const std::int64_t parts = whole / size;
  std::vector<Cuts> all;
  for (const CutAs as : {CutAs::contiguous, CutAs::mirrored, CutAs::halves, CutAs::interleaved}) {
    const bool needs_halves = as == CutAs::mirrored || as == CutAs::halves;
    if (size == 1 && as != CutAs::contiguous) continue;  // it is the same
    if (needs_halves && size % 2 != 0) continue;
    for (const Division& division : divisions)
      if (division.parts == parts) all.push_back({{as, parts, division.part}});
  }
  add_cut_twice(whole, parts, single, all);
  return all;
}

std::vector<ForwardsOfRank> ways_of_forwards(std::int64_t parts, std::int64_t count,
                                             const std::vector<Division>& divisions) {
  if (parts == 1) return {{}};
  std::vector<ForwardsOfRank> all;
  for (const Division& division : divisions) {
    if (division.parts != parts) continue;
    for (std::int64_t together = 1; together <= count; ++together)
      if (count % together == 0) all.push_back({parts, division.part, together, false});
    all.push_back({parts, division.part, 1, true});
  }
  return all;
}

/// Returns into how many parts the values of all forwards are cut.
std::int64_t parts_in(const Placement& placement) {
  std::int64_t parts = placement.forwards.parts;
  for (const Cuts& cuts : placement.axes)
    for (const AxisCut& cut : cuts) parts *= cut.parts;
  return parts;
}

/// Whether the ranks together have each part of each forward.
bool has_all(const Placement& placement, const std::vector<int>& ranks) {
  std::set<std::vector<std::int64_t>> held;
  for (const int rank : ranks) {
    std::vector<std::int64_t> of_rank;
    if (placement.forwards.parts > 1) of_rank.push_back(placement.forwards.part.at(rank));
    for (const Cuts& cuts : placement.axes)
      for (const AxisCut& cut : cuts) of_rank.push_back(cut.part.at(rank));
    held.insert(std::move(of_rank));
  }
  return std::ssize(held) == parts_in(placement);
}

}  // namespace

std::vector<std::int64_t> Placement::places(int rank, const std::vector<std::int64_t>& whole) const {
  std::vector<std::int64_t> places{0};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<std::int64_t> axis(static_cast<std::size_t>(whole[i])), longer;
    std::iota(axis.begin(), axis.end(), 0);
    for (const AxisCut& cut : axes[i]) axis = taken(axis, cut, rank);
    for (const std::int64_t place : places)
      for (const std::int64_t at : axis) longer.push_back(place * whole[i] + at);
    places = std::move(longer);
  }
  return places;
}

std::int64_t Placement::forward(int rank, std::int64_t number, std::int64_t count) const {
  if (forwards.parts == 1) return number;
  const std::int64_t part = forwards.part.at(rank), together = forwards.together;
  if (forwards.are_contiguous) return part * count + number;
  return (number / together * forwards.parts + part) * together + number % together;
}

std::vector<std::int64_t> Placement::factors() const {
  std::vector<std::int64_t> all;
  const std::int64_t parts = parts_in(*this);
  for (std::int64_t factor = 1; factor <= parts; ++factor)
    if (parts % factor == 0) all.push_back(factor);
  return all;
}

std::vector<Placement> placements_of(const std::vector<std::int64_t>& whole,
                                     const std::vector<std::int64_t>& part, std::int64_t forwards,
                                     std::int64_t count, const std::vector<int>& ranks,
                                     const std::vector<sim::GuestGroup>& groups) {
  if (whole.size() != part.size()) return {};
  const std::vector<Division> single = divisions_of(ranks, groups);
  const std::vector<Division> divisions = with_pairs(single, ranks.size());
  std::vector<Placement> all;
  for (ForwardsOfRank& way : ways_of_forwards(forwards, count, divisions))
    all.push_back({{}, std::move(way)});
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::vector<Placement> longer;
    for (const Cuts& cuts : cuts_of_axis(whole[i], part[i], single, divisions))
      for (Placement placement : all) {
        placement.axes.push_back(cuts);
        longer.push_back(std::move(placement));
      }
    all = std::move(longer);
  }
  std::erase_if(all, [&](const Placement& placement) { return !has_all(placement, ranks); });
  return all;
}

}  // namespace verify
