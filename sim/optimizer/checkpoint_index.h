#pragma once

/// What a checkpoint consists of: the training it was taken from, its tensors, of which pieces lie in which
/// files, and what these files have to be. One JSON text, which is the checkpoint: files that it does not
/// name are none of its.
///
/// Shapes  the pieces of a tensor tile it, from 0 to its elements.
/// Errors  checkpoint_index: a text that is cut short, changed, or of another version; numbers that are not
///         whole or too large; tensors whose pieces do not tile; files of other names than shards have.
/// Exact   the text ends with a hash of itself (base/content_hash.h), which any changed byte misses.

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
  std::string form;                     // of the parameter: dtype, shapes, how it is cut
  std::vector<CheckpointPiece> pieces;  // in order
  std::int64_t elements() const { return pieces.empty() ? 0 : pieces.back().range.end; }
  bool operator==(const CheckpointTensor&) const = default;
};

struct CheckpointFile {
  std::int64_t bytes = 0;
  std::uint64_t hash = 0;
  bool operator==(const CheckpointFile&) const = default;
};

struct CheckpointIndex {
  std::int64_t generation = 0;  // of the saves into one store: names the files
  std::int64_t iteration = 0;   // of the training
  std::int64_t steps = 0;       // of the optimizer: iterations that were not skipped
  LossScaleState loss_scale;
  std::map<std::string, int> sizes;  // of what may not change: tp, pp, ep, etp
  std::map<std::string, CheckpointTensor> tensors;
  std::map<std::string, CheckpointFile> files;
  bool operator==(const CheckpointIndex&) const = default;
};

/// Of what an index counts.
inline constexpr std::int64_t kMostCheckpointCount = std::int64_t{1} << 31;

/// "shard-000003-rank00001.safetensors"
std::string shard_name(std::int64_t generation, int rank);
bool is_shard_name(const std::string& name);

/// Refuses a tensor with a gap or an overlap, or in a file that is not named, and names that no shard has.
void check(const CheckpointIndex& index);

std::string text_of(const CheckpointIndex& index);
CheckpointIndex index_of(std::string_view text);

std::uint64_t hash_of(std::string_view bytes);

}  // namespace sim
