#pragma once

/// The options about how attention communicates over context-parallel ranks.
///
/// Exact   No kind means p2p, as in Megatron. One kind is that of all layers; several are those of the
///         layers, one after the other.
/// Errors  cp_comm_types: another number of kinds than of layers; cp_levels: a2a+p2p without the sizes of its
///         levels; cp_heads: heads or query groups that are no multiple of the ranks that exchange them;
///         cp_window: a layer with a sliding window whose keys go around a ring;
///         cp_latent: latent attention with a kind that takes no values of another size than keys.
/// Source  Megatron-LM, core/transformer/transformer_config.py; TransformerEngine, context_parallel.py.

#include <optional>
#include <vector>

#include "sim/context/cp_comm_type.h"
#include "sim/layout/warning.h"

namespace verify {

class Settings;

std::vector<sim::CpCommType> cp_comm_types(const Settings& settings);
/// Returns the kind that all layers have, if there is one.
std::optional<sim::CpCommType> kind_of_all_layers(const std::vector<sim::CpCommType>& types);
void require_context_options(const Settings& settings);
/// Returns warnings of heads that cannot be exchanged, and of latent attention whose heads a kind does not
/// take, for a run whose arguments Megatron takes.
std::vector<sim::Warning> context_warnings(const Settings& settings);

}  // namespace verify
