#pragma once

/// Saves what training goes on from, and loads it, on as many data-parallel ranks as there are then.
///
///   store->write(...)                             each rank its shard, of a new name
///   store->replace("index.json", ...)             rank 0, when all shards are there: now the checkpoint is
///   this one store->remove(...)                            rank 0, the shards of the one before
///
/// Shapes  of each parameter main parameter and two moments, cut as their owners have them. A tensor is named
///         by the model-parallel place of its ranks, the parameter, and which of the three it is: "tp 0 pp
///         1/decoder.weight/exp_avg", of an expert "etp 0 ep 3 pp 1/...".
/// Calls   by all ranks of the world. save: two all_reduce(max) of a flag, whether a rank refuses: when
///         shards are written, and when the index is. load: one, then the gathers of parameters.
/// Errors  checkpoint_missing: the store has none; checkpoint_model: another model (names, dtypes, shapes),
///         another tp, pp, ep or etp, or a loss scale that this one cannot have come to; checkpoint_shard: a
///         file that is not there, is cut short, or was changed; checkpoint_elsewhere: another rank refused;
///         checkpoint_names: two parameters of one name, or one that is no UTF-8; those of
///         checkpoint_index.h, checkpoint_store.h and safetensors.h. What is refused is refused on every rank
///         before any has changed a value. The shards of a save that was refused stay until the next one.
/// Exact   values are kept bit for bit: what goes on is what would have gone on. Until the index is replaced
///         the store has the checkpoint before, whole.
/// Source  Megatron-LM, dp_reshardable optimizer checkpoints, by parameter.

#include "sim/optimizer/checkpoint_store.h"
#include "sim/optimizer/distributed_optimizer.h"

namespace sim {

void save_checkpoint(Rank& rank, DistributedOptimizer& optimizer, CheckpointStore& store,
                     std::int64_t iteration);
/// The iteration it was saved at.
std::int64_t load_checkpoint(Rank& rank, DistributedOptimizer& optimizer, CheckpointStore& store);

}  // namespace sim
