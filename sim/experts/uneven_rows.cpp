#include <algorithm>
#include <numeric>

#include "sim/experts/dispatchers.h"
#include "sim/parallel/region.h"
#include "sim/tensor/ops.h"

namespace sim::dispatchers {

namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

/// Returns the rows of one place among those of all places.
Tensor rows_of_place(const Tensor& all, const std::vector<std::int64_t>& rows_of, int place) {
  const std::int64_t begin = std::accumulate(rows_of.begin(), rows_of.begin() + place, std::int64_t{0});
  return all.rows(begin, begin + rows_of[static_cast<std::size_t>(place)]);
}

bool are_equal(const std::vector<std::int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t n) { return n == numbers.front(); });
}

}  // namespace

Tensor exchanged_rows(const Tensor& rows, const RowSplits& splits, Communicator& group, Site site) {
  if (group.size() == 1) return rows;
  const Tensor received = rows.device().empty(rows.dtype(), rows.shape().with_rows(sum_of(splits.received)));
  group.all_to_all_uneven(rows, splits.sent, received, splits.received, site);
  return received;
}

Tensor returned_rows(const Tensor& rows, const RowSplits& splits, Communicator& group, Site site) {
  return exchanged_rows(rows, {.sent = splits.received, .received = splits.sent}, group, site);
}

Tensor gathered_uneven(const Tensor& own, const std::vector<std::int64_t>& rows_of, Communicator& group,
                       Site site) {
  if (are_equal(rows_of)) return gathered_rows(own, group, site);
  const Tensor all = own.device().empty(own.dtype(), own.shape().with_rows(sum_of(rows_of)));
  for (int place = 0; place < group.size(); ++place) {
    Tensor rows = rows_of_place(all, rows_of, place);
    if (rows.count() == 0) continue;
    if (place == group.rank()) copy(own, rows);
    group.broadcast(rows, place, site);
  }
  return all;
}

Tensor reduce_scattered_uneven(const Tensor& all, const std::vector<std::int64_t>& rows_of,
                               Communicator& group, Site site) {
  if (are_equal(rows_of)) return reduce_scattered_rows(all, group, site);
  Tensor sums = all.device().empty(all.dtype(), all.shape());
  copy(all, sums);
  for (int place = 0; place < group.size(); ++place) {
    const Tensor rows = rows_of_place(sums, rows_of, place);
    if (rows.count() > 0) group.reduce(rows, ReduceOp::sum, place, site);
  }
  return rows_of_place(sums, rows_of, group.rank());
}

}  // namespace sim::dispatchers
