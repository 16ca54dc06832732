#pragma once

/// The index of a checkpoint: the state of the training it was taken from, its tensors with the files that
/// hold their pieces, and the size and hash of these files. The index is one JSON text, and it is the
/// checkpoint: a file that it does not name is not part of it.
///
/// Shapes  The pieces of a tensor tile it, from 0 to its number of elements.
/// Errors  checkpoint_index: a text that is cut short, changed, or of another version; numbers that are not
///         whole, too small or too large; tensors whose pieces do not tile them; files that are not named
///         like shards. An index that is to be written is refused by the same rules as a text that is read.
/// Exact   The text ends with a hash of itself (base/content_hash.h), so any changed byte is found.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/optimizer/buffer_layout.h"
#include "sim/optimizer/loss_scale.h"
#include "sim/tensor/dtype.h"

namespace sim {

struct CheckpointPiece {
  std::string file;
  ElementRange range;
  bool operator==(const CheckpointPiece&) const = default;
};

struct CheckpointTensor {
  DType dtype = DType::f32;
  std::string form;                     // dtype, shape and partition of the whole, as text
  std::int64_t parts = 1;               // the order of the elements is that of this many parts (part_order.h)
  std::vector<CheckpointPiece> pieces;  // in the order of their elements
  std::int64_t elements() const { return pieces.empty() ? 0 : pieces.back().range.end; }
  bool operator==(const CheckpointTensor&) const = default;
};

struct CheckpointFile {
  std::int64_t bytes = 0;
  std::uint64_t hash = 0;
  bool operator==(const CheckpointFile&) const = default;
};

struct CheckpointIndex {
  std::int64_t generation = 0;  // counts the saves into one store, and is part of the names of shards
  std::int64_t iteration = 0;   // of the training
  std::int64_t steps = 0;       // of the optimizer: iterations that were not skipped
  LossScaleState loss_scale;
  std::map<std::string, CheckpointTensor> tensors;
  std::map<std::string, CheckpointFile> files;
  bool operator==(const CheckpointIndex&) const = default;
};

/// The largest generation, iteration and number of steps in an index.
inline constexpr std::int64_t kMostCheckpointCount = std::int64_t{1} << 31;

/// Returns the file name of a shard, such as "shard-000003-rank00001.safetensors".
std::string shard_name(std::int64_t generation, int rank);
bool is_shard_name(const std::string& name);

/// Refuses an index with a count outside of 0 to kMostCheckpointCount, one in which the pieces of a tensor
/// leave a gap or overlap, a piece lies in a file that the index does not list, or a file is not named like a
/// shard.
void check(const CheckpointIndex& index);

std::string text_of(const CheckpointIndex& index);
CheckpointIndex index_of(std::string_view text);

std::uint64_t hash_of(std::string_view bytes);

}  // namespace sim
