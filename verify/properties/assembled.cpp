#include "verify/properties/assembled.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/tensor/checks.h"
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
  /// Returns how many of `lines` lines of the part are next to each other in the whole.
  std::int64_t together(std::int64_t lines) const { return block_ == 0 ? lines : block_; }

 private:
  std::int64_t block_;  // the lines of a block; 0 where the part has all lines of the whole
  std::int64_t rank_, ranks_;
};

/// Whether this rank publishes a part of the output.
bool has_part(const CaseOutput& output, int rank) {
  return output.part_of.empty() || output.part_of[static_cast<std::size_t>(rank)] >= 0;
}

std::string text_of(const sim::Published& tensor, int rank) {
  return fmt::format("{} {} on rank {}", sim::name_of(tensor.dtype), sim::text_of(tensor.shape), rank);
}

std::string check_dtype(const sim::Published& tensor, int rank, sim::DType dtype) {
  const sim::DType of_sums = sim::sum_dtype(dtype);
  if (tensor.dtype == dtype || tensor.dtype == of_sums) return "";
  const std::string sums = of_sums == dtype ? "" : fmt::format(", or {} for sums", sim::name_of(of_sums));
  return fmt::format("{} is {}, but a case in {} publishes {}{}", tensor.name, text_of(tensor, rank),
                     sim::name_of(dtype), sim::name_of(dtype), sums);
}

/// Returns whether the rows or columns of a part divide into the blocks that its stride says.
std::string check_blocks(const CaseOutput& output, const sim::Published& tensor, int rank) {
  const Extent extent = extent_of(tensor.shape);
  const bool by_rows = output.placement == Placement::rows,
             by_columns = output.placement == Placement::columns;
  const std::int64_t lines = by_rows ? extent.rows : extent.columns;
  if ((!by_rows && !by_columns) || lines % output.stride == 0) return "";
  return fmt::format("{} is {}, but its stride of {} does not divide {} {}", output.name,
                     text_of(tensor, rank), output.stride, lines, by_rows ? "rows" : "columns");
}

/// Returns the output that a rank did not publish, or not as the first rank that has a part of it did.
std::string check_output(const sim::RunReport& report, const CaseOutput& output, sim::DType dtype) {
  const sim::Published* first = nullptr;
  int first_rank = 0;
  for (const sim::RankReport& rank : report.ranks) {
    if (!has_part(output, rank.rank)) continue;
    const sim::Published* own = report.find(rank.rank, output.name);
    if (own == nullptr) return fmt::format("rank {} did not publish {}", rank.rank, output.name);
    if (std::string wrong = check_dtype(*own, rank.rank, dtype); !wrong.empty()) return wrong;
    if (std::string wrong = check_blocks(output, *own, rank.rank); !wrong.empty()) return wrong;
    if (first == nullptr) first_rank = rank.rank;
    if (first == nullptr) first = own;
    if (own->shape == first->shape && own->dtype == first->dtype) continue;
    return fmt::format("{} is {}, but {}", output.name, text_of(*own, rank.rank),
                       text_of(*first, first_rank));
  }
  return "";
}

/// Returns the tensor that a rank published twice, or without a declaration that it does. The outputs are in
/// the order of their names.
std::string check_nothing_else(const sim::RankReport& rank, const std::vector<const CaseOutput*>& outputs) {
  std::string_view last;
  auto next = outputs.begin();
  for (const std::uint32_t at : rank.by_name) {
    const std::string& name = rank.published[at].name;
    const auto known = std::find_if(next, outputs.end(), [&](const auto* o) { return o->name >= name; });
    next = known;
    if (known == outputs.end() || (*known)->name != name)
      return fmt::format("rank {} published {}, which outputs() does not list, so it would not be judged",
                         rank.rank, name);
    if (!has_part(**known, rank.rank))
      return fmt::format("rank {} published {}, of which part_of gives it no part, so it would not be judged",
                         rank.rank, name);
    if (name == last)
      return fmt::format("rank {} published {} twice, so the second would not be judged", rank.rank, name);
    last = name;
  }
  return "";
}

}  // namespace

template <typename Value>
std::vector<Value> values_of(const sim::Published& tensor) {
  std::vector<Value> values;
  with_scalar_of<Value>(tensor.dtype, [&](auto scalar) {
    values.resize(tensor.values.size() / sizeof scalar);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = value_at<decltype(scalar)>(tensor.values.data(), i);
  });
  return values;
}

