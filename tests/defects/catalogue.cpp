#include "tests/defects/catalogue.h"

#include <utility>

#include "tests/defects/faulty_communicator.h"
#include "tests/defects/faulty_device.h"
#include "tests/defects/with_program.h"
#include "tests/defects/wrong_context.h"
#include "tests/defects/wrong_context_attention.h"
#include "tests/defects/wrong_context_training.h"
#include "tests/defects/wrong_experts.h"
#include "tests/defects/wrong_gpt.h"
#include "tests/defects/wrong_programs.h"
#include "tests/defects/wrong_routing.h"
#include "tests/defects/wrong_training.h"
#include "verify/cases/data_parallel_plan.h"

namespace test {

namespace {

using verify::CaseSetting;
using enum CallFault;

/// Plants a fault in one collective of a layer that is otherwise correct.
Defect in_call(std::string name, std::string source, const std::string& the_case, const std::string& site,
               CallFault fault, std::string property, std::string group = "tp", std::string other = "") {
  const FaultyCall faulty{site, fault, std::move(group), -1, std::move(other)};
  auto wrong = std::make_shared<WithProgram>(
      the_case, [faulty](const verify::Case& right, sim::Rank& rank, const CaseSetting& s) {
        FaultyCall call = faulty;
        if (call.fault == left_out_where_full)
          call.full = verify::DataParallelPlan{s}.bucket_size().value_or(-1);
        FaultyGroups groups(rank, std::move(call));
        sim::Rank at_fault{rank.id, rank.layout, rank.device, groups, rank.random, rank.record};
        right.run(at_fault, s);
      });
  return {std::move(name), std::move(source), std::move(property), std::move(wrong),
          std::make_shared<sim::CpuDevice>()};
}

/// Plants a fault in one kernel of a layer that is otherwise correct.
Defect in_kernel(std::string name, std::string source, const std::string& the_case, KernelFault fault,
                 std::string property) {
  auto right = std::make_shared<WithProgram>(
      the_case, [](const verify::Case& layer, sim::Rank& rank, const CaseSetting& s) { layer.run(rank, s); });
  return {std::move(name), std::move(source), std::move(property), std::move(right),
          std::make_shared<FaultyDevice>(fault)};
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

Defect in_cp_step(std::string name, std::string source, const std::string& site, CallFault fault,
                  std::string group, std::string other = "") {
  return in_call(std::move(name), std::move(source), "cp_training", site, fault, "serial", std::move(group),
                 std::move(other));
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

Defect in_training_call(std::string name, std::string source, const std::string& site, CallFault fault,
                        std::string group = "dp-cp") {
  return in_call(std::move(name), std::move(source), "distributed_optimizer", site, fault, "serial",
                 std::move(group));
}

Defect in_step(std::string name, std::string source, const std::string& site, CallFault fault,
               std::string group) {
  return in_call(std::move(name), std::move(source), "gpt_training", site, fault, "serial", std::move(group));
}

std::vector<Defect> make_catalogue() {
  using Kernel = KernelFault;
  const std::string row = "row_parallel_linear", column = "column_parallel_linear";
  const std::string embedding = "vocab_parallel_embedding", loss = "vocab_parallel_cross_entropy";
  const std::string norm = "parallel_norm", attention = "self_attention", layer = "transformer_layer";
  const std::string dropout = "parallel_dropout", training = "distributed_optimizer";
  const std::string gpt = "gpt_training", uneven = "all_to_all_uneven", experts = "moe_layer";
  const std::string moe = "moe_training", context = "cp_batch", ring = "cp_attention", cp = "cp_training";
  const std::string router = "moe_router", aux = "moe_aux_loss", dispatcher = "token_dispatcher";
  return {
      // ---- A collective ----
      in_call("row: forward sum left out", "TrainVerify", row, "row_parallel_linear.forward", left_out,
              "serial"),
      in_call("row: all_gather for the sum", "TrainVerify", row, "row_parallel_linear.forward", gathered,
              "serial"),
      in_call("row: forward sum averaged", "TrainVerify", row, "row_parallel_linear.forward", averaged,
              "serial"),
      in_call("row: sum over half of the group", "MLM#7452", row, "row_parallel_linear.forward", over_half,
              "agree"),
      in_call("row: last rank's term missing", "TrainVerify", row, "row_parallel_linear.forward",
              without_last, "serial"),
      in_call("layer: sum of the layer before", "TE#1055", layer, "row_parallel_linear.forward", stale,
              "serial"),
      in_call("row: one rank does not call", "TrainVerify", row, "row_parallel_linear.forward",
              skipped_by_one, "serial"),
      in_call("row: sequence gradient not gathered", "TrainVerify", row, "row_parallel_linear.backward",
              left_out, "serial"),
      in_call("column: input gradient not summed", "TrainVerify, Entangle 7, MLM 5fffdfc737", column,
              "column_parallel_linear.backward", left_out, "serial"),
      in_call("column: input gradient summed twice", "", column, "column_parallel_linear.backward", doubled,
              "serial"),
      in_call("column: input gradient averaged", "MLM cac8d1a3f0", column, "column_parallel_linear.backward",
              averaged, "adjoint"),
      in_call("column: sum for the gather of tokens", "TrainVerify", column, "column_parallel_linear.forward",
              summed, "serial"),
      in_call("column: tokens gathered in another order", "", column, "column_parallel_linear.forward",
              of_next_rank, "serial"),
      in_call("layer: weight gradient from stale input", "TE#1616", layer,
              "column_parallel_linear.backward_input", stale, "serial"),
      in_call("column: gathered output in another order", "", column, "column_parallel_linear.gather_output",
              of_next_rank, "serial"),
      in_call("embedding: sum left out", "TrainVerify", embedding, "vocab_parallel_embedding.forward",
              left_out, "serial"),
      in_call("embedding: sequence gradient not gathered", "TrainVerify", embedding,
              "vocab_parallel_embedding.backward", left_out, "serial"),
      in_call("loss: local maximum, not rescaled", "", loss, "vocab_parallel_cross_entropy.max", left_out,
              "serial"),
      in_call("loss: local sum of exponentials", "TrainVerify", loss, "vocab_parallel_cross_entropy.sum",
              left_out, "serial"),
      in_call("loss: largest for the sum", "TrainVerify", loss, "vocab_parallel_cross_entropy.sum", maximum,
              "serial"),
      in_call("norm: gradient summed twice", "MLM#7452", norm, "sequence_parallel_grads.sum", doubled,
              "serial"),
      in_call("norm: gradient over half of the group", "", norm, "sequence_parallel_grads.sum", over_half,
              "agree"),
      in_call("layer: norm gradients not summed", "MLM#1446, Entangle 9, GPT-NeoX#1257", layer,
              "sequence_parallel_grads.sum", left_out, "serial"),
      in_call("layer: reduce_scatter gives the next block", "TE#1055", layer, "row_parallel_linear.forward",
              of_next_rank, "serial"),
      in_call("attention: shared groups not reduced", "bigcode Megatron#11", attention,
              "self_attention.gather_qkv", left_out, "serial"),
      in_call("all_to_all: nothing exchanged", "MLM#1754", "all_to_all_sp2hp", "mapping.forward", left_out,
              "adjoint"),
      in_call("experts: outputs not summed", "", experts, "token_dispatcher.combine", left_out, "serial",
              "tp-ep"),
      in_call("experts: probability gradients not sent back", "", experts, "token_dispatcher.probs_backward",
              left_out, "serial", "tp-ep"),
      in_call("experts: router gradient not summed over tp", "torchtitan#2387, MLM#7452", experts,
              "sequence_parallel_grads.sum", left_out, "serial"),
      in_call("experts: counts of the next rank", "", experts, "token_dispatcher.counts", of_next_rank,
              "serial", "tp-ep"),
      in_call("experts: tokens of the next rank", "MLM 254c87400f", experts, "token_dispatcher.dispatch",
              of_next_rank, "serial", "tp-ep"),
      in_call("experts: one rank does not dispatch", "", experts, "token_dispatcher.dispatch", skipped_by_one,
              "serial", "ep"),
      in_call("experts: a rank without rows does not dispatch", "MLM#1877", experts,
              "token_dispatcher.dispatch", skipped_without_rows, "serial", "ep"),
      in_call("experts: probabilities detached", "Transformers#48687", experts,
              "token_dispatcher.probs_backward", zeroed, "serial", "ep"),
      in_call("experts: a slice for the sum over etp", "", experts, "token_dispatcher.combine", left_out,
              "serial", "etp"),
      in_program("experts: gathered over data-parallel ranks", "MLM 38ca18b27f", experts,
                 gathered_over_data_parallel_ranks, "serial"),
      in_program("experts: shared experts drawn by each replica", "DeepSpeed#5794", experts,
                 shared_experts_drawn_by_each_replica, "serial"),
      in_call("experts: bias moved by the own counts", "", router, "expert_bias.tokens", left_out, "serial",
              "tp-dp-cp"),
      in_program("experts: flag of the router lost", "MLM#7452", router, router_flag_lost, "calls"),
      in_program("experts: capacity of all tokens", "", router, capacity_of_all_tokens, "serial"),
      in_program("experts: ties broken otherwise in recomputation", "", router,
                 ties_broken_otherwise_in_recomputation, "serial"),
      in_call("experts: counts of tp alone", "", aux, "aux_loss.counts", over_half, "serial", "tp-cp"),
      in_call("experts: counts reduced in place twice", "MLM#7452", aux, "aux_loss.counts", doubled, "serial",
              "tp-dp-cp"),
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
      in_call("context: gathered in another order", "", context, "cp_batch.gather_grad", of_next_rank,
              "adjoint", "cp"),

      // ---- A kernel ----
      in_kernel("row: a little added on one rank", "TrainVerify", row,
                Kernel::bias_is_a_little_larger_on_one_rank, "agree"),
      in_kernel("row: a little added on all ranks", "TrainVerify", row,
                Kernel::bias_is_a_little_larger_on_all_ranks, "serial"),
      in_kernel("row: one rank's products a little smaller", "TrainVerify", row,
                Kernel::sum_is_a_little_smaller_on_one_rank, "serial"),
      in_kernel("norm: another epsilon on one rank", "TrainVerify", norm, Kernel::epsilon_differs_on_one_rank,
                "serial"),
      in_kernel("mlp: activation doubled on one rank", "TrainVerify", "mlp",
                Kernel::activation_doubled_on_one_rank, "serial"),
      in_kernel("mlp: activation doubled on all ranks", "TrainVerify", "mlp",
                Kernel::activation_doubled_on_all_ranks, "serial"),
      in_kernel("mlp: another activation on one rank", "TrainVerify", "mlp",
                Kernel::activation_differs_on_one_rank, "serial"),
      in_kernel("mlp: derivative of another activation", "TrainVerify", "mlp",
                Kernel::derivative_of_other_function, "serial"),
      in_kernel("column: bias gradient forgotten", "bigcode Megatron#11", column,
                Kernel::bias_gradient_forgotten, "adjoint"),
      in_kernel("column: weight gradient added twice", "TE#1054", column, Kernel::weight_gradient_twice,
                "adjoint"),
      in_kernel("attention: positions off by one on a rank", "MLM bbfbd6c18d", attention,
                Kernel::rotary_from_position_one, "serial"),
      in_kernel("attention: gradient not turned back", "TrainVerify", attention,
                Kernel::rotary_not_turned_back, "serial"),
      in_kernel("attention: causal mask dropped", "axolotl#3608", attention, Kernel::causal_mask_dropped,
                "serial"),
      in_kernel("attention: scores not scaled", "TrainVerify", attention, Kernel::scores_not_scaled,
                "serial"),
      in_kernel("attention: gradient of scores not scaled", "TrainVerify", attention,
                Kernel::gradient_of_scores_not_scaled, "serial"),
      in_kernel("attention: two heads exchanged", "MLM e1b8454330", attention, Kernel::heads_permuted,
                "serial"),
      in_kernel("embedding: vocabulary range off by one", "MLM#1754", embedding, Kernel::first_id_off_by_one,
                "serial"),
      in_kernel("embedding: mask of foreign ids dropped", "MLM#1754", embedding,
                Kernel::foreign_ids_are_the_first, "serial"),
      in_kernel("embedding: gradient's range off by one", "MLM#1754", embedding,
                Kernel::gradient_of_first_id_off_by_one, "adjoint"),
      in_kernel("loss: target range off by one", "MLM#1754", loss, Kernel::target_off_by_one, "serial"),
      in_kernel("loss: ignored tokens counted", "MLM adfa873d96", loss, Kernel::ignored_tokens_counted,
                "serial"),
      in_kernel("loss: padded vocabulary counted", "MLM#1754", loss, Kernel::padding_counted, "serial"),
      in_kernel("loss: smoothing by the local width", "", loss, Kernel::smoothing_by_local_width, "serial"),
      in_kernel("loss: gradient of the padding kept", "MLM#1754", loss, Kernel::gradient_of_padding_kept,
                "serial"),

      // ---- A program ----
      in_program("row: bias on every rank", "", row, bias_before_the_sum, "serial"),
      in_program("row: input of the next rank", "MLM e1b8454330", row, input_of_the_next_rank, "serial"),
      in_program("row: 1/tp too much", "TrainVerify", row, output_over_tp, "serial"),
      in_program("row: sum copied, input returned", "MLM#5338", row, sum_returns_its_input, "serial"),
      in_program("row: read before it is there", "TE#1616", row, reads_before_the_sum_is_there, "serial"),
      in_program("column: strided rows cut in one piece", "MLM e1b8454330", column,
                 strided_rows_cut_in_one_piece, "serial"),
      in_program("column: each rank draws its own weight", "FLA#739", column, every_rank_draws_its_own_weight,
                 "serial"),
      in_program("column: no sum in backward", "MLM 5fffdfc737", column, input_gradient_not_summed, "calls"),
      in_program("column: weight gradient from another chunk", "TE#1616", column,
                 gathered_rows_of_the_next_rank, "adjoint"),
      in_program("gather: backward sums", "", "gather_from_tensor_model_parallel_region",
                 gather_whose_backward_sums, "adjoint"),
      in_program("gather: backward only splits", "", "gather_from_sequence_parallel_region",
                 gather_whose_backward_only_splits, "adjoint"),
      in_program("gather: along the wrong axis", "", "all_gather_last_dim_from_tensor_parallel_region",
                 gathered_along_the_wrong_axis, "serial"),
      in_program("norm: sequence-parallel flag lost", "MLM#599, MLM#1446, Entangle 9, GPT-NeoX#1257", norm,
                 flag_lost, "calls"),
      in_program("norm: flagged without sequence parallelism", "NeMo-RL#3788", norm, flag_where_none_belongs,
                 "serial"),
      in_program("mlp: gate and up exchanged", "TrainVerify", "mlp", gate_and_up_swapped, "serial"),
      in_program("dropout: one stream in a sharded region", "FleetX#1005, TE#1272", dropout,
                 same_stream_in_sharded_region, "serial"),
      in_program("dropout: streams of ranks in a replicated one", "MLM 965cfd316c", dropout,
                 streams_of_ranks_in_replicated_region, "agree"),
      in_program("dropout: another mask backward", "", dropout, another_mask_backward, "adjoint"),
      in_kernel("tied weight: gradient of one use only", "MLM#656", "tied_embedding",
                Kernel::gradient_of_rows_forgotten, "serial"),

      // ---- Data-parallel training ----
      in_training_call("training: gradients not reduced", "PyTorch#104336", "data_parallel.reduce_scatter",
                       left_out),
      in_training_call("training: gradients averaged twice", "DeepSpeed#6545", "data_parallel.reduce_scatter",
                       averaged, "dp-cp"),
      in_training_call("training: gradients summed twice", "Horovod#2687", "data_parallel.reduce_scatter",
                       doubled),
      in_training_call("training: the next rank's shard", "MLM ba8f2defc5", "data_parallel.reduce_scatter",
                       of_next_rank),
      in_training_call("training: last rank's gradients missing", "MLM e675940967",
                       "data_parallel.reduce_scatter", without_last),
      in_training_call("training: gradients over half of the group", "MLM abf04f46e3",
                       "data_parallel.reduce_scatter", over_half),
      in_training_call("training: plain sum left out", "PyTorch#104336", "data_parallel.all_reduce",
                       left_out),
      in_training_call("training: parameters not gathered", "MLM#6920", "optimizer.gather_params", left_out),
      in_training_call("training: shards gathered in another order", "MLM 32bbb76d57",
                       "optimizer.gather_params", of_next_rank),
      in_training_call("training: parameters of the step before", "MLM a0430bf876", "optimizer.gather_params",
                       stale),
      in_training_call("training: norm of the own shard", "MLM cd4afffa64", "optimizer.grad_norm", left_out,
                       "intra-dist-opt"),
      in_training_call("training: norm counts twice", "NeMo-RL#3788", "optimizer.grad_norm", doubled,
                       "intra-dist-opt"),
      in_training_call("training: largest norm for the sum", "MLM abf10f8590", "optimizer.grad_norm", maximum,
                       "intra-dist-opt"),
      in_kernel("training: vectors decay, too", "MLM ce8a8a736f", training, Kernel::every_parameter_decays,
                "serial"),
      in_kernel("training: decay coupled where it is not", "", training, Kernel::decay_of_the_other_kind,
                "serial"),
      in_kernel("training: step counter stands still", "MLM ce8a8a736f", training,
                Kernel::every_step_is_the_first, "serial"),
      in_kernel("training: one rank does not clip", "DeepSpeed#1801", training,
                Kernel::one_rank_does_not_clip, "serial"),
      in_kernel("training: clipped by the square of the norm", "DeepSpeed#2695", training,
                Kernel::norm_is_not_rooted, "serial"),
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
      in_training_call("instances: not summed across", "", "data_parallel.all_reduce_across", left_out,
                       "inter-edp"),
      in_training_call("instances: averaged across", "", "data_parallel.all_reduce_across", averaged,
                       "inter-edp"),
      in_training_call("experts: norm without the other experts", "MLM cd4afffa64", "optimizer.grad_norm",
                       left_out, "tp-ep-pp"),
      in_training_call("experts: norm counts the other experts twice", "MLM 6183f9dbec",
                       "optimizer.grad_norm", doubled, "tp-ep-pp"),
      in_training_call("experts: one rank leaves the norm out", "MLM e675940967", "optimizer.grad_norm",
                       skipped_by_one, "tp-ep-pp"),
      in_program("experts: clipped by their own norm", "MLM abf10f8590", training,
                 experts_clipped_by_their_own_norm, "serial"),
      in_training_call("experts: gradients not reduced", "", "data_parallel.reduce_scatter", left_out, "edp"),
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

      // ---- A whole step ----
      in_step("step: tie lost", "MLM#656", "tied_embeddings.tie", left_out, "embd"),
      in_step("step: gradients of the tie not summed", "MLM#656", "tied_embeddings.grads", left_out, "embd"),
      in_step("step: gradients of the tie averaged", "", "tied_embeddings.grads", averaged, "embd"),
      in_step("step: norm of one stage", "MLM abf10f8590", "optimizer.grad_norm", over_half,
              "intra-dist-opt"),
      in_step("step: norm of one stage, plain", "NeMo-RL#3788", "optimizer.grad_norm", left_out, "mp"),
      in_step("step: gradients not reduced", "PyTorch#104336", "data_parallel.reduce_scatter", left_out,
              "dp-cp"),
      in_step("step: parameters not gathered", "MLM#6920", "optimizer.gather_params", left_out, "dp-cp"),
      in_step("step: norm gradients of each rank's tokens", "MLM#1446", "sequence_parallel_grads.sum",
              left_out, "tp"),
      in_step("step: loss of one replica", "MLM adfa873d96", "training_log.loss", left_out, "dp-cp"),
      in_step("step: tokens not told to other stages", "MLM 5946e24b37", "finalize_model_grads.tokens",
              left_out, "pp"),
      in_step("step: divided by the own tokens", "MLM adfa873d96", "finalize_model_grads.sum_tokens",
              left_out, "dp-cp"),
      in_step("step: labels not told to the group", "MLM#1754", "get_batch.labels", left_out, "tp"),
      in_step("step: tokens not told to the group", "MLM#1754", "get_batch.tokens", left_out, "tp"),
      in_step("step: activations of the microbatch before", "MLM#1450", "pipeline.recv_forward", stale, "pp"),
      in_step("step: gradients of the microbatch before", "MLM#1495", "pipeline.recv_backward", stale, "pp"),
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
      in_program("step: gradients of the step before kept", "torchtitan#1733", gpt,
                 gradients_kept_from_the_step_before, "serial"),
      in_program("step: updated before finalized", "", gpt, updated_before_finalized, "serial"),
      in_program("step: gradients not unscaled", "DeepSpeed#2695", gpt, gradients_not_unscaled, "serial"),
      in_program("step: gradients unscaled twice", "DeepSpeed#2695", gpt, gradients_unscaled_twice, "serial"),
      in_call("step: overflow seen on one rank", "DeepSpeed#1801", gpt, "optimizer.found_nonfinite", left_out,
              "calls", "intra-dist-opt"),
      in_program("step: every microbatch in flight", "", gpt, every_microbatch_in_flight, "serial"),
      in_program("step: parameters gathered twice", "", gpt, parameters_gathered_twice, "calls"),
      in_program("step: nothing overlaps", "", gpt, nothing_overlaps, "calls"),

      // ---- A whole step with experts ----
      in_program("step with experts: averaged over their replicas", "PyTorch#160285, DeepSpeed#5259", moe,
                 experts_averaged_over_their_replicas, "serial"),
      in_program("step with experts: scaled as if etp were tp", "MLM 4f8974a400", moe,
                 experts_scaled_as_if_etp_were_tp, "serial"),
      in_program("step with experts: reduced over dense replicas", "MLM abf04f46e3", moe,
                 experts_reduced_over_dense_replicas, "serial"),
      in_program("step with experts: norm over the dense grid", "MLM#5916, MLM cd4afffa64", moe,
                 norm_of_experts_over_the_dense_grid, "serial"),
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
      in_call("context: keys of the step before", "", ring, "ring_attention.forward", stale, "serial", "cp"),
      in_call("context: ring turns the other way", "", ring, "ring_attention.forward", to_other_neighbour,
              "serial", "cp"),
      in_call("context: sent to the rank that sends", "", ring, "ring_attention.forward", sent_to_the_source,
              "serial", "cp"),
      in_program("context: ring across borders of documents", "axolotl#3608", ring, attends_across_documents,
                 "serial"),
      in_program("context: padding attended", "TE#3331", ring, padding_attended, "serial"),
      in_all_gather("context: gathered rows in rank order", "", GatherMistake::rows_in_rank_order),
      in_all_gather("context: causal mask top left", "", GatherMistake::causal_top_left),
      in_call("context: gathered keys in another order", "", ring, "all_gather_attention.keys", of_next_rank,
              "serial", "cp"),
      in_call("context: a slice for the sum of key gradients", "", ring, "all_gather_attention.grad_keys",
              left_out, "serial", "cp"),
      in_program("context: heads of rows in rank order", "", ring, heads_of_rows_in_rank_order, "serial"),
      in_call("context: heads not exchanged back", "", ring, "all_to_all_attention.context", left_out,
              "serial", "cp"),
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
      in_cp_step("context: tokens not summed over cp", "", "loss_func.tokens", left_out, "cp"),
      in_cp_step("context: tokens summed over dp alone", "", "finalize_model_grads.sum_tokens",
                 over_other_group, "dp-cp", "dp"),
      in_cp_step("context: loss logged over dp alone", "", "training_log.loss", over_other_group, "dp-cp",
                 "dp"),
      in_cp_step("context: gradients reduced over dp alone", "", "data_parallel.all_reduce", over_other_group,
                 "dp-cp", "dp"),
      in_cp_step("context: norm over dp alone", "", "optimizer.grad_norm", over_other_group, "intra-dist-opt",
                 "dp"),
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
                Kernel::positions_of_the_first_half_again, "serial"),
  };
}

}  // namespace

const std::vector<Defect>& catalogue() {
  static const std::vector<Defect> defects = make_catalogue();
  return defects;
}

}  // namespace test
