#pragma once

/// The rules by which Megatron refuses a run of --from before it trains, or when it builds its model and its
/// groups, for the arguments that the command line does not know. They are rows of tables (run_rule.h), one
/// table for each concept.
///
/// Calls   replay holds a run against all of them, beside the rules of megatron_validation.h, of the layout,
///         of the placement and of the batch. The other commands show parts of a run, and are held to what
///         they show.
/// Errors  flag_with_value, value_missing, values_too_many, list_with_commas;
///         batch_size_removed, warmup_removed, model_parallel_size_removed, checkpoint_activations_removed,
///         no_position_embedding_removed; weight_shards_below_tp, weight_shards_not_multiple,
///         world_not_divisible, expert_world_not_divisible, gtp_instances, gtp_average_in_collective,
///         gtp_ckpt_format, gtp_mem_efficient, gtp_mxfp8, gtp_fp4, sharp_group, sharp_group_uninitialized,
///         fake_pg_flex, hybrid_cp_even, ucc_max_connections; micro_batch_missing, rampup_values,
///         schedule_and_gbs, schedule_decrease, schedule_entry, schedule_first, schedule_order,
///         schedule_size,
///         eval_gbs_not_divisible, zero_division, gbs_not_divisible, no_microbatch, rl_packing_micro_batch;
///         two_layer_counts, no_layer_count, required_arg_missing, two_seq_lengths, no_seq_length,
///         max_positions_below_decoder_seq, layer_divide, two_activations, bias_fusion_activation,
///         bias_fusion_and_te_activation, relative_needs_te, mrope_section_missing, mtp_position_embedding,
///         norope_layers, pattern_blanks; rope_type_needs_mla, mla_with_gqa, mla_rotary_interleaved,
///         mla_rope_fusion,
///         gdn_freq, gdn_sizes, gdn_value_key_heads, gdn_key_heads_tp_cp, gdn_value_heads_tp_cp,
///         local_backend_spec, inference_impl_needs_rmsnorm, inference_impl_layernorm_1p,
///         inference_impl_bias, inference_impl_qkv_bias, inference_moe_etp, inference_moe_capacity,
///         inference_moe_router_dtype, mup_base, mhc_pp, mhc_full_recompute, mhc_fp32_residual, mhc_mtp;
///         fp16_loss_needs_fp16, fp32_residual_needs_half,
///         fp8_delayed_bf16_layers, fp8_bf16_start_layers, fp8_bf16_end_layers,
///         fp8_param_gather_needs_distopt, fp8_param_without_fp8, fp4_and_fp8, fp4_param_without_fp4;
///         vpp_no_overlap_needs_pp3, warmup_flush_overlap, defer_embedding_pp, defer_embedding_fusion,
///         defer_embedding_limit; hybrid_two_patterns, hybrid_symbol, hybrid_mtp_parts,
///         hybrid_attention_and_mla, hybrid_first_stage, hybrid_last_stage, hybrid_layers_per_vp,
///         hybrid_vp_stages, hybrid_layout, hybrid_account_embedding, hybrid_account_loss,
///         hybrid_segments_pp, vpp_needs_pp2, hybrid_layers_pp, middle_stages_mismatch, middle_layers_pp;
///         a2a_p2p_needs_hier_sizes, cp_types_length, cp_needs_te, hybrid_cp_pp, hybrid_cp_cuda_graph,
///         hybrid_cp_mfsdp, hybrid_cp_dataloader, hybrid_cp_per_token_loss, tp_comm_overlap_needs_sp,
///         te_cross_entropy, deterministic_options, deterministic_nccl_algo, deterministic_te,
///         deterministic_cublas; latent_size_not_positive, latent_without_experts, deepep_needs_flex,
///         flex_two_backends, deepep_pad_to_capacity, rank_capacity_backend, rank_capacity_fuser,
///         aux_loss_list_length, quantile_groups, quantile_fusion, router_padding_needs_fp8,
///         router_padding_dispatcher,
///         grouped_tensor_needs_grouped_gemm, single_grouped, ep_overlap_recompute_moe, ep_overlap_dtype,
///         delay_wgrad_needs_te, delay_wgrad_needs_overlap, upcycling_save; distribute_saved_tp,
///         distribute_saved_full, distribute_saved_method, distribute_saved_with_sp,
///         recompute_unknown_module, recompute_moe_act, recompute_mla, recompute_gdn,
///         recompute_shared_overlap, recompute_mhc, recompute_mhc_mlp, recompute_fp8_delayed,
///         moe_layer_recompute_full, cpu_offload_layers, cpu_offload_pp, cpu_offload_recompute,
///         full_iteration_nan, full_iteration_modules, graph_full_recompute, graph_moe_modules,
///         graph_cpu_offload, graph_moe_and_router, graph_preprocess_router, graph_mlp_without_dense_layers,
///         graph_moe_capacity, graph_recompute_router, graph_attention_dropout, graph_hidden_dropout;
///         param_gather_needs_distopt, param_gather_needs_grad_reduce, gather_step_needs_distopt,
///         gather_step_needs_param_gather, gather_step_needs_vpp, gather_step_dist_ckpt, emerging_opt_fsdp,
///         emerging_opt_ckpt, no_gloo_ckpt_format, no_gloo_mem_efficient,
///         precision_aware_adam, cpu_offload_needs_precision_aware, ddp_buckets_and_size,
///         ddp_buckets_not_positive, ddp_patterns; fsdp2_pp, fsdp2_ep, fsdp2_distopt, fsdp2_grad_fusion,
///         fsdp2_ckpt_format, fsdp2_tied_embeddings, fsdp2_fp16, fsdp2_max_connections, mfsdp2_distopt,
///         mfsdp_optimizer, mfsdp_ckpt_format, mfsdp_meta_device, mfsdp_max_connections,
///         torch_dcp_needs_fsdp2, torch_dcp_tp, torch_dcp_pp, fsdp_dtensor_needs_mfsdp; iters_and_samples,
///         iters_with_decay_samples, iters_with_warmup_samples, warmup_fraction_and_iters,
///         samples_with_decay_iters, samples_with_warmup_iters, warmup_fraction_and_samples,
///         min_lr_above_lr, save_without_interval, weight_decay_range, two_data_sources,
///         inference_threshold_pp; graph_two_ways, graph_two_lists, graph_unknown_module,
///         graph_full_iteration_module, graph_expandable_segments, graph_preprocess_capacity,
///         graph_expert_overlap, graph_delayed_wgrad_fusion, graph_delayed_wgrad_bias,
///         dispatch_backward_overlap, early_release_needs_overlap, ncclep_needs_flex,
///         paged_stash_needs_capacity; offload_needs_te, offload_with_layers, offload_without_modules,
///         offload_unknown_module, offload_attn_proj, offload_recomputed_experts, offload_fused_experts,
///         offload_graph_moe, offload_local_graph; cpu_offload_fp8_params, reuse_grad_buffer,
///         reuse_grad_buffer_gather_step, load_main_params; save_retain_interval, save_params_gather,
///         log_memory_interval, override_iteration_finetune, replication_jump, local_checkpoint_folder,
///         fim_data; fp8_custom_factory, fp4_custom_factory, fp8_output_layer; te_activation_function,
///         glu_offset, fused_residual_norm; mla_output_gate, mla_cached_latents, mla_down_projection,
///         dsa_rope_fusion, dsa_bias, dsa_context_parallel, qk_clip; fsdp_manual_registration,
///         fsdp_weight_hash; those of run_argument_values.h.
/// Exact   A log is not held against these rules: Megatron writes its arguments after it has checked them,
///         with what it has derived among them. Arguments that are not known are named, and not refused,
///         because a training script adds arguments of its own. A rule about a number that only a shell could
///         tell is not held, and the number is listed as unresolved. A rule about the environment is held
///         against the variables that the file sets, and an argument that an option of the command line
///         replaces has the value of that option.
/// Source  Megatron-LM at d98e8a64ddf3: training/arguments.py, training/argument_utils.py,
///         core/transformer/transformer_config.py, core/model_parallel_config.py, core/parallel_state.py,
///         core/num_microbatches_calculator.py, core/optimizer/optimizer_config.py,
///         core/distributed/distributed_data_parallel_config.py.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/refusals.h"
#include "sim/layout/layout.h"
#include "verify/megatron_rules/run_of_file.h"

