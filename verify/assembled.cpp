#include "verify/assembled.h"

#include <algorithm>
#include <fmt/format.h>

#include "verify/scalars.h"

namespace verify {

namespace {

struct Extent {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};
Extent extent_of(const sim::Shape& shape) {
  Extent extent;
  const std::size_t dimensions = shape.dimensions();
  if (dimensions > 0) extent.columns = shape[dimensions - 1];
  for (std::size_t i = 0; i + 1 < dimensions; ++i) extent.rows *= shape[i];
  return extent;
}

/// Where line i of a part lies in the whole.
std::int64_t line_in_whole(std::int64_t line, std::int64_t lines, int stride, int rank, int ranks) {
  const std::int64_t block = std::max<std::int64_t>(lines / stride, 1);
  return (line / block * ranks + rank) * block + line % block;
}

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

template <typename Value>
Assembled<Value> assembled(const sim::RunReport& report, const CaseOutput& output, int tp) {
  const bool by_rows = output.placement == Placement::rows;
  const bool by_columns = output.placement == Placement::columns;
  const Extent part = extent_of(report.find(0, output.name)->shape);
  Assembled<Value> whole{.rows = by_rows ? tp * part.rows : part.rows,
                         .columns = by_columns ? tp * part.columns : part.columns};
  const auto count = static_cast<std::size_t>(whole.rows * whole.columns);
  whole.values.resize(count);
  whole.ranks.assign(count, -1);
  for (int rank = 0; rank < tp; ++rank) {
    if (output.placement == Placement::replicated && rank > 0) break;
    const std::vector<Value> own = values_of<Value>(*report.find(rank, output.name));
    for (std::int64_t i = 0; i < part.rows; ++i) {
      const std::int64_t row = by_rows ? line_in_whole(i, part.rows, output.stride, rank, tp) : i;
      for (std::int64_t j = 0; j < part.columns; ++j) {
        const std::int64_t column = by_columns ? line_in_whole(j, part.columns, output.stride, rank, tp) : j;
        const auto at = static_cast<std::size_t>(row * whole.columns + column);
        const Value& value = own[static_cast<std::size_t>(i * part.columns + j)];
        const bool adds = output.placement == Placement::partial && rank > 0;
        whole.values[at] = adds ? whole.values[at] + value : value;
        if (by_rows || by_columns) whole.ranks[at] = rank;
      }
    }
  }
  return whole;
}

template struct Assembled<double>;
template struct Assembled<sim::Field>;
template Assembled<double> assembled(const sim::RunReport&, const CaseOutput&, int);
template Assembled<sim::Field> assembled(const sim::RunReport&, const CaseOutput&, int);

}  // namespace verify
