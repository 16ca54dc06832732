#pragma once

/// The checks of a layout's process groups. partition, orthogonal and products walk the lists of members and
/// count. The others compare the lists with the view that a rank has of itself (its coordinates, its
/// place, the calls that it enters), which is computed with other arithmetic than the lists.
///
///   partition    Every rank is in exactly one group of each kind (of embd and pos_embd: in at most one).
///   orthogonal   Two groups of kinds that split the world along different axes share exactly one rank.
///   products     The sizes of two complementary kinds multiply to the number of ranks, and each group of
///                one kind shares one rank with each group of the other.
///   pipelines    The ranks of a pipeline differ only in their pp coordinate, in the dense and in the expert
///                grid. Coordinates are those that the order of the axes gives to a rank; embeddings are on
///                the first and last rank of a pipeline.
///   creation     Every new_group call creates one group. Exactly the ranks that it lists find themselves
///                in it, each at the position where it is listed.
///   nodes        The number of tp, dp (and with experts ep) groups that cross a node is the same, counted
///                from the lists of members and from the places of the ranks.
///
/// Which kinds are orthogonal and complementary is in the table of kinds (sim/layout/kind_table.h).
///
/// All except check_partition() need a layout that passes check_partition().
///
/// Errors  A rule that does not hold gives a failed check that names the first counterexample, never an
///         exception.
/// Source  Megatron-LM, core/parallel_state.py.

#include <string>
#include <vector>

#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "verify/checks/check_result.h"

namespace verify {

CheckResult check_partition(const sim::Layout& layout);
CheckResult check_orthogonal(const sim::Layout& layout);
CheckResult check_products(const sim::Layout& layout);
CheckResult check_pipelines(const sim::Layout& layout);
CheckResult check_creation(const sim::Layout& layout);
CheckResult check_nodes(const sim::Layout& layout, const sim::NodePlacement& nodes);

/// Compares the groups of a kind with a list of groups, including the order of groups and of members.
CheckResult check_expected_groups(const sim::Layout& layout, const std::string& kind,
                                  const std::vector<std::vector<int>>& expected);

/// Computes a second time, from the options, how many layers each stage of a model must hold (Megatron-LM,
/// transformer_block.py, get_num_layers_to_build, and transformer_layer.py, get_transformer_layer_offset).
/// Stage s of the model is chunk s / pp of pipeline rank s % pp; layers are numbered over the model. Stages
/// that --pipeline-model-parallel-layout spells out are not checked. Returns a sentence about the first stage
/// that holds another number of layers, or another first layer; "" if there is none.
std::string wrong_layer_count(const sim::LayerRequest& request, const sim::LayerPlacement& placement);

}  // namespace verify
