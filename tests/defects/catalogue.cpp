#include "tests/defects/catalogue.h"

#include <algorithm>
#include <utility>

#include "sim/base/check.h"
#include "tests/defects/with_program.h"
#include "tests/defects/wrong_calls.h"
#include "tests/defects/wrong_context.h"
#include "tests/defects/wrong_context_attention.h"
#include "tests/defects/wrong_context_training.h"
#include "tests/defects/wrong_experts.h"
#include "tests/defects/wrong_gpt.h"
#include "tests/defects/wrong_kernels.h"
#include "tests/defects/wrong_latent_attention.h"
#include "tests/defects/wrong_programs.h"
#include "tests/defects/wrong_routing.h"
#include "tests/defects/wrong_training.h"
#include "verify/cases/case_list.h"
#include "verify/cases/data_parallel_plan.h"
#include "verify/properties/bench.h"
#include "verify/requests/scenario.h"

namespace test {

namespace {

using verify::CaseSetting;
using enum CallFault;

void run_right(const verify::Case& right, sim::Rank& rank, const CaseSetting& s) { right.run(rank, s); }

/// A bug of the ready catalogue. Its program is the right one, on a bench with its faults.
Defect of_bug(const verify::CatalogueEntry& bug) {
  // This one needs both several experts in parallel and replicas of them.
  const bool needs_four_ranks = bug.bug == "experts: gradients multiplied by ep";
  return {.name = bug.bug,
          .source = bug.source,
          .property = bug.property().name,
          .the_case = std::make_shared<WithProgram>(bug.the_case().name(), run_right),
          .bug = &bug,
          .most_ranks = needs_four_ranks ? 4 : 3};
}

/// Plants a fault in one collective of a layer that is otherwise correct.
Defect in_call(std::string name, std::string source, const std::string& the_case, const std::string& site,
               CallFault fault, std::string property, const std::string& group = "tp") {
  auto wrong = std::make_shared<WithProgram>(
      the_case, [=](const verify::Case& right, sim::Rank& rank, const CaseSetting& s) {
        FaultyCall call{site, fault, group};
        if (fault == left_out_where_full) call.full = verify::DataParallelPlan{s}.bucket_size().value_or(-1);
        run_with_fault(call, rank, [&](sim::Rank& at_fault) { right.run(at_fault, s); });
      });
  return {std::move(name), std::move(source), std::move(property), std::move(wrong),
          std::make_shared<sim::CpuDevice>()};
}

/// Plants a fault in one kernel of a layer that is otherwise correct.
Defect in_kernel(std::string name, std::string source, const std::string& the_case, WrongKernel wrong,
                 std::string property) {
  return {std::move(name), std::move(source), std::move(property),
          std::make_shared<WithProgram>(the_case, run_right), device_with(wrong)};
}

/// Plants a layer that is written wrongly.
Defect in_program(std::string name, std::string source, const std::string& the_case,
                  const std::function<void(sim::Rank&, const CaseSetting&)>& program, std::string property) {
  auto wrong = std::make_shared<WithProgram>(
      the_case, [program](const verify::Case&, sim::Rank& rank, const CaseSetting& s) { program(rank, s); });
  return {std::move(name), std::move(source), std::move(property), std::move(wrong),
          std::make_shared<sim::CpuDevice>()};
}

/// A defect that needs a world of four ranks.
Defect on_four_ranks(Defect defect) {
  defect.most_ranks = 4;
  return defect;
}

Defect in_ring(std::string name, std::string source, RingMistake mistake) {
  return in_program(
      std::move(name), std::move(source), "cp_attention",
      [mistake](sim::Rank& rank, const CaseSetting& s) { ring_with(mistake, rank, s); }, "serial");
}

Defect in_all_gather(std::string name, std::string source, GatherMistake mistake) {
  return in_program(
      std::move(name), std::move(source), "cp_attention",
      [mistake](sim::Rank& rank, const CaseSetting& s) { all_gather_with(mistake, rank, s); }, "serial");
}

Defect in_training_call(std::string name, std::string source, const std::string& site, CallFault fault) {
  return in_call(std::move(name), std::move(source), "distributed_optimizer", site, fault, "serial", "dp-cp");
}

std::vector<Defect> defects_that_need_code() {
  const std::string row = "row_parallel_linear", column = "column_parallel_linear";
  const std::string embedding = "vocab_parallel_embedding", loss = "vocab_parallel_cross_entropy";
  const std::string norm = "parallel_norm", attention = "self_attention", layer = "transformer_layer";
  const std::string dropout = "parallel_dropout", training = "distributed_optimizer";
  const std::string gpt = "gpt_training", uneven = "all_to_all_uneven", experts = "moe_layer";
  const std::string moe = "moe_training", context = "cp_batch", ring = "cp_attention", cp = "cp_training";
  const std::string latent = "multi_latent_attention";
  const std::string router = "moe_router", aux = "moe_aux_loss", dispatcher = "token_dispatcher";
  return {
      // ---- A collective ----
      in_call("row: all_gather for the sum", "TrainVerify", row, "row_parallel_linear.forward", gathered,
              "serial"),
      in_call("row: sum over half of the group", "MLM#7452", row, "row_parallel_linear.forward", over_half,
              "agree"),
      in_call("row: last rank's term missing", "TrainVerify", row, "row_parallel_linear.forward",
              without_last, "serial"),
      in_call("column: sum for the gather of tokens", "TrainVerify", column, "column_parallel_linear.forward",
              summed, "serial"),
      in_call("norm: gradient over half of the group", "", norm, "sequence_parallel_grads.sum", over_half,
              "agree"),
      in_call("experts: a rank without rows does not dispatch", "MLM#1877", experts,
              "token_dispatcher.dispatch", skipped_without_rows, "serial", "ep"),
      in_program("experts: gathered over data-parallel ranks", "MLM 38ca18b27f", experts,
                 gathered_over_data_parallel_ranks, "serial"),
      in_program("experts: shared experts drawn by each replica", "DeepSpeed#5794", experts,
                 shared_experts_drawn_by_each_replica, "serial"),
      in_program("experts: capacity of all tokens", "", router, capacity_of_all_tokens, "serial"),
      in_program("experts: ties broken otherwise in recomputation", "", router,
                 ties_broken_otherwise_in_recomputation, "serial"),
      in_program("experts: z-loss not multiplied by tokens", "MLM 87d9d2506a", router,
                 z_loss_not_times_tokens, "serial"),
      in_program("experts: global loss divided by dp", "MLM#3672", aux, global_loss_over_dp, "serial"),
      in_program("experts: losses not multiplied by cp", "", aux, losses_not_times_cp, "serial"),
      in_program("experts: counts of each microbatch alone", "", aux, counts_of_each_microbatch_alone,
                 "serial"),
      on_four_ranks(in_program("experts: counts read in the order of etp", "", dispatcher,
                               counts_read_in_the_order_of_etp, "serial")),
      in_program("experts: outputs not sorted back", "", dispatcher, outputs_not_sorted_back, "serial"),
      in_program("experts: probabilities applied twice", "", dispatcher, probabilities_applied_twice,
                 "adjoint"),
      in_program("all_to_all: rows of the peers for the own", "MLM#1754", uneven,
                 rows_of_the_peers_for_the_own, "serial"),
      in_program("all_to_all: rows of the next rank first", "MLM 32bbb76d57", uneven,
                 rows_of_the_next_rank_first, "serial"),
      in_program("all_to_all: odd rows forgotten", "", uneven, odd_rows_forgotten, "serial"),

      in_program("context: tokens cut in one piece", "", context, tokens_cut_in_one_piece, "serial"),
      in_program("context: labels cut in one piece", "", context, labels_cut_in_one_piece, "serial"),
      in_program("context: loss mask cut in one piece", "", context, loss_mask_cut_in_one_piece, "serial"),
      in_program("context: positions cut in one piece", "", context, positions_cut_in_one_piece, "serial"),
      in_program("context: rotary positions cut in one piece", "", context, rotary_cut_in_one_piece,
                 "serial"),
      in_program("context: second half goes on from the first", "", context,
                 second_half_goes_on_from_the_first, "serial"),
      in_program("context: positions of the row for the document's", "", context, positions_of_the_row,
                 "serial"),
      in_program("context: rotary positions begin again in a packed table",
                 "MLM 13722647f3, MLM 28778d1283, MLM d30e165203", context,
                 rotary_begins_again_in_a_packed_table, "serial"),
      in_program("context: odd documents divided by cp", "MLM#1464", context, odd_documents_divided_by_cp,
                 "serial"),
      in_program("context: borders of documents ignored", "axolotl#3608", context,
                 borders_of_documents_ignored, "serial"),

      // ---- A kernel ----
      in_kernel("row: a little added on one rank", "TrainVerify", row, bias_is_a_little_larger_on_one_rank,
                "agree"),
      in_kernel("row: a little added on all ranks", "TrainVerify", row, bias_is_a_little_larger_on_all_ranks,
                "serial"),
      in_kernel("norm: another epsilon on one rank", "TrainVerify", norm, epsilon_differs_on_one_rank,
                "serial"),
      in_kernel("mlp: another activation on one rank", "TrainVerify", "mlp", activation_differs_on_one_rank,
                "serial"),
      in_kernel("mlp: derivative of another activation", "TrainVerify", "mlp", derivative_of_other_function,
                "serial"),
      in_kernel("column: weight gradient added twice", "TE#1054", column, weight_gradient_twice, "adjoint"),
      in_kernel("attention: positions off by one on a rank", "MLM bbfbd6c18d", attention,
                rotary_from_position_one, "serial"),
      in_kernel("attention: gradient not turned back", "TrainVerify", attention, rotary_not_turned_back,
                "serial"),
      in_kernel("attention: causal mask dropped", "axolotl#3608", attention, causal_mask_dropped, "serial"),
      in_kernel("attention: window one token wider", "", attention, window_one_token_wider, "serial"),
      in_kernel("attention: scores not scaled", "TrainVerify", attention, scores_not_scaled, "serial"),
      in_kernel("attention: gradient of scores not scaled", "TrainVerify", attention,
                gradient_of_scores_not_scaled, "serial"),
      in_kernel("attention: two heads exchanged", "MLM e1b8454330", attention, heads_permuted, "serial"),
      in_kernel("latent attention: scores scaled by half a head", "", latent, scores_scaled_by_half,
                "serial"),
      in_kernel("latent attention: pairs of positions not sorted", "", latent, pairs_not_sorted, "serial"),
      in_kernel("embedding: vocabulary range off by one", "MLM#1754", embedding, first_id_off_by_one,
                "serial"),
      in_kernel("embedding: mask of foreign ids dropped", "MLM#1754", embedding, foreign_ids_are_the_first,
                "serial"),
      in_kernel("embedding: gradient's range off by one", "MLM#1754", embedding,
                gradient_of_first_id_off_by_one, "adjoint"),
      in_kernel("loss: target range off by one", "MLM#1754", loss, target_off_by_one, "serial"),
      in_kernel("loss: ignored tokens counted", "MLM adfa873d96", loss, ignored_tokens_counted, "serial"),
      in_kernel("loss: padded vocabulary counted", "MLM#1754", loss, padding_counted, "serial"),
      in_kernel("loss: smoothing by the local width", "", loss, smoothing_by_local_width, "serial"),
      in_kernel("loss: gradient of the padding kept", "MLM#1754", loss, gradient_of_padding_kept, "serial"),

      // ---- A program ----
      in_program("latent attention: positions on the first channels", "", latent,
                 positions_on_the_first_channels, "serial"),
      in_program("latent attention: flags of latent norms lost", "", latent, flags_of_latent_norms_lost,
                 "serial"),
      in_program("latent attention: flags of down projections lost", "PaddleFleet#2008", latent,
                 flags_of_down_projections_lost, "serial"),
      in_program("row: bias on every rank", "", row, bias_before_the_sum, "serial"),
      in_program("row: input of the next rank", "MLM e1b8454330", row, input_of_the_next_rank, "serial"),
      in_program("row: 1/tp too much", "TrainVerify", row, output_over_tp, "serial"),
      in_program("row: read before it is there", "TE#1616", row, reads_before_the_sum_is_there, "serial"),
      in_program("column: strided rows cut in one piece", "MLM e1b8454330", column,
                 strided_rows_cut_in_one_piece, "serial"),
      in_program("column: each rank draws its own weight", "FLA#739", column, every_rank_draws_its_own_weight,
                 "serial"),
      in_program("column: weight gradient from another chunk", "TE#1616", column,
                 gathered_rows_of_the_next_rank, "adjoint"),
      in_program("gather: backward sums", "", "gather_from_tensor_model_parallel_region",
                 gather_whose_backward_sums, "adjoint"),
      in_program("gather: along the wrong axis", "", "all_gather_last_dim_from_tensor_parallel_region",
                 gathered_along_the_wrong_axis, "serial"),
      in_program("norm: flagged without sequence parallelism", "NeMo-RL#3788", norm, flag_where_none_belongs,
                 "serial"),
      in_program("mlp: gate and up exchanged", "TrainVerify", "mlp", gate_and_up_swapped, "serial"),
      in_program("dropout: one stream in a sharded region", "FleetX#1005, TE#1272", dropout,
                 same_stream_in_sharded_region, "serial"),
      in_program("dropout: streams of ranks in a replicated one", "MLM 965cfd316c", dropout,
                 streams_of_ranks_in_replicated_region, "agree"),
      in_program("dropout: another mask backward", "", dropout, another_mask_backward, "adjoint"),

      // ---- Data-parallel training ----
      in_training_call("training: last rank's gradients missing", "MLM e675940967",
                       "data_parallel.reduce_scatter", without_last),
      in_training_call("training: gradients over half of the group", "MLM abf04f46e3",
                       "data_parallel.reduce_scatter", over_half),
      in_kernel("training: vectors decay, too", "MLM ce8a8a736f", training, every_parameter_decays, "serial"),
      in_kernel("training: decay coupled where it is not", "", training, decay_of_the_other_kind, "serial"),
      in_kernel("training: step counter stands still", "MLM ce8a8a736f", training, every_step_is_the_first,
                "serial"),
      in_kernel("training: one rank does not clip", "DeepSpeed#1801", training, one_rank_does_not_clip,
                "serial"),
      in_kernel("training: clipped by the square of the norm", "DeepSpeed#2695", training, norm_is_not_rooted,
                "serial"),
      in_program("training: gradients not zeroed", "", training, gradients_not_zeroed, "serial"),
      in_program("training: reduced before the last gradient", "MLM 3548385ac3", training,
                 reduced_before_the_last_gradient, "serial"),
      in_program("training: mean of means", "Transformers#34191", training, mean_of_means, "serial"),
      in_program("training: tokens of the own rank", "MLM adfa873d96", training, tokens_of_the_own_rank,
                 "serial"),
      in_program("training: not divided by tokens", "MLM 5946e24b37", training, not_divided_by_tokens,
                 "serial"),
      in_program("training: divided by microbatches, too", "Entangle 6", training, divided_by_microbatches,
                 "serial"),
      in_program("training: parameters not waited for", "NeMo-RL#949", training, parameters_not_waited_for,
                 "serial"),
      in_program("training: last gather forgotten", "Bridge#3397", training, last_gather_forgotten, "serial"),
      in_program("training: optimizer holds other parameters", "accelerate#2665", training,
                 optimizer_holds_other_parameters, "serial"),
      in_program("training: last microbatch dropped", "torchtitan#1733", training, last_microbatch_dropped,
                 "serial"),
      in_program("training: stepped once a microbatch", "torchtitan#1733", training,
                 stepped_once_a_microbatch, "serial"),
      in_program("training: main parameters changed behind its back", "ISEEKYAN#104", training,
                 main_parameter_from_rounded_value, "serial"),
      in_program("training: moments forgotten", "MLM 1505db4cc4", training, moments_forgotten, "serial"),
      in_training_call("training: full bucket never reduced", "DeepSpeed#4321", "data_parallel.all_reduce",
                       left_out_where_full),
      in_program("experts: clipped by their own norm", "MLM abf10f8590", training,
                 experts_clipped_by_their_own_norm, "serial"),
      in_program("experts: reduced as dense parameters", "MLM abf04f46e3", training, experts_reduced_as_dense,
                 "serial"),
      in_program("experts: divided by their replicas", "PyTorch#160285, DeepSpeed#5259", training,
                 experts_divided_by_their_replicas, "serial"),
      in_program("experts: not divided by dp", "MLM 3373641ff1", training, experts_not_divided_by_dp,
                 "serial"),
      in_program("training: bucket padding differs by rank", "MLM ba8f2defc5, MLM#835", training,
                 padding_differs_by_rank, "serial"),
      in_program("training: not sharded where not divisible", "llm.c", training,
                 not_sharded_where_not_divisible, "serial"),
      in_program("training: unscaled by the next loss scale", "DeepSpeed#2695", training,
                 unscaled_by_the_next_scale, "serial"),

      // ---- Checkpoints ----
      in_program("checkpoint: only the last bucket saved", "", training, only_the_last_bucket_saved,
                 "resumes"),
      in_program("checkpoint: moments not loaded", "MLM 1505db4cc4", training, moments_not_loaded, "resumes"),
      in_program("checkpoint: step counter not loaded", "MLM 1505db4cc4", training, step_counter_not_loaded,
                 "resumes"),
      in_program("checkpoint: weights active after a step", "Bridge#3397", training,
                 weights_active_after_the_next_step, "resumes"),
      in_program("checkpoint: slices off by one", "", training, slices_off_by_one, "resumes"),
      in_program("checkpoint: one rank keeps a stale shard", "ISEEKYAN#104", training,
                 one_rank_keeps_its_stale_shard, "resumes"),
      in_program("checkpoint: saved before the update", "NeMo-RL#949", training, saved_before_the_update,
                 "resumes"),
      in_program("checkpoint: gated weight resharded as one block", "", gpt,
                 gated_weight_resharded_as_one_block, "resumes"),

      // ---- A whole step ----
      in_program("step: microbatches forgotten", "MLM ec97c85a60", gpt, microbatches_forgotten, "serial"),
      in_program("step: tie summed before the reduction", "MLM 3548385ac3", gpt,
                 tie_summed_before_the_reduction, "serial"),
      in_program("step: tied weight counted twice in the norm", "NeMo-RL#3788", gpt,
                 tied_weight_counted_twice, "serial"),
      in_program("step: every replica sees the same samples", "", gpt, every_replica_sees_the_same_samples,
                 "serial"),
      in_program("step: samples of the first iteration", "", gpt, samples_of_the_first_iteration, "serial"),
      in_program("step: labels not shifted", "", gpt, labels_not_shifted, "serial"),
      in_program("step: ignored labels counted", "Transformers#34191", gpt, ignored_labels_counted, "serial"),
      in_program("step: layer numbers of the next stage", "MLM c0665e01cd", gpt,
                 layer_number_of_the_next_stage, "serial"),
      in_program("step: layer held by two stages", "MLM c0665e01cd", gpt, layer_held_by_two_stages, "serial"),
      in_program("step: chunks in the order of ranks", "MLM 32bbb76d57", gpt, chunks_in_rank_order, "serial"),
      in_program("step: positions flagged sequence-parallel", "NeMo-RL#3788", gpt,
                 positions_flagged_sequence_parallel, "serial"),
      in_program("step: flag of the final norm lost", "MLM#1446", gpt, final_norm_flag_lost, "serial"),
      in_program("step: flag of the query norms lost", "", gpt, flag_of_the_query_norms_lost, "serial"),
      in_program("step: window by the layer of the stage", "", gpt, window_by_the_layer_of_the_stage,
                 "serial"),
      in_program("step: gradients of the step before kept", "torchtitan#1733", gpt,
                 gradients_kept_from_the_step_before, "serial"),
      in_program("step: updated before finalized", "", gpt, updated_before_finalized, "serial"),
      in_program("step: gradients not unscaled", "DeepSpeed#2695", gpt, gradients_not_unscaled, "serial"),
      in_program("step: gradients unscaled twice", "DeepSpeed#2695", gpt, gradients_unscaled_twice, "serial"),
      in_program("step: every microbatch in flight", "", gpt, every_microbatch_in_flight, "serial"),
      on_four_ranks(in_program("step: nothing overlaps", "", gpt, nothing_overlaps, "calls")),

      // ---- A whole step with experts ----
      in_program("step with experts: averaged over their replicas", "PyTorch#160285, DeepSpeed#5259", moe,
                 experts_averaged_over_their_replicas, "serial"),
      in_program("step with experts: scaled as if etp were tp", "MLM 4f8974a400", moe,
                 experts_scaled_as_if_etp_were_tp, "serial"),
      in_program("step with experts: reduced over dense replicas", "MLM abf04f46e3", moe,
                 experts_reduced_over_dense_replicas, "serial"),
      on_four_ranks(in_program("step with experts: a dense stage leaves the norm out", "MLM e675940967", moe,
                               dense_stage_leaves_the_norm_out, "serial")),
      in_program("step with experts: recomputed tokens counted twice", "", moe,
                 recomputed_tokens_counted_twice, "serial"),
      in_program("step with experts: balanced on the last stage only", "", moe,
                 balance_on_the_last_stage_only, "serial"),
      in_program("step with experts: balance without a gradient", "MLM 15e75b0890", moe,
                 balance_without_a_gradient, "serial"),
      in_program("step with experts: sequences balanced together", "MLM e3fe5508c9", moe,
                 sequences_balanced_together, "serial"),
      in_program("step with experts: capacity of the whole microbatch", "", moe,
                 capacity_of_the_whole_microbatch, "serial"),
      in_program("step with experts: first tokens for the most probable", "", moe,
                 first_tokens_for_the_most_probable, "serial"),
      in_program("step with experts: capacity not padded", "", moe, capacity_not_padded, "calls"),

      // ---- Context parallelism: attention ----
      in_ring("context: masked as the rank ahead", "", RingMistake::masked_as_the_rank_ahead),
      in_ring("context: lower and upper steps exchanged", "", RingMistake::lower_and_upper_exchanged),
      in_ring("context: partial results not rescaled", "", RingMistake::added_without_rescaling),
      in_ring("context: merged over all rows", "", RingMistake::merged_over_all_rows),
      in_ring("context: keys read before they are there", "", RingMistake::not_waited_for),
      in_ring("context: first gradient added to old memory", "", RingMistake::added_to_old_memory),
      in_ring("context: high half of the gradient not copied", "", RingMistake::high_half_not_copied),
      in_ring("context: gradient home one step early", "", RingMistake::home_one_step_early),
      in_ring("context: stale keys in backward", "diffusers#14265", RingMistake::stale_keys_backward),
      in_ring("context: ring turns the other way", "", RingMistake::turns_the_other_way),
      in_ring("context: sent to the rank that sends", "", RingMistake::sent_to_the_source),
      in_program("context: ring across borders of documents", "axolotl#3608", ring, attends_across_documents,
                 "serial"),
      in_program("context: padding attended", "TE#3331", ring, padding_attended, "serial"),
      in_all_gather("context: gathered rows in rank order", "", GatherMistake::rows_in_rank_order),
      in_all_gather("context: causal mask top left", "", GatherMistake::causal_top_left),
      in_program("context: heads of rows in rank order", "", ring, heads_of_rows_in_rank_order, "serial"),
      on_four_ranks(
          in_program("context: one group for both levels", "", ring, one_group_for_both_levels, "serial")),

      // ---- Context parallelism: training ----
      in_program("context: loss not multiplied by cp", "SkyRL#1420", cp, loss_not_times_cp, "serial"),
      in_program("context: loss multiplied by cp twice", "", cp, loss_times_cp_twice, "serial"),
      in_program("context: loss per token multiplied by cp", "MLM 5946e24b37", cp, loss_per_token_times_cp,
                 "serial"),
      in_program("context: gradients scaled by dp", "", cp, gradients_scaled_by_dp, "serial"),
      in_program("context: each rank divides by its tokens", "MLM#7452", cp, each_rank_divides_by_its_tokens,
                 "serial"),
      in_program("context: balance not multiplied by cp", "MLM f6e0d425a5", cp, balance_not_times_cp,
                 "serial"),
      in_program("context: norm gradients of the first rank", "", cp, norm_gradients_of_the_first_rank,
                 "serial"),
      in_program("context: labels of a training cut in one piece", "", cp,
                 labels_of_a_training_cut_in_one_piece, "serial"),
      in_program("context: documents of a training forgotten", "axolotl#3608", cp,
                 documents_of_a_training_forgotten, "serial"),
      in_program("context: labels of documents cut as a sequence", "", cp,
                 labels_of_documents_cut_as_a_sequence, "serial"),
      in_kernel("context: positions of the first half again", "MLM 13722647f3, MLM 28778d1283", cp,
                positions_of_the_first_half_again, "serial"),
  };
}

}  // namespace

verify::Bench Defect::bench() const {
  if (bug == nullptr) return verify::Bench(device);
  verify::Bench bench;
  bench.plant(bug->request.faults);
  return bench;
}

const std::vector<verify::CatalogueEntry>& bugs() {
  static const std::vector<verify::CatalogueEntry> all =
      verify::read_catalogue(verify::catalogue_files(), {}, verify::all_cases());
  return all;
}

const std::vector<Defect>& catalogue() {
  static const std::vector<Defect> defects = [] {
    std::vector<Defect> all;
    for (const verify::CatalogueEntry& bug : bugs()) all.push_back(of_bug(bug));
    for (Defect& defect : defects_that_need_code()) all.push_back(std::move(defect));
    return all;
  }();
  return defects;
}

const Defect& defect_named(const std::string& name) {
  const auto& all = catalogue();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Defect& defect) { return defect.name == name; });
  SIM_CHECK(found != all.end());
  return *found;
}

}  // namespace test
