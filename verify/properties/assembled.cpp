#include "verify/properties/assembled.h"

#include <algorithm>
#include <fmt/format.h>

#include "verify/cases/case_inputs.h"
#include "verify/cases/scalars.h"

namespace verify {

namespace {

/// The rows (or columns) of a rank's part.
class Lines {
 public:
  Lines(std::int64_t lines, bool is_cut, int stride, int rank, int ranks)
      : block_(is_cut ? std::max<std::int64_t>(lines / stride, 1) : 0), rank_(rank), ranks_(ranks) {}
  /// Returns where line i of the part lies in the whole.
  std::int64_t place_of(std::int64_t i) const {
    return block_ == 0 ? i : (i / block_ * ranks_ + rank_) * block_ + i % block_;
  }

 private:
  std::int64_t block_;  // the lines of a block; 0 where the part has all lines of the whole
  std::int64_t rank_, ranks_;
};

}  // namespace

template <>
std::vector<sim::Field> values_of(const sim::Published& tensor) {
  return fields_of(tensor.values);
}

template <>
std::vector<double> values_of(const sim::Published& tensor) {
  return doubles_of(tensor.dtype, tensor.values);
}

template <typename Value>
std::string Assembled<Value>::where(const std::string& name, std::size_t i) const {
  const auto width = static_cast<std::size_t>(columns);
  return fmt::format("{}({}, {}){}", name, i / width, i % width,
                     ranks[i] < 0 ? "" : fmt::format(" on rank {}", ranks[i]));
}

Extent extent_of(const sim::Shape& shape) {
  Extent extent;
  const std::size_t dimensions = shape.dimensions();
  if (dimensions > 0) extent.columns = shape[dimensions - 1];
  for (std::size_t i = 0; i + 1 < dimensions; ++i) extent.rows *= shape[i];
  return extent;
}

std::vector<std::size_t> places_in_whole(const CaseOutput& output, const Extent& part, int place, int parts) {
  const bool by_rows = output.placement == Placement::rows;
  const bool by_columns = output.placement == Placement::columns;
  const std::int64_t width = by_columns ? parts * part.columns : part.columns;
  const Lines rows(part.rows, by_rows, output.stride, place, parts);
  const Lines columns(part.columns, by_columns, output.stride, place, parts);
  std::vector<std::size_t> places;
  places.reserve(static_cast<std::size_t>(part.rows * part.columns));
  for (std::int64_t row = 0; row < part.rows; ++row) {
    for (std::int64_t column = 0; column < part.columns; ++column)
      places.push_back(static_cast<std::size_t>(rows.place_of(row) * width + columns.place_of(column)));
  }
  return places;
}

template <typename Value>
Assembled<Value> assembled(const sim::RunReport& report, const CaseOutput& output, int tp, int copy) {
  const bool by_rows = output.placement == Placement::rows;
  const bool by_columns = output.placement == Placement::columns;
  const int parts = output.parts(tp);
  const int ranks = output.part_of.empty() ? tp : static_cast<int>(output.part_of.size());
  Assembled<Value> whole;
  std::vector<bool> has_part(static_cast<std::size_t>(parts), false);
  for (int rank = 0; rank < ranks; ++rank) {
    const int place = output.part(rank, tp);
    if (place < 0 || (output.placement == Placement::replicated && place != copy)) continue;
    const bool adds = has_part[static_cast<std::size_t>(place)];
    if (adds && !output.is_sum()) continue;
    has_part[static_cast<std::size_t>(place)] = true;
    const sim::Published& published = *report.find(rank, output.name);
    const Extent part = extent_of(published.shape);
    if (whole.values.empty()) {
      whole.rows = by_rows ? parts * part.rows : part.rows;
      whole.columns = by_columns ? parts * part.columns : part.columns;
      const auto count = static_cast<std::size_t>(whole.rows * whole.columns);
      whole.values.resize(count);
      whole.ranks.assign(count, -1);
    }
    const std::vector<Value> own = values_of<Value>(published);
    const Lines rows(part.rows, by_rows, output.stride, place, parts);
    const Lines columns(part.columns, by_columns, output.stride, place, parts);
    const Value* next = own.data();
    for (std::int64_t row = 0; row < part.rows; ++row) {
      const std::int64_t first = rows.place_of(row) * whole.columns;
      for (std::int64_t column = 0; column < part.columns; ++column, ++next) {
        const auto at = static_cast<std::size_t>(first + columns.place_of(column));
        whole.values[at] = adds ? whole.values[at] + *next : *next;
        if (by_rows || by_columns) whole.ranks[at] = rank;
      }
    }
  }
  return whole;
}

template struct Assembled<double>;
template struct Assembled<sim::Field>;
template Assembled<double> assembled(const sim::RunReport&, const CaseOutput&, int, int);
template Assembled<sim::Field> assembled(const sim::RunReport&, const CaseOutput&, int, int);

}  // namespace verify
