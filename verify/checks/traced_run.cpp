#include "verify/checks/traced_run.h"

#include <algorithm>
#include <utility>

#include "sim/tensor/counting_device.h"

namespace verify {

namespace {

using Marks = std::vector<sim::WorkMark>;

/// Returns the part in which a rank was before the first mark for which `is_later` holds.
template <typename IsLater>
sim::WorkPart part_before(const Marks& marks, const IsLater& is_later) {
  const auto later = std::partition_point(marks.begin(), marks.end(),
                                          [&](const sim::WorkMark& mark) { return !is_later(mark); });
  return later == marks.begin() ? sim::WorkPart() : std::prev(later)->part;
}

sim::WorkPart part_at_work(const Marks& marks, std::int64_t work) {
  return part_before(marks, [&](const sim::WorkMark& mark) { return mark.work > work; });
}

sim::WorkPart part_of_call(const Marks& marks, std::size_t record) {
  return part_before(marks, [&](const sim::WorkMark& mark) { return mark.calls > record; });
}

/// The slices of a rank, of which those that compute are cut where another part begins.
struct CutSlices {
  std::vector<sim::Slice> slices;
  std::vector<sim::WorkPart> parts;
};

CutSlices cut(const std::vector<sim::Slice>& slices, const Marks& marks, const sim::TimelineCost& cost) {
  CutSlices all;
  const auto add = [&](const sim::Slice& slice, const sim::WorkPart& part) {
    all.slices.push_back(slice);
    all.parts.push_back(part);
  };
  std::int64_t work = 0;  // done before the rest of the slice
  auto next = marks.begin();
  for (const sim::Slice& slice : slices) {
    if (slice.kind != sim::SliceKind::compute) {
      add(slice, part_of_call(marks, slice.record));
      continue;
    }
    sim::Slice rest = slice;
    const std::int64_t end = work + (slice.end - slice.begin) / cost.work;
    for (; next != marks.end() && next->work < end; ++next) {
      if (next->work <= work) continue;
      sim::Slice piece = rest;
      rest.begin = piece.end = rest.begin + (next->work - work) * cost.work;
      add(piece, part_at_work(marks, work));
      work = next->work;
    }
    add(rest, part_at_work(marks, work));
    work = end;
  }
  return all;
}

}  // namespace

TracedRun traced_run(std::string what, const sim::WorldSpec& spec, sim::RunReport run,
                     const sim::CountingDevice& device) {
  for (sim::RankReport& rank : run.ranks) rank.published.clear();
  TracedRun traced{.what = std::move(what),
                   .layout = spec.layout,
                   .run = std::move(run),
                   .cost = {.eager_bytes = spec.eager_bytes},
                   .timeline = {},
                   .parts = {}};
  traced.timeline = sim::run_timeline(traced.run, traced.cost);
  for (std::size_t i = 0; i < traced.run.ranks.size(); ++i) {
    const auto marks = device.marks().find(traced.run.ranks[i].rank);
    CutSlices own =
        cut(traced.timeline.ranks[i], marks == device.marks().end() ? Marks() : *marks->second, traced.cost);
    traced.timeline.ranks[i] = std::move(own.slices);
    traced.parts.push_back(std::move(own.parts));
  }
  return traced;
}

}  // namespace verify
