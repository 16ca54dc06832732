#include "sim/parallel/region.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

/// Returns `all` / tp, and refuses an `all` that is not a multiple of tp. `what` says in the message whether
/// rows or columns of `x` are cut.
std::int64_t part_of(std::int64_t all, const Tensor& x, const Communicator& tp, const char* what) {
  if (all % tp.size() != 0) {
    refuse({.code = "partition",
            .option = fmt::format("{} of a tensor {}", what, text_of(x.shape())),
            .numbers = fmt::format("{} over {} ranks", all, tp.size()),
            .rule = fmt::format("the number of {} that are cut is a multiple of tensor-model-parallel-size",
                                what),
            .hint = "a multiple of it, or a smaller tensor-model-parallel-size"});
  }
  return all / tp.size();
}

Tensor copied(const Tensor& x) {
  Tensor copy_of_x = x.device().empty(x.dtype(), x.shape());
  copy(x, copy_of_x);
  return copy_of_x;
}

/// Rearranges [T, F] to [tp T, F/tp]: block p, of T rows, holds the columns of place p.
Tensor column_blocks(const Tensor& x, const Communicator& tp) {
  const std::int64_t width = part_of(columns_of(x), x, tp, "columns");
  const std::int64_t rows = rows_of(x);
  Tensor blocks = x.device().empty(x.dtype(), {tp.size() * rows, width});
  for (int place = 0; place < tp.size(); ++place) {
    Tensor block = blocks.rows(place * rows, (place + 1) * rows);
    copy(columns(x, place * width, width).reshaped(block.shape()), block);
  }
  return blocks;
}

/// Does the inverse of column_blocks.
Tensor from_column_blocks(const Tensor& blocks, const Communicator& tp) {
  const std::int64_t width = columns_of(blocks);
  const std::int64_t rows = rows_of(blocks) / tp.size();
  Tensor x = blocks.device().empty(blocks.dtype(), {rows, tp.size() * width});
  for (int place = 0; place < tp.size(); ++place) {
    put_columns(blocks.rows(place * rows, (place + 1) * rows), x, place * width);
  }
  return x;
}

}  // namespace

Tensor all_reduced(const Tensor& x, Communicator& tp, Site site) {
  if (tp.size() == 1) return x;
  Tensor sum = copied(x);
  tp.all_reduce(sum, ReduceOp::sum, site);
  return sum;
}

Tensor own_rows(const Tensor& x, const Communicator& tp) {
  const std::int64_t rows = part_of(x.shape()[0], x, tp, "rows");
  return x.rows(tp.rank() * rows, (tp.rank() + 1) * rows);
}

Tensor own_columns(const Tensor& x, const Communicator& tp) {
  if (tp.size() == 1) return x;
  const std::int64_t width = part_of(columns_of(x), x, tp, "columns");
  return columns(x, tp.rank() * width, width);
}

Tensor room_for_gathered_rows(const Tensor& x, const Communicator& tp) {
  return x.device().empty(x.dtype(), x.shape().with_rows(x.shape()[0] * tp.size()));
}

Tensor room_for_own_rows(const Tensor& x, const Communicator& tp) {
  return x.device().empty(x.dtype(), x.shape().with_rows(part_of(x.shape()[0], x, tp, "rows")));
}

Tensor gathered_rows(const Tensor& x, Communicator& tp, Site site) {
  if (tp.size() == 1) return x;
  Tensor all = room_for_gathered_rows(x, tp);
  tp.all_gather(x, all, site);
  return all;
}

Tensor gathered_columns(const Tensor& x, Communicator& tp, Site site) {
  if (tp.size() == 1) return x;
  return from_column_blocks(gathered_rows(x, tp, site), tp);
}

Tensor reduce_scattered_rows(const Tensor& x, Communicator& tp, Site site) {
  if (tp.size() == 1) return x;
  Tensor own = room_for_own_rows(x, tp);
  tp.reduce_scatter(x, own, ReduceOp::sum, site);
  return own;
}

Tensor reduce_scattered_columns(const Tensor& x, Communicator& tp, Site site) {
  if (tp.size() == 1) return x;
  return reduce_scattered_rows(column_blocks(x, tp), tp, site);
}

Tensor rows_to_columns(const Tensor& x, Communicator& tp, Site site) {
  if (tp.size() == 1) return x;
  const Tensor blocks = column_blocks(x, tp);
  Tensor out = x.device().empty(x.dtype(), blocks.shape());
  tp.all_to_all(blocks, out, site);
  return out;
}

Tensor columns_to_rows(const Tensor& x, Communicator& tp, Site site) {
  if (tp.size() == 1) return x;
  part_of(rows_of(x), x, tp, "rows");
  Tensor blocks = x.device().empty(x.dtype(), x.shape());
  tp.all_to_all(x, blocks, site);
  return from_column_blocks(blocks, tp);
}

}  // namespace sim