namespace verify {

/// What a command asks of a run. An argument that has no effect on it refuses nothing: if only sizes are
/// asked for, a learning rate, for example, and if the whole run is, a path.
enum class Asked { whole_run, sizes };

/// Keeps a refusal for every rule that the run breaks on so many ranks. Returns whether there is one.
bool keep_run_refusals(const RunOfFile& run, std::optional<std::int64_t> world_size, Asked asked,
                       sim::Refusals& refusals);

/// Refuses every argument of a script that says a size and behind which Megatron's parser takes other words,
/// for the commands that judge nothing else of a run.
void require_parsed_words(const RunOfFile& run);

/// The warnings about arguments and words that are not Megatron's or stand twice with different values, about
/// words that nobody can read without executing the file, and about a program that trains no GPT.
std::vector<sim::Warning> warnings_of_file(const RunOfFile& run);

/// These, those about what devices that the file does not name would refuse, and those of attention_window.h.
std::vector<sim::Warning> run_warnings(const RunOfFile& run);

/// A warning that Megatron refuses the run on so many ranks, for the commands that show a part of it and
/// judge no more. What the file leaves out is none of it.
std::vector<sim::Warning> warnings_of_refusals(const RunOfFile& run, std::optional<std::int64_t> world_size);

/// The rules of megatron_validation.h that only a step would break, of a run whose arguments Megatron takes:
/// replay warns of them, and refuses them where there is no such run.
std::vector<std::string> rules_of_a_step(const RunOfFile& run);

/// The rules of megatron_validation.h that a run is not held to: those about experts, where they are
/// DeepSpeed's.
std::vector<std::string> rules_not_held(const RunOfFile& run);

/// Returns the codes of the tables, in their order, each once.
std::vector<std::string> run_rule_codes();

}  // namespace verify