template <typename Value>
std::string Assembled<Value>::where(const std::string& name, std::size_t i) const {
  const auto width = static_cast<std::size_t>(columns);
  const std::size_t row = i / width, column = i % width;
  const std::size_t number = (is_cut_by_rows ? row : column) / static_cast<std::size_t>(block);
  const int rank = holders.empty() ? -1 : holders[number % holders.size()];
  return fmt::format("{}({}, {}){}", name, row, column, rank < 0 ? "" : fmt::format(" on rank {}", rank));
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

namespace {

/// Writes the elements of a part to their places in the whole, or adds them to what is there.
template <typename Value>
void put(const sim::Published& published, const CaseOutput& output, int place, int parts, bool adds,
         Assembled<Value>& whole) {
  const Extent part = extent_of(published.shape);
  const Lines rows(part.rows, output.placement == Placement::rows, output.stride, place, parts);
  const Lines columns(part.columns, output.placement == Placement::columns, output.stride, place, parts);
  const std::int64_t together = columns.together(part.columns);
  with_scalar_of<Value>(published.dtype, [&](auto scalar) {
    std::size_t next = 0;
    for (std::int64_t row = 0; row < part.rows; ++row) {
      for (std::int64_t column = 0; column < part.columns; column += together) {
        Value* to = whole.values.data() + rows.place_of(row) * whole.columns + columns.place_of(column);
        const std::int64_t count = std::min(together, part.columns - column);
        for (std::int64_t i = 0; i < count; ++i, ++next) {
          const Value value = value_at<decltype(scalar)>(published.values.data(), next);
          to[i] = adds ? to[i] + value : value;
        }
      }
    }
  });
}

/// Makes room for the whole of parts of this extent.
template <typename Value>
void make_room(const Extent& part, const CaseOutput& output, int parts, Assembled<Value>& whole) {
  const bool by_rows = output.placement == Placement::rows;
  whole.rows = by_rows ? parts * part.rows : part.rows;
  whole.columns = output.placement == Placement::columns ? parts * part.columns : part.columns;
  whole.values.resize(static_cast<std::size_t>(whole.rows * whole.columns));
  whole.is_cut_by_rows = by_rows;
  whole.block = std::max<std::int64_t>((by_rows ? part.rows : part.columns) / output.stride, 1);
}

}  // namespace

template <typename Value>
Assembled<Value> assembled(const sim::RunReport& report, const CaseOutput& output, int tp, int copy) {
  const bool is_cut = output.placement == Placement::rows || output.placement == Placement::columns;
  const int parts = output.parts(tp);
  const int ranks = output.part_of.empty() ? tp : static_cast<int>(output.part_of.size());
  Assembled<Value> whole;
  std::vector<int> holders(static_cast<std::size_t>(parts), -1);
  bool has_sums = false;  // then no rank holds an element alone
  for (int rank = 0; rank < ranks; ++rank) {
    const int place = output.part(rank, tp);
    if (place < 0 || (output.placement == Placement::replicated && place != copy)) continue;
    int& holder = holders[static_cast<std::size_t>(place)];
    const bool adds = holder >= 0;
    if (adds && !output.is_sum()) continue;
    holder = rank;
    has_sums = has_sums || adds;
    const sim::Published& published = *report.find(rank, output.name);
    if (whole.values.empty()) make_room(extent_of(published.shape), output, parts, whole);
    put(published, output, place, parts, adds, whole);
  }
  if (is_cut && !has_sums) whole.holders = std::move(holders);
  return whole;
}

template struct Assembled<double>;
template struct Assembled<sim::Field>;
template std::vector<double> values_of(const sim::Published&);
template std::vector<sim::Field> values_of(const sim::Published&);
template Assembled<double> assembled(const sim::RunReport&, const CaseOutput&, int, int);
template Assembled<sim::Field> assembled(const sim::RunReport&, const CaseOutput&, int, int);

std::string check_outputs(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                          sim::DType dtype) {
  for (const CaseOutput& output : outputs) {
    if (std::string wrong = check_output(report, output, dtype); !wrong.empty()) return wrong;
  }
  return "";
}

std::string check_published(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                            sim::DType dtype) {
  if (std::string wrong = check_outputs(report, outputs, dtype); !wrong.empty()) return wrong;
  std::vector<const CaseOutput*> by_name;
  by_name.reserve(outputs.size());
  for (const CaseOutput& output : outputs) by_name.push_back(&output);
  std::ranges::sort(by_name, [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const sim::RankReport& rank : report.ranks) {
    if (std::string wrong = check_nothing_else(rank, by_name); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace verify
