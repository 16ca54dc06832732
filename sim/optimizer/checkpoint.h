#pragma once

/// Saves the state that training resumes from, and loads it, also on another number of data-parallel ranks.
///
///   store->write(...)                   each rank writes its shard, under a new name
///   store->replace("index.json", ...)   rank 0, when all shards are written: this is now the checkpoint
///   store->remove(...)                  rank 0 removes the shards of the previous checkpoint
///
/// Shapes  for each parameter, its main parameter and two moments, cut as their owners hold them. A tensor is
///         named by the model-parallel place of its ranks, the parameter, and which of the three it is: "tp 0
///         pp 1/decoder.weight/exp_avg", or "etp 0 ep 3 pp 1/..." for an expert.
/// Calls   All ranks of the world call both functions. save: two all_reduce(max) of a number that says which
///         rank refuses, one after the shards are written and one after the index is. load: one, then the
///         gathers of parameters.
/// Errors  checkpoint_missing: the store holds no checkpoint; checkpoint_model: the checkpoint is from
///         another model (names, dtypes, shapes), has another tp, pp, ep or etp, or a loss scale that this
///         configuration cannot reach; checkpoint_shard: a file is missing, is cut short, or was changed;
///         checkpoint_elsewhere (RefusedElsewhere): another rank refused, which it names; checkpoint_names:
///         two parameters have the same name, or a name is not UTF-8; those of checkpoint_index.h (an
///         iteration that no load would accept is one), checkpoint_store.h and safetensors.h. If one rank
///         refuses, every rank does, before any of them has changed a value. The shards of a refused save
///         stay until the next save.
/// Exact   Values are kept bit for bit, so resumed training gives the same bits as uninterrupted training.
///         Until the index is replaced, the store holds the previous checkpoint complete.
/// Source  Megatron-LM, dp_reshardable optimizer checkpoints, by parameter.

#include "sim/optimizer/checkpoint_store.h"
#include "sim/optimizer/distributed_optimizer.h"

namespace sim {

void save_checkpoint(Rank& rank, DistributedOptimizer& optimizer, CheckpointStore& store,
                     std::int64_t iteration);
/// Returns the iteration at which the checkpoint was saved.
std::int64_t load_checkpoint(Rank& rank, DistributedOptimizer& optimizer, CheckpointStore& store);

}  // namespace sim
