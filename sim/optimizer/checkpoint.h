#pragma once

/// Saves the state that training resumes from, and loads it, also on another layout: another tp, pp, dp, ep
/// or etp, with or without the distributed optimizer.
///
///   store->write(...)                   each rank writes its shard, under a new name
///   store->replace("index.json", ...)   rank 0, when all shards are written: this is now the checkpoint
///   store->remove(...)                  rank 0 removes the shards of the previous checkpoint
///
/// Shapes  for each parameter, its main parameter and two moments, cut as their owners hold them; and
///         buffers. A tensor is named by the parameter and which of the three it is:
///         "decoder.weight/exp_avg". The names of parameters are those of the whole model, so they have the
///         number of the layer, and of the expert. The first of the ranks that hold the same elements writes
///         them.
/// Calls   All ranks of the world call both functions. save: two all_reduce(max) of a number that says which
///         rank refuses, one after the shards are written and one after the index is. load: one, an
///         all_reduce(max) of one number for each tensor of the checkpoint, which says whether a rank has it,
///         then the gathers of parameters.
/// Errors  checkpoint_missing: the store holds no checkpoint; checkpoint_model: the checkpoint is from
///         another model (names, dtypes, shapes), or has a loss scale that this configuration cannot reach;
///         checkpoint_shard: a file is missing, is cut short, or was changed; checkpoint_elsewhere
///         (RefusedElsewhere): another rank refused, which it names; checkpoint_names: two tensors of the
///         model have the same name, or a name is not UTF-8; those of checkpoint_index.h (an
///         iteration that no load would accept is one) and safetensors.h. If one rank
///         refuses, every rank does, before any of them has changed a value. The shards of a refused save
///         stay until the next save.
/// Exact   Values are kept bit for bit, so training that is resumed on the same layout gives the same bits as
///         uninterrupted training, and on another layout the same values up to the order of sums.
///         Until the index is replaced, the store holds the previous checkpoint complete.
/// Source  Megatron-LM, fully reshardable optimizer checkpoints (--dist-ckpt-optim-fully-reshardable).

#include "sim/optimizer/checkpoint_contents.h"
#include "sim/optimizer/checkpoint_store.h"

namespace sim {

void save_checkpoint(Rank& rank, DistributedOptimizer& optimizer, CheckpointStore& store,
                     std::int64_t iteration, const std::vector<CheckpointBuffer>& buffers = {});
/// Returns the iteration at which the checkpoint was saved.
std::int64_t load_checkpoint(Rank& rank, DistributedOptimizer& optimizer, CheckpointStore& store,
                             const std::vector<CheckpointBuffer>& buffers = {});

}  // namespace sim
