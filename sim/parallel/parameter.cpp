#include "sim/parallel/parameter.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/memory_use.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

/// Returns the number of lines (rows or columns) in one block of the dimension that is cut.
std::int64_t block_lines(const Shape& whole, const Partition& partition) {
  return whole[static_cast<std::size_t>(partition.dim)] / (std::int64_t{partition.size} * partition.stride);
}
/// Returns the line of the whole at which block b of the shard begins.
std::int64_t block_begin(const Shape& whole, const Partition& partition, std::int64_t b) {
  return (b * partition.size + partition.place) * block_lines(whole, partition);
}

void require_partition(const std::string& name, const Shape& whole, const Partition& partition) {
  if (partition.dim < 0) return;
  const std::int64_t lines = whole[static_cast<std::size_t>(partition.dim)];
  if (lines % (static_cast<std::int64_t>(partition.size) * partition.stride) == 0) return;
  refuse({.code = "partition",
          .option = name,
          .numbers = fmt::format("dimension {} of {} over {} ranks with stride {}", partition.dim,
                                 text_of(whole), partition.size, partition.stride),
          .rule = "the dimension that is cut is a multiple of tensor-model-parallel-size times stride",
          .hint = "a multiple of it, or a smaller tensor-model-parallel-size"});
}

/// Draws this rank's slice of the whole random matrix.
Tensor shard_of(Rank& rank, const std::string& name, DType dtype, const Shape& whole,
                const Partition& partition) {
  const KeyedRandom random = rank.random.named(name);
  if (partition.dim < 0 || partition.size == 1) return keyed(rank.device, dtype, whole, random);
  const std::int64_t width = whole.row_count();
  const std::int64_t block = block_lines(whole, partition);
  const std::int64_t lines = block * partition.stride;
  Tensor shard =
      rank.device.empty(dtype, partition.dim == 0 ? whole.with_rows(lines) : whole.with_columns(lines));
  for (std::int64_t b = 0; b < partition.stride; ++b) {
    const std::int64_t begin = block_begin(whole, partition, b);
    if (partition.dim == 0) {
      Tensor rows = shard.rows(b * block, (b + 1) * block);
      copy(keyed(rank.device, dtype, rows.shape(), random, begin * width), rows);
      continue;
    }
    put_columns(keyed(rank.device, dtype, {whole[0], block}, random, begin, width), shard, b * block);
  }
  return shard;
}

}  // namespace

std::vector<Parameter*> joined(std::initializer_list<std::vector<Parameter*>> parts) {
  std::vector<Parameter*> all;
  for (const std::vector<Parameter*>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Parameter make_parameter(Rank& rank, std::string name, DType dtype, const Shape& whole,
                         const Partition& partition, const Initial& initial) {
  require_partition(name, whole, partition);
  const MadeFor parameters(MemoryUse::parameters);
  Tensor value = scale(shard_of(rank, name, dtype, whole, partition), initial.scale);
  if (initial.center.numerator != 0) {
    const Tensor center = scale(filled(rank.device, dtype, value.shape(), 1), initial.center);
    add_to(value, center);
  }
  const MadeFor gradients(MemoryUse::gradients);
  Tensor main_grad = filled(rank.device, sum_dtype(dtype), value.shape(), 0);
  const bool is_cut = partition.dim >= 0;
  const ParameterAttributes attributes{.tensor_model_parallel = is_cut,
                                       .partition_dim = partition.dim,
                                       .partition_stride = partition.stride,
                                       .partition_place = is_cut ? partition.place : 0,
                                       .partition_size = is_cut ? partition.size : 1};
  return {std::move(name), whole, attributes, std::move(value), std::move(main_grad)};
}

}  // namespace sim
