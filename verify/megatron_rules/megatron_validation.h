#pragma once

/// The rules with which Megatron refuses a configuration before it trains, or in its first step, as a table
/// with one row a rule. The rules of the grid, of the placement of layers, of the batch and of the schedule
/// are those of make_layout, requested_placement, microbatches_of_batch and sim::check, and stand there.
///
/// An option that is not given has Megatron's default where the model is given: all rules about experts need
/// --num-experts or an expert grid, and a model without --num-experts is dense if its shape is given.
///
/// Calls   A command is held to the rules of which it reads every option. The rule book `legacy` has the
///         rules about sizes alone.
/// Errors  heads_div, groups_div, attention_heads, ffn_tp_div, sequence_tp_div, sequence_cp_div,
///         max_positions_below_seq, mtp_position_embedding; vpp_more_than_one_flag,
///         uneven_with_layers_per_vp, layers_per_stage_vp; ep_without_experts, experts_ep, moe_tp_needs_sp,
///         moe_bias_etp, moe_ffn_without_experts, moe_ffn_etp_div, moe_freq_length, moe_freq_entry,
///         topk1_needs_pre_softmax, topk_above_experts, group_topk_without_experts,
///         group_topk_needs_groups, experts_groups, group_topk_above_groups, expert_bias_score,
///         aux_loss_list_length, capacity_balancing_type, pad_without_capacity,
///         topk_above_group_experts, shared_overlap_dispatcher, moe_shared_tp_div, shared_expert_bias;
///         overlap_needs_vpp, ep_overlap_needs_ep, ep_overlap_dispatcher, ep_overlap_full_recompute,
///         ep_overlap_recompute_method, ep_overlap_recompute_layers, ep_overlap_shared_overlap,
///         ep_overlap_mtp_layers; full_recompute_needs_method, full_recompute_needs_layers,
///         uniform_recompute_without_layers, selective_with_method, selective_with_num_layers;
///         fp16_and_bf16, fp32_reduce_main_grads, optimizer_dtype; layer_pattern and not_a_number for values
///         that cannot be read.
/// Source  Megatron-LM at d98e8a64ddf3: training/arguments.py, core/transformer/transformer_config.py,
///         attention.py, moe/moe_layer.py, core/tensor_parallel/utils.py (divide).

#include <string>
#include <vector>

#include "sim/base/refusals.h"
#include "sim/layout/layout.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/settings.h"

namespace verify {

/// Keeps a refusal for every rule that the settings break, among the rules whose options `reader` reads.
/// Rules with codes of `left_out` are not held.
void keep_megatron_refusals(const Settings& settings, Reader reader, sim::Refusals& refusals,
                            const std::vector<std::string>& left_out = {});

/// Returns a warning for each of these rules that the settings break.
std::vector<sim::Warning> megatron_warnings(const Settings& settings, const std::vector<std::string>& codes);

/// Returns what to try where the settings break one of these rules; "" where they break none.
std::string megatron_hint(const Settings& settings, const std::vector<std::string>& codes);

/// Whether the layers have experts, or some of them.
bool has_experts(const Settings& settings);

/// Returns the codes of the table, in its order.
std::vector<std::string> megatron_rule_codes();

}  // namespace verify
