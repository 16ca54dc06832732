#include "sim/parallel/parameter.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"

namespace sim {

namespace {

/// Where the shard's lines of the cut dimension lie in the whole.
std::vector<std::int64_t> lines_of(std::int64_t whole, const Partition& partition) {
  const std::int64_t shard = whole / partition.size;
  const std::int64_t block = shard / partition.stride;
  std::vector<std::int64_t> lines;
  lines.reserve(static_cast<std::size_t>(shard));
  for (std::int64_t b = 0; b < partition.stride; ++b) {
    const std::int64_t first = (b * partition.size + partition.place) * block;
    for (std::int64_t line = first; line < first + block; ++line) lines.push_back(line);
  }
  return lines;
}

void check_partition(const std::string& name, const Shape& whole, const Partition& partition) {
  if (partition.dim < 0) return;
  const std::int64_t lines = whole[static_cast<std::size_t>(partition.dim)];
  if (lines % (static_cast<std::int64_t>(partition.size) * partition.stride) == 0) return;
  refuse({.code = "partition",
          .option = name,
          .numbers = fmt::format("dimension {} of {} over {} ranks with stride {}", partition.dim,
                                 text_of(whole), partition.size, partition.stride),
          .rule = "the cut dimension divides by tensor-model-parallel-size and stride",
          .hint = "a size that is a multiple, or a smaller tensor-model-parallel-size"});
}

/// The slice of the whole keyed matrix.
Tensor shard_of(Rank& rank, const std::string& name, DType dtype, const Shape& whole,
                const Partition& partition) {
  const KeyedRandom random = rank.random.named(name);
  if (partition.dim < 0 || partition.size == 1) return keyed(rank.device, dtype, whole, random);
  const std::int64_t width = whole.row_count();
  if (partition.dim == 0) {
    const std::vector<std::int64_t> rows = lines_of(whole[0], partition);
    Tensor shard = rank.device.empty(dtype, whole.with_rows(std::ssize(rows)));
    const std::int64_t block = std::ssize(rows) / partition.stride;
    for (std::int64_t row = 0; row < std::ssize(rows); row += block) {
      Tensor part = shard.rows(row, row + block);
      copy(keyed(rank.device, dtype, part.shape(), random, rows[static_cast<std::size_t>(row)] * width),
           part);
    }
    return shard;
  }
  const std::vector<std::int64_t> columns = lines_of(whole[1], partition);
  Tensor shard = rank.device.empty(dtype, whole.with_columns(std::ssize(columns)));
  for (std::int64_t row = 0; row < whole[0]; ++row) {
    Tensor line = shard.rows(row, row + 1);
    copy(keyed(rank.device, dtype, line.shape(), random, row * width + columns.front()), line);
  }
  return shard;
}

}  // namespace

Parameter make_parameter(Rank& rank, std::string name, DType dtype, const Shape& whole,
                         const Partition& partition, const Initial& initial) {
  check_partition(name, whole, partition);
  Tensor value = scale(shard_of(rank, name, dtype, whole, partition), initial.scale);
  Tensor main_grad = filled(rank.device, sum_dtype(dtype), value.shape(), 0);
  const ParameterAttributes attributes{.tensor_model_parallel = partition.dim >= 0,
                                       .partition_dim = partition.dim,
                                       .partition_stride = partition.stride};
  return {std::move(name), whole, attributes, std::move(value), std::move(main_grad)};
}

}  // namespace sim
