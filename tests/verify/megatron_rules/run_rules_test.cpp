// Breaks every rule that Megatron has for arguments which the command line does not know, by one change of a
// run that holds. Refusals are compared as sets, because a change may break several rules.

#include <algorithm>
#include <cctype>
#include <gtest/gtest.h>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/verify/megatron_rules/judged_run.h"
#include "verify/megatron_rules/run_validation.h"
#include "verify/run_arguments/run_script.h"

namespace {

using test::Codes;

/// Further words of a run, and the codes with which it is refused. "-name" takes an argument away, and
/// "NAME=value" is a variable of the environment.
struct Broken {
  const char* words;
  Codes codes;
};

constexpr const char* kDense =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 1 --train-iters 10 --bf16 --tensor-model-parallel-size "
    "2 --pipeline-model-parallel-size 2 --global-batch-size 8";
constexpr const char* kExperts =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 1 --train-iters 10 --bf16 --tensor-model-parallel-size "
    "2 --expert-model-parallel-size 2 --expert-tensor-parallel-size 1 --num-experts 4 --disable-bias-linear "
    "--sequence-parallel --moe-token-dispatcher-type alltoall --moe-grouped-gemm --global-batch-size 8";
constexpr const char* kFsdp =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 1 --train-iters 10 --bf16 --global-batch-size 8 "
    "--use-torch-fsdp2 --untie-embeddings-and-output-weights --no-gradient-accumulation-fusion";
constexpr const char* kHybrid =
    "--hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 --max-position-embeddings 16 "
    "--micro-batch-size 1 --train-iters 10 --bf16 --tensor-model-parallel-size 2 "
    "--pipeline-model-parallel-size 2 --global-batch-size 8 --position-embedding-type rope "
    "--hybrid-layer-pattern M-|M*";

const std::vector<Broken>& broken_dense() {
  static const std::vector<Broken> all = {
      {"--batch-size 4", {"batch_size_removed"}},
      {"--warmup 10", {"warmup_removed"}},
      {"--model-parallel-size 2", {"model_parallel_size_removed"}},
      {"--checkpoint-activations", {"checkpoint_activations_removed"}},
      {"--no-position-embedding", {"no_position_embedding_removed"}},
      {"--overlap-grad-reduce True", {"flag_with_value"}},
      {"--lr", {"value_missing"}},
      {"--lr 1 2", {"values_too_many"}},
      {"--recompute-granularity selective --recompute-modules core_attn,mlp", {"list_with_commas"}},
      {"--tensor-parallel-num-weight-shards 1", {"weight_shards_below_tp"}},
      {"--tensor-parallel-num-weight-shards 3", {"weight_shards_not_multiple"}},
      {"--tensor-parallel-num-weight-shards 8", {"world_not_divisible"}},
      {"--tensor-parallel-num-weight-shards 4 --num-distributed-optimizer-instances 2 "
       "--eval-global-batch-size 8",
       {"gtp_instances"}},
      {"--tensor-parallel-num-weight-shards 4 --ddp-average-in-collective", {"gtp_average_in_collective"}},
      {"--tensor-parallel-num-weight-shards 4 --ckpt-format torch_dcp --use-torch-fsdp2",
       {"gtp_ckpt_format", "fsdp2_grad_fusion", "fsdp2_pp", "fsdp2_tied_embeddings", "torch_dcp_pp",
        "torch_dcp_tp"}},
      {"--tensor-parallel-num-weight-shards 4 --dist-ckpt-optim-fully-reshardable "
       "--distrib-optim-fully-reshardable-mem-efficient",
       {"gtp_mem_efficient"}},
      {"--tensor-parallel-num-weight-shards 4 --fp8-format hybrid --fp8-recipe mxfp8", {"gtp_mxfp8"}},
      {"--tensor-parallel-num-weight-shards 4 --fp4-format e2m1", {"gtp_fp4"}},
      {"--tensor-parallel-num-weight-shards 4 --global-batch-size 3 --eval-global-batch-size 8",
       {"gbs_not_divisible"}},
      {"--sharp-enabled-group dp", {"sharp_group"}},
      {"--use-sharp --sharp-enabled-group dp_replica", {"sharp_group"}},
      {"--use-sharp", {"sharp_group_uninitialized"}},
      {"CUDA_DEVICE_MAX_CONNECTIONS=1 --pipeline-model-parallel-comm-backend ucc", {"ucc_max_connections"}},
      {"-micro-batch-size", {"micro_batch_missing"}},
      {"--rampup-batch-size 4 4", {"rampup_values"}},
      {"--rampup-batch-size 4 4 100", {}},
      {"--step-batch-size-schedule 0:8", {"schedule_and_gbs"}},
      {"-global-batch-size --step-batch-size-schedule 0:8 --decrease-batch-size-if-needed",
       {"schedule_decrease"}},
      {"-global-batch-size --step-batch-size-schedule 0:8,16", {"schedule_entry"}},
      {"-global-batch-size --step-batch-size-schedule 1K:8,1M:16", {"schedule_first"}},
      {"-global-batch-size --step-batch-size-schedule 0:8,15:16", {"schedule_order"}},
      {"-global-batch-size --step-batch-size-schedule 0:0", {"schedule_size"}},
      {"--eval-global-batch-size 3", {"eval_gbs_not_divisible"}},
      {"--eval-micro-batch-size 0", {"zero_division"}},
      {"--global-batch-size 1 --decrease-batch-size-if-needed --eval-global-batch-size 8", {"no_microbatch"}},
      {"--micro-batch-size 2 --perform-rl-step --rl-use-sequence-packing", {"rl_packing_micro_batch"}},
      {"--encoder-num-layers 4", {"two_layer_counts"}},
      {"-num-layers", {"no_layer_count"}},
      {"-hidden-size", {"required_arg_missing"}},
      {"-num-attention-heads", {"required_arg_missing"}},
      {"-max-position-embeddings", {"required_arg_missing"}},
      {"--encoder-seq-length 16", {"two_seq_lengths"}},
      {"-seq-length", {"no_seq_length"}},
      {"--decoder-seq-length 17", {"max_positions_below_decoder_seq"}},
      {"--make-vocab-size-divisible-by 0", {"zero_division"}},
      {"--padded-vocab-size 101", {"layer_divide"}},
      {"--swiglu --quick-geglu", {"two_activations"}},
      {"--squared-relu", {"bias_fusion_activation"}},
      {"--use-te-activation-func", {"bias_fusion_and_te_activation"}},
      {"--position-embedding-type relative --transformer-impl local", {"relative_needs_te"}},
      {"--position-embedding-type mrope", {"mrope_section_missing"}},
      {"--mtp-num-layers 1 --position-embedding-type yarn", {"mtp_position_embedding"}},
      {"--no-rope-freq 3", {"norope_layers"}},
      {"--no-rope-freq [0]*4", {}},
      {"--no-rope-freq [0]*1 +[1]*3", {"pattern_blanks", "values_too_many"}},
      {"--no-rope-freq [0]*3", {"norope_layers"}},
      {"--no-rope-freq [0", {"norope_layers"}},
      {"--rope-type yarn", {"rope_type_needs_mla"}},
      {"--multi-latent-attention --group-query-attention --num-query-groups 2", {"mla_with_gqa"}},
      {"--multi-latent-attention --rotary-interleaved", {"mla_rotary_interleaved"}},
      {"--multi-latent-attention --position-embedding-type rope --rope-type rope", {"mla_rope_fusion"}},
      {"--experimental-attention-variant gdn --linear-conv-kernel-dim 4 --linear-key-head-dim 8 "
       "--linear-value-head-dim 8 --linear-num-key-heads 2 --linear-num-value-heads 4",
       {"gdn_freq"}},
      {"--experimental-attention-variant gdn --linear-attention-freq 2 --linear-key-head-dim 8 "
       "--linear-value-head-dim 8 --linear-num-key-heads 2 --linear-num-value-heads 4",
       {"gdn_sizes"}},
      {"--experimental-attention-variant gdn --linear-attention-freq 2 --linear-conv-kernel-dim 4 "
       "--linear-key-head-dim 8 --linear-value-head-dim 8 --linear-num-key-heads 4 --linear-num-value-heads "
       "6",
       {"gdn_value_key_heads"}},
      {"--experimental-attention-variant gdn --linear-attention-freq 2 --linear-conv-kernel-dim 4 "
       "--linear-key-head-dim 8 --linear-value-head-dim 8 --linear-num-key-heads 1 --linear-num-value-heads "
       "4",
       {"gdn_key_heads_tp_cp"}},
      {"--experimental-attention-variant gdn --linear-attention-freq 2 --linear-conv-kernel-dim 4 "
       "--linear-key-head-dim 8 --linear-value-head-dim 8 --linear-num-key-heads 1 --linear-num-value-heads "
       "1",
       {"gdn_value_heads_tp_cp", "gdn_key_heads_tp_cp"}},
      {"--attention-backend local", {"local_backend_spec"}},
      {"--transformer-impl inference_optimized --disable-bias-linear", {"inference_impl_needs_rmsnorm"}},
      {"--transformer-impl inference_optimized --disable-bias-linear --normalization RMSNorm "
       "--apply-layernorm-1p",
       {"inference_impl_layernorm_1p"}},
      {"--transformer-impl inference_optimized --normalization RMSNorm", {"inference_impl_bias"}},
      {"--transformer-impl inference_optimized --disable-bias-linear --normalization RMSNorm --add-qkv-bias",
       {"inference_impl_qkv_bias"}},
      {"--use-mup --mup-base-hidden-size 0", {"mup_base"}},
      {"--enable-mhc-connections", {"mhc_pp"}},
      {"--pipeline-model-parallel-size 1 --enable-mhc-connections --recompute-granularity full "
       "--recompute-method uniform --recompute-num-layers 1",
       {"mhc_full_recompute"}},
      {"--pipeline-model-parallel-size 1 --enable-mhc-connections --fp32-residual-connection",
       {"mhc_fp32_residual"}},
      {"--pipeline-model-parallel-size 1 --enable-mhc-connections --mtp-num-layers 1 "
       "--position-embedding-type rope",
       {"mhc_mtp"}},
      {"--fp16-lm-cross-entropy", {"fp16_loss_needs_fp16"}},
      {"-bf16 --fp32-residual-connection", {"fp32_residual_needs_half"}},
      {"--fp8-format hybrid --first-last-layers-bf16", {"fp8_delayed_bf16_layers"}},
      {"--fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-start-in-bf16 3",
       {"fp8_bf16_start_layers"}},
      {"--fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 -1",
       {"fp8_bf16_end_layers"}},
      {"--fp8-format hybrid --fp8-param-gather", {"fp8_param_gather_needs_distopt"}},
      {"--fp8-param-gather --use-distributed-optimizer", {"fp8_param_without_fp8"}},
      {"--fp8-format hybrid --fp4-format e2m1", {"fp4_and_fp8"}},
      {"--fp4-param-gather", {"fp4_param_without_fp4"}},
      {"--num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication",
       {"vpp_no_overlap_needs_pp3"}},
      {"--overlap-p2p-communication-warmup-flush", {"warmup_flush_overlap"}},
      {"--pipeline-model-parallel-size 1 --defer-embedding-wgrad-compute", {"defer_embedding_pp"}},
      {"--defer-embedding-wgrad-compute --no-gradient-accumulation-fusion", {"defer_embedding_fusion"}},
      {"--defer-embedding-wgrad-compute --wgrad-deferral-limit -1", {"defer_embedding_limit"}},
      {"--cp-comm-type a2a+p2p", {"a2a_p2p_needs_hier_sizes"}},
      {"--context-parallel-size 2 --cp-comm-type p2p a2a", {"cp_types_length"}},
      {"--context-parallel-size 2 --transformer-impl local", {"cp_needs_te"}},
      {"--hybrid-context-parallel --calculate-per-token-loss", {"hybrid_cp_pp"}},
      {"--pipeline-model-parallel-size 1 --hybrid-context-parallel --calculate-per-token-loss "
       "--enable-cuda-graph",
       {"hybrid_cp_cuda_graph"}},
      {"--pipeline-model-parallel-size 1 --hybrid-context-parallel --calculate-per-token-loss "
       "--cuda-graph-impl local",
       {}},
      {"--pipeline-model-parallel-size 1 --hybrid-context-parallel --calculate-per-token-loss "
       "--dataloader-type cyclic",
       {"hybrid_cp_dataloader"}},
      {"--pipeline-model-parallel-size 1 --hybrid-context-parallel", {"hybrid_cp_per_token_loss"}},
      {"--pipeline-model-parallel-size 1 --hybrid-context-parallel --calculate-per-token-loss "
       "--use-megatron-fsdp --ckpt-format fsdp_dtensor",
       {"hybrid_cp_mfsdp"}},
      {"--tensor-model-parallel-size 8 --pipeline-model-parallel-size 1 --hybrid-context-parallel "
       "--calculate-per-token-loss",
       {"hybrid_cp_even"}},
      {"--tp-comm-overlap", {"tp_comm_overlap_needs_sp"}},
      {"--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", {"te_cross_entropy"}},
      {"--deterministic-mode --cross-entropy-loss-fusion", {"deterministic_options"}},
      {"NCCL_ALGO=Ring,Tree --deterministic-mode", {"deterministic_nccl_algo"}},
      {"NVTE_ALLOW_NONDETERMINISTIC_ALGO=1 --deterministic-mode", {"deterministic_te"}},
      {"CUBLAS_WORKSPACE_CONFIG=:0:0 --deterministic-mode", {"deterministic_cublas"}},
      {"--moe-latent-size 8", {"latent_without_experts"}},
      {"--delay-wgrad-compute", {"delay_wgrad_needs_overlap"}},
      {"--moe-use-upcycling", {"upcycling_save"}},
      {"--tensor-model-parallel-size 1 --distribute-saved-activations --recompute-granularity full "
       "--recompute-method uniform --recompute-num-layers 1",
       {"distribute_saved_tp"}},
      {"--distribute-saved-activations --recompute-method uniform", {"distribute_saved_full"}},
      {"--distribute-saved-activations --recompute-granularity full --recompute-num-layers 1",
       {"distribute_saved_method", "full_recompute_needs_method"}},
      {"--distribute-saved-activations --recompute-granularity full --recompute-method uniform "
       "--recompute-num-layers 1 --sequence-parallel",
       {"distribute_saved_with_sp"}},
      {"--recompute-activations --recompute-modules attention", {"recompute_unknown_module"}},
      {"--recompute-activations --recompute-modules moe_act", {"recompute_moe_act"}},
      {"--recompute-activations --recompute-modules mla_up_proj", {"recompute_mla"}},
      {"--recompute-activations --recompute-modules gdn_norm_out", {"recompute_gdn"}},
      {"--recompute-activations --recompute-modules mhc", {"recompute_mhc"}},
      {"--pipeline-model-parallel-size 1 --enable-mhc-connections --recompute-activations "
       "--recompute-modules mhc mlp",
       {"recompute_mhc_mlp"}},
      {"--fp8-format hybrid --recompute-activations --recompute-modules [layernorm]",
       {"recompute_fp8_delayed"}},
      {"--pipeline-model-parallel-size 1 --cpu-offloading-num-layers 4", {"cpu_offload_layers"}},
      {"--cpu-offloading-num-layers 1", {"cpu_offload_pp"}},
      {"--pipeline-model-parallel-size 1 --cpu-offloading-num-layers 1 --recompute-activations",
       {"cpu_offload_recompute"}},
      {"--cuda-graph-impl full_iteration", {"full_iteration_nan"}},
      {"--cuda-graph-impl full_iteration --no-check-for-nan-in-loss-and-grad --cuda-graph-modules attn",
       {"full_iteration_modules"}},
      {"--cuda-graph-impl local --recompute-granularity full --recompute-method uniform "
       "--recompute-num-layers 1",
       {"graph_full_recompute"}},
      {"--cuda-graph-impl local --cuda-graph-modules [attn,moe_router]", {"graph_moe_modules"}},
      {"--pipeline-model-parallel-size 1 --cuda-graph-impl local --cpu-offloading-num-layers 1",
       {"graph_cpu_offload"}},
      {"--cuda-graph-impl local --recompute-activations", {"graph_attention_dropout"}},
      {"--external-cuda-graph --recompute-activations", {"graph_attention_dropout"}},
      {"--enable-cuda-graph --cuda-graph-scope full_iteration", {"full_iteration_nan"}},
      {"--cuda-graph-impl local --cuda-graph-scope full_iteration --recompute-granularity full "
       "--recompute-method uniform --recompute-num-layers 1 --no-check-for-nan-in-loss-and-grad",
       {}},
      {"--enable-cuda-graph --cuda-graph-impl local", {"graph_two_ways"}},
      {"--enable-cuda-graph --external-cuda-graph", {"graph_two_ways"}},
      {"--cuda-graph-impl local --cuda-graph-modules attn --cuda-graph-scope attn", {"graph_two_lists"}},
      {"--cuda-graph-impl local --cuda-graph-modules attention", {"graph_unknown_module"}},
      {"--external-cuda-graph --cuda-graph-scope full_iteration", {"graph_full_iteration_module"}},
      {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True --external-cuda-graph",
       {"graph_expandable_segments"}},
      {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True NCCL_GRAPH_REGISTER=0 --external-cuda-graph", {}},
      {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True --cuda-graph-impl local", {}},
      {"--fine-grained-activation-offloading --offload-modules core_attn", {}},
      {"--fine-grained-activation-offloading --offload-modules core_attn --transformer-impl local",
       {"offload_needs_te"}},
      {"--fine-grained-activation-offloading --offload-modules core_attn --cpu-offloading-num-layers 2 "
       "--pipeline-model-parallel-size 1",
       {"offload_with_layers"}},
      {"--fine-grained-activation-offloading", {"offload_without_modules"}},
      {"--fine-grained-activation-offloading --offload-modules mlp", {"offload_unknown_module"}},
      {"--fine-grained-activation-offloading --offload-modules attn_proj", {"offload_attn_proj"}},
      {"--fine-grained-activation-offloading --offload-modules core_attn --cuda-graph-impl local "
       "--cuda-graph-modules attn",
       {"offload_local_graph"}},
      {"--fine-grained-activation-offloading --offload-modules core_attn --cuda-graph-impl "
       "transformer_engine --cuda-graph-modules attn",
       {}},
      {"--fine-grained-activation-offloading --offload-modules expert_fc1 --cuda-graph-impl local "
       "--cuda-graph-scope attn",
       {}},
      {"--fine-grained-activation-offloading --offload-modules expert_fc1 --cuda-graph-impl local "
       "--cuda-graph-modules full",
       {"offload_local_graph"}},
      {"--fp8-format hybrid --fp8-recipe custom", {"fp8_custom_factory"}},
      {"--fp4-format e2m1 --fp4-recipe custom", {"fp4_custom_factory"}},
      {"--fp8-format hybrid --fp8-output-proj", {"fp8_output_layer"}},
      {"--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-output-proj", {}},
      {"--squared-relu --no-bias-gelu-fusion --use-te-activation-func", {"te_activation_function"}},
      {"--swiglu --no-bias-swiglu-fusion --use-te-activation-func", {}},
      {"--swiglu --glu-linear-offset 1.0", {"glu_offset"}},
      {"--quick-geglu --glu-linear-offset 1.0", {}},
      {"--fused-residual-rmsnorm", {"fused_residual_norm"}},
      {"--multi-latent-attention --attention-output-gate", {"mla_output_gate"}},
      {"--multi-latent-attention --position-embedding-type rope --cache-mla-latents", {"mla_cached_latents"}},
      {"--mla-down-proj-fusion", {"mla_down_projection"}},
      {"--multi-latent-attention --experimental-attention-variant dsa --no-rope-fusion", {"dsa_bias"}},
      {"--multi-latent-attention --experimental-attention-variant dsa --disable-bias-linear "
       "--position-embedding-type rope --no-bias-gelu-fusion",
       {"dsa_rope_fusion"}},
      {"--multi-latent-attention --experimental-attention-variant dsa --disable-bias-linear --no-rope-fusion "
       "--no-bias-gelu-fusion --context-parallel-size 2",
       {"dsa_context_parallel"}},
      {"--multi-latent-attention --experimental-attention-variant dsa --disable-bias-linear --no-rope-fusion "
       "--no-bias-gelu-fusion --context-parallel-size 2 --cp-comm-type allgather",
       {}},
      {"--cp-comm-type allgather", {}},
      {"--cp-comm-type allgather --context-parallel-size 2", {"bad_choice"}},
      {"--qk-clip --qk-clip-alpha 1.5", {"qk_clip"}},
      {"--optimizer-cpu-offload --use-precision-aware-optimizer --use-distributed-optimizer --fp8-format "
       "e4m3 --fp8-recipe mxfp8 --fp8-param-gather",
       {"cpu_offload_fp8_params"}},
      {"--reuse-grad-buf-for-mxfp8-param-ag", {"reuse_grad_buffer"}},
      {"--reuse-grad-buf-for-mxfp8-param-ag --fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather "
       "--use-distributed-optimizer",
       {}},
      {"--reuse-grad-buf-for-mxfp8-param-ag --fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather "
       "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ckpt-format torch "
       "--overlap-param-gather-with-optimizer-step --num-virtual-stages-per-pipeline-rank 2",
       {"reuse_grad_buffer_gather_step"}},
      {"--load-main-params-from-ckpt", {"load_main_params"}},
      {"--fsdp-manual-registration", {"fsdp_manual_registration"}},
      {"--use-megatron-fsdp --ckpt-format fsdp_dtensor --data-parallel-sharding-strategy optim_grads_params "
       "--check-weight-hash-across-dp-replicas-interval 10",
       {"fsdp_weight_hash"}},
      {"--save ckpt --save-interval 100 --save-retain-interval 150", {"save_retain_interval"}},
      {"--save ckpt --save-interval 100 --save-retain-interval 300", {}},
      {"--save ckpt --save-interval 100 --save-params-interval 100 --use-distributed-optimizer "
       "--overlap-grad-reduce --overlap-param-gather",
       {"save_params_gather"}},
      {"--log-memory-interval 150", {"log_memory_interval"}},
      {"--log-memory-interval 150 --log-interval 50", {}},
      {"--log-memory-interval -9223372036854775808 --log-interval -1", {}},
      {"--override-ckpt-iteration 3 --finetune", {"override_iteration_finetune"}},
      {"--replication", {"replication_jump"}},
      {"--non-persistent-ckpt-type local", {"local_checkpoint_folder"}},
      {"--fim-data --mock-data", {"fim_data"}},
      {"--data-path a --data-args-path b", {"two_data_sources"}},
      {"--optimizer adamw", {}},
      {"--tokenizer-type YuanTokenizer", {}},
      {"--save to checkpoints --save-interval 5", {}},
      {"--dist-ckpt-strictness log-all", {"bad_choice"}},
      {"--muon-scale-mode spectrum", {"bad_choice"}},
      {"--tp-comm-bootstrap-backend ucc", {"bad_choice"}},
      {"--rotary-base 500k", {"not_a_number"}},
      {"--rotary-base 1e6 --seed 7 --init-method-std 0.5", {}},
      {"--seed 1e3", {"not_a_number"}},
      {"--seed= 3", {"not_a_number", "values_too_many"}},
      {"--enable-cuda-graph --cuda-graph-scope mlp --recompute-activations --recompute-modules mlp",
       {"graph_hidden_dropout"}},
      {"--cuda-graph-impl local --cuda-graph-modules mlp --recompute-activations --recompute-modules mlp",
       {"graph_hidden_dropout"}},
      {"--overlap-param-gather --overlap-grad-reduce", {"param_gather_needs_distopt"}},
      {"--overlap-param-gather --use-distributed-optimizer", {"param_gather_needs_grad_reduce"}},
      {"--overlap-param-gather-with-optimizer-step --overlap-param-gather --overlap-grad-reduce --optimizer "
       "dist_muon --num-virtual-stages-per-pipeline-rank 2 --ckpt-format torch",
       {"gather_step_needs_distopt"}},
      {"--overlap-param-gather-with-optimizer-step --use-distributed-optimizer "
       "--num-virtual-stages-per-pipeline-rank 2 --ckpt-format torch",
       {"gather_step_needs_param_gather"}},
      {"--overlap-param-gather-with-optimizer-step --overlap-param-gather --overlap-grad-reduce "
       "--use-distributed-optimizer --ckpt-format torch",
       {"gather_step_needs_vpp"}},
      {"--overlap-param-gather-with-optimizer-step --overlap-param-gather --overlap-grad-reduce "
       "--use-distributed-optimizer --num-virtual-stages-per-pipeline-rank 2",
       {"gather_step_dist_ckpt"}},
      {"--optimizer lion --ckpt-format fsdp_dtensor", {"emerging_opt_ckpt", "fsdp_dtensor_needs_mfsdp"}},
      {"--disable-gloo-process-groups --use-distributed-optimizer --ckpt-format torch",
       {"no_gloo_ckpt_format"}},
      {"--disable-gloo-process-groups --use-distributed-optimizer --dist-ckpt-optim-fully-reshardable "
       "--distrib-optim-fully-reshardable-mem-efficient",
       {"no_gloo_mem_efficient"}},
      {"--use-precision-aware-optimizer --optimizer sgd", {"precision_aware_adam"}},
      {"--use-precision-aware-optimizer", {"precision_aware_distributed"}},
      {"--optimizer-cpu-offload", {"cpu_offload_needs_precision_aware"}},
      {"--ddp-num-buckets 2 --ddp-bucket-size 1000", {"ddp_buckets_and_size"}},
      {"--ddp-num-buckets 0", {"ddp_buckets_not_positive"}},
      {"--ddp-param-name-patterns-for-fp32-local-accumulation all", {"ddp_patterns"}},
      {"--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --ckpt-format torch_dcp",
       {"torch_dcp_needs_fsdp2"}},
      {"--ckpt-format fsdp_dtensor", {"fsdp_dtensor_needs_mfsdp"}},
      {"--use-megatron-fsdp --ckpt-format fsdp_dtensor --megatron-fsdp-version 2 --use-distributed-optimizer",
       {"mfsdp2_distopt"}},
      {"--use-megatron-fsdp --ckpt-format fsdp_dtensor --optimizer lion",
       {"mfsdp_optimizer", "emerging_opt_ckpt"}},
      {"--use-megatron-fsdp", {"mfsdp_ckpt_format"}},
      {"--use-megatron-fsdp --ckpt-format fsdp_dtensor --init-model-with-meta-device", {"mfsdp_meta_device"}},
      {"CUDA_DEVICE_MAX_CONNECTIONS=1 --use-megatron-fsdp --ckpt-format fsdp_dtensor",
       {"mfsdp_max_connections"}},
      {"--train-samples 100", {"iters_and_samples"}},
      {"--lr-decay-samples 100", {"iters_with_decay_samples"}},
      {"--lr-warmup-samples 10", {"iters_with_warmup_samples"}},
      {"--lr-warmup-fraction 0.1 --lr-warmup-iters 2", {"warmup_fraction_and_iters"}},
      {"-train-iters --train-samples 100 --lr-decay-iters 10", {"samples_with_decay_iters"}},
      {"-train-iters --train-samples 100 --lr-warmup-iters 10", {"samples_with_warmup_iters"}},
      {"-train-iters --train-samples 100 --lr-warmup-fraction 0.1 --lr-warmup-samples 10",
       {"warmup_fraction_and_samples"}},
      {"--lr 0.1 --min-lr 0.2", {"min_lr_above_lr"}},
      {"--save checkpoints", {"save_without_interval"}},
      {"--start-weight-decay 0.1", {"weight_decay_range"}},
      {"--weight-decay-incr-style cosine --start-weight-decay 0.1", {"weight_decay_range"}},
      {"--mock-data --data-path corpus", {"two_data_sources"}},
      {"--pipeline-model-parallel-size 1 --inference-batch-times-seqlen-threshold 100",
       {"inference_threshold_pp"}},
      {"--ckpt-format zarr", {"bad_choice"}},
      {"--train-samples many", {"not_a_number", "iters_and_samples"}},
      {"--lr fast", {"not_a_number"}},
  };
  return all;
}

const std::vector<Broken>& broken_experts() {
  static const std::vector<Broken> all = {
      {"--expert-tensor-parallel-num-weight-shards 8", {"expert_world_not_divisible"}},
      {"--expert-tensor-parallel-size 2 --expert-tensor-parallel-num-weight-shards 1",
       {"weight_shards_below_tp"}},
      {"--expert-tensor-parallel-size 2 --expert-tensor-parallel-num-weight-shards 3",
       {"weight_shards_not_multiple"}},
      {"--fake-process-group --moe-token-dispatcher-type flex", {"fake_pg_flex"}},
      {"--transformer-impl inference_optimized --normalization RMSNorm --moe-router-dtype fp32 "
       "--expert-tensor-parallel-size 2",
       {"inference_moe_etp"}},
      {"--transformer-impl inference_optimized --normalization RMSNorm --moe-router-dtype fp32 "
       "--moe-expert-capacity-factor 1.0",
       {"inference_moe_capacity"}},
      {"--transformer-impl inference_optimized --normalization RMSNorm", {"inference_moe_router_dtype"}},
      {"--moe-latent-size 0", {"latent_size_not_positive"}},
      {"--moe-enable-deepep", {"deepep_needs_flex"}},
      {"--moe-token-dispatcher-type flex --moe-enable-deepep --moe-flex-dispatcher-backend hybridep",
       {"flex_two_backends"}},
      {"--moe-token-dispatcher-type flex --moe-expert-capacity-factor 1.0 --moe-pad-expert-input-to-capacity",
       {"deepep_pad_to_capacity"}},
      {"--moe-token-dispatcher-type flex --moe-expert-rank-capacity-factor 1.5", {"rank_capacity_backend"}},
      {"--moe-token-dispatcher-type flex --moe-expert-rank-capacity-factor 1.5 --moe-flex-dispatcher-backend "
       "hybridep",
       {"rank_capacity_fuser"}},
      {"--moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 0.1",
       {"aux_loss_list_length"}},
      {"--moe-router-load-balancing-type quantile_balancing", {}},
      {"--moe-router-load-balancing-type quantile_balancing --moe-router-num-groups 2 "
       "--moe-router-group-topk "
       "1",
       {"quantile_groups"}},
      {"--moe-router-load-balancing-type quantile_balancing --moe-router-fusion", {"quantile_fusion"}},
      {"--cuda-graph-impl transformer_engine --cuda-graph-modules moe_router moe_preprocess "
       "--moe-expert-capacity-factor 1.0",
       {"graph_preprocess_capacity"}},
      {"--cuda-graph-impl transformer_engine --cuda-graph-modules moe --overlap-moe-expert-parallel-comm "
       "--moe-expert-capacity-factor 1.0 --moe-pad-expert-input-to-capacity",
       {"graph_expert_overlap"}},
      {"--cuda-graph-impl transformer_engine --cuda-graph-modules attn --overlap-moe-expert-parallel-comm "
       "--overlap-grad-reduce --delay-wgrad-compute",
       {}},
      {"--cuda-graph-impl transformer_engine --cuda-graph-modules attn --overlap-moe-expert-parallel-comm "
       "--overlap-grad-reduce --delay-wgrad-compute --no-gradient-accumulation-fusion",
       {"graph_delayed_wgrad_fusion"}},
      {"--cuda-graph-impl transformer_engine --cuda-graph-modules attn --overlap-moe-expert-parallel-comm "
       "--overlap-grad-reduce --delay-wgrad-compute --add-qkv-bias",
       {"graph_delayed_wgrad_bias"}},
      {"--overlap-dispatch-backward-with-experts-wgrad --overlap-moe-expert-parallel-comm",
       {"dispatch_backward_overlap"}},
      {"--ep-overlap-early-attn-memory-release", {"early_release_needs_overlap"}},
      {"--moe-flex-dispatcher-backend ncclep", {"ncclep_needs_flex"}},
      {"--moe-paged-stash", {"paged_stash_needs_capacity"}},
      {"--fine-grained-activation-offloading --offload-modules expert_fc1 --recompute-granularity selective "
       "--recompute-modules moe",
       {"offload_recomputed_experts"}},
      {"--fine-grained-activation-offloading --offload-modules fused_group_mlp", {"offload_fused_experts"}},
      {"--fine-grained-activation-offloading --offload-modules core_attn --cuda-graph-impl "
       "transformer_engine --cuda-graph-modules moe --moe-expert-capacity-factor 1.0 "
       "--moe-pad-expert-input-to-capacity",
       {"offload_graph_moe"}},
      {"--moe-router-padding-for-quantization", {"router_padding_needs_fp8"}},
      {"--moe-router-padding-for-fp8 --fp8-format hybrid --moe-token-dispatcher-type allgather",
       {"router_padding_dispatcher"}},
      {"-moe-grouped-gemm --moe-use-grouped-tensor", {"grouped_tensor_needs_grouped_gemm"}},
      {"--moe-single-grouped-weight", {"single_grouped"}},
      {"--moe-single-grouped-bias --moe-use-grouped-tensor", {"single_grouped"}},
      {"--overlap-moe-expert-parallel-comm --recompute-activations --recompute-modules moe",
       {"ep_overlap_recompute_moe"}},
      {"-bf16 --overlap-moe-expert-parallel-comm", {"ep_overlap_dtype"}},
      {"--overlap-moe-expert-parallel-comm --delay-wgrad-compute --transformer-impl local",
       {"delay_wgrad_needs_te"}},
      {"--moe-shared-expert-intermediate-size 8 --moe-shared-expert-overlap --recompute-activations "
       "--recompute-modules shared_experts",
       {"recompute_shared_overlap"}},
      {"--cuda-graph-impl local --cuda-graph-modules moe moe_router --moe-expert-capacity-factor 1.0 "
       "--moe-pad-expert-input-to-capacity",
       {"graph_moe_and_router"}},
      {"--cuda-graph-impl transformer_engine --cuda-graph-modules moe_preprocess",
       {"graph_preprocess_router"}},
      {"--cuda-graph-impl local --cuda-graph-modules mlp", {"graph_mlp_without_dense_layers"}},
      {"--cuda-graph-impl local --cuda-graph-modules moe", {"graph_moe_capacity"}},
      {"--cuda-graph-impl transformer_engine --cuda-graph-modules moe_router --recompute-activations "
       "--recompute-modules moe",
       {"graph_recompute_router"}},
      {"--moe-layer-recompute --recompute-granularity full --recompute-method uniform --recompute-num-layers "
       "1",
       {"moe_layer_recompute_full"}},
  };
  return all;
}

const std::vector<Broken>& broken_fsdp() {
  static const std::vector<Broken> all = {
      {"--pipeline-model-parallel-size 2", {"fsdp2_pp"}},
      {"--expert-model-parallel-size 2 --num-experts 4 --disable-bias-linear", {"fsdp2_ep"}},
      {"--use-distributed-optimizer", {"fsdp2_distopt"}},
      {"-no-gradient-accumulation-fusion", {"fsdp2_grad_fusion"}},
      {"--ckpt-format torch", {"fsdp2_ckpt_format"}},
      {"-untie-embeddings-and-output-weights", {"fsdp2_tied_embeddings"}},
      {"-bf16 --fp16", {"fsdp2_fp16"}},
      {"CUDA_DEVICE_MAX_CONNECTIONS=1", {"fsdp2_max_connections"}},
      {"--optimizer muon", {"emerging_opt_fsdp"}},
      {"--ckpt-format torch_dcp --tensor-model-parallel-size 2", {"torch_dcp_tp"}},
      {"--ckpt-format torch_dcp --pipeline-model-parallel-size 2", {"torch_dcp_pp", "fsdp2_pp"}},
  };
  return all;
}

const std::vector<Broken>& broken_hybrid() {
  static const std::vector<Broken> all = {
      {"--hybrid-override-pattern M-M*", {"hybrid_two_patterns"}},
      {"--hybrid-layer-pattern M-|MX", {"hybrid_symbol"}},
      {"--hybrid-layer-pattern M-|M*/M/*", {"hybrid_mtp_parts"}},
      {"--hybrid-layer-pattern M*|M+", {"hybrid_attention_and_mla"}},
      {"--decoder-first-pipeline-num-layers 1", {"hybrid_first_stage"}},
      {"--decoder-last-pipeline-num-layers 1", {"hybrid_last_stage"}},
      {"--num-layers-per-virtual-pipeline-stage 1", {"hybrid_layers_per_vp"}},
      {"--num-virtual-stages-per-pipeline-rank 2", {"hybrid_vp_stages"}},
      {"--pipeline-model-parallel-layout Ett|ttL", {"hybrid_layout"}},
      {"--account-for-embedding-in-pipeline-split", {"hybrid_account_embedding"}},
      {"--account-for-loss-in-pipeline-split", {"hybrid_account_loss"}},
      {"--hybrid-layer-pattern M-|M*|M", {"hybrid_segments_pp"}},
      {"--pipeline-model-parallel-size 1", {"vpp_needs_pp2"}},
      {"--hybrid-layer-pattern M-M", {"hybrid_layers_pp"}},
      {"--hybrid-layer-pattern M-M- --decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers "
       "1",
       {"middle_stages_mismatch"}},
      {"--hybrid-layer-pattern M-M- --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2",
       {"middle_layers_pp"}},
  };
  return all;
}

using Words = std::vector<std::string>;

void remove(Words& words, const std::string& argument) {
  const auto at = std::find(words.begin(), words.end(), argument);
  if (at == words.end()) return;
  const auto is_flag = [](const std::string& word) { return word.starts_with("--"); };
  words.erase(at, std::find_if(at + 1, words.end(), is_flag));
}

/// Returns the script of a run of `base` with these changes.
std::string script(const char* base, const std::string& more) {
  std::istringstream base_words(base), more_words(more);
  Words words{std::istream_iterator<std::string>(base_words), {}};
  std::string variables;
  for (std::string word; more_words >> word;) {
    const bool is_number = word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1])) != 0;
    if (std::isupper(static_cast<unsigned char>(word[0])) != 0 && word.find('=') != std::string::npos) {
      variables += "export " + word + "\n";
    } else if (word.starts_with('-') && !word.starts_with("--") && !is_number) {
      remove(words, "-" + word);
    } else {
      if (word.starts_with("--")) remove(words, word);
      words.push_back(word);
    }
  }
  std::string text = variables + "torchrun pretrain_gpt.py";
  for (const std::string& word : words) text += word.starts_with("--") ? " " + word : " '" + word + "'";
  return text + "\n";
}

Codes refused(const std::string& text) { return test::judged(verify::read_run_script(text, {}), 8).refused; }

void expect_broken(const char* base, const std::vector<Broken>& all, Codes& met) {
  EXPECT_EQ(refused(script(base, "")), Codes());
  for (const Broken& one : all) {
    EXPECT_EQ(refused(script(base, one.words)), one.codes) << one.words;
    met.insert(one.codes.begin(), one.codes.end());
  }
}

/// Megatron's parser knows no blank in such an expression, also where a shell hands it over as one word.
TEST(RunRules, ListsHaveNoBlanks) {
  for (const char* name :
       {"moe-layer-freq", "no-rope-freq", "linear-attention-freq", "window-attn-skip-freq"}) {
    std::string text = script(kExperts, "");
    text.insert(text.size() - 1, std::string(" --") + name + " '([0] * 1+[1]*3)'");
    EXPECT_EQ(refused(text), Codes({"pattern_blanks"})) << text;
  }
}

/// Megatron makes the granularity selective when it has looked at the method and the layers.
TEST(RunRules, RecomputedExpertsMayComeWithAMethod) {
  EXPECT_EQ(
      refused(script(kExperts, "--moe-layer-recompute --recompute-method block --recompute-num-layers 1")),
      Codes());
}

TEST(RunRules, EveryRuleIsBrokenByOneChangeOfARunThatHolds) {
  Codes met;
  expect_broken(kDense, broken_dense(), met);
  expect_broken(kExperts, broken_experts(), met);
  expect_broken(kFsdp, broken_fsdp(), met);
  expect_broken(kHybrid, broken_hybrid(), met);
  for (const std::string& code : verify::run_rule_codes()) EXPECT_TRUE(met.contains(code)) << code;
}

TEST(RunRules, WhatTheCommandLineSaysIsJudged) {
  const std::string words = script(kDense, "--padded-vocab-size 101");
  EXPECT_EQ(refused(words), Codes({"layer_divide"}));
  const test::TemporaryFile file("run.sh", words);
  const auto refusals = [&](const std::string& more) {
    return test::run("replay --layout-only --world-size 8 --from '" + file.path() + "' " + more);
  };
  EXPECT_EQ(refusals("").exit_code, 2);
  EXPECT_EQ(refusals("--tensor-model-parallel-size 1").exit_code, 0);
}

TEST(RunRules, EverythingIsToldTogether) {
  const test::TemporaryFile file(
      "run.sh", script(kDense, "--fp16 --num-layers 5 --global-batch-size 9 --ckpt-format zarr"));
  const test::RunResult result =
      test::run("replay --layout-only --world-size 8 --from '" + file.path() + "'");
  EXPECT_EQ(result.exit_code, 2);
  for (const char* told : {"fp16_and_bf16", "layers_pp_div", "microbatches_div", "bad_choice", "--fp16",
                           "parameters have one dtype"})
    EXPECT_NE(result.out.find(told), std::string::npos) << told << result.out;
  // The other commands show their part of the run.
  EXPECT_EQ(test::run("groups --world-size 8 --from '" + file.path() + "'").exit_code, 0);
}

TEST(RunRules, AValueOfAForkIsToldAsThat) {
  const auto told = [](const std::string& more) {
    const test::TemporaryFile file("run.sh", script(kDense, more));
    return test::run("replay --layout-only --world-size 8 --from '" + file.path() + "'").out;
  };
  const std::string balancing = told("--moe-router-load-balancing-type noaux_tc");
  EXPECT_NE(balancing.find("this one is known to MindSpeed-LLM alone"), std::string::npos) << balancing;
  EXPECT_NE(balancing.find("none, with --moe-router-enable-expert-bias"), std::string::npos) << balancing;
}

/// A word that changes no size refuses nothing; of a learning rate, for example, only replay does.
TEST(RunRules, WhatHasNoEffectOnWhatIsAskedIsAWarning) {
  const auto said = [](const std::string& command, const std::string& more) {
    const test::TemporaryFile file("run.sh", script(kDense, more));
    const test::RunResult result = test::run(command + " --world-size 8 --from '" + file.path() + "'");
    return std::to_string(result.exit_code) + result.out + result.err;
  };
  for (const std::string command : {"memory", "groups", "layers", "replay --layout-only"}) {
    const std::string text =
        said(command, "--optimizer adamw-bnb-8bit --tokenizer-type YuanTokenizer --load <path to model>");
    EXPECT_TRUE(text.starts_with("0")) << command << text;
    for (const char* word : {"other_words", "'adamw-bnb-8bit'", "'YuanTokenizer'", "--load: 'to model'"})
      EXPECT_NE(text.find(word), std::string::npos) << command << word << text;
  }
  const std::string rates = "--lr fast --min-lr 0 1 --save x --ckpt-format zarr";
  for (const std::string command : {"memory", "groups", "layers"}) {
    const std::string text = said(command, rates);
    EXPECT_TRUE(text.starts_with("0")) << command << text;
    EXPECT_NE(text.find("megatron_refuses"), std::string::npos) << command << text;
    EXPECT_TRUE(said(command, "--hidden-size 64 32").starts_with("2")) << command;
  }
  EXPECT_TRUE(said("replay --layout-only", rates).starts_with("2"));
}

TEST(RunRules, TheExpertsOfOtherProgramsAreNotHeldToThem) {
  const auto told = [](const std::string& command) {
    const test::TemporaryFile file("run.sh", command);
    return test::run("replay --layout-only --from '" + file.path() + "'");
  };
  const std::string experts =
      " --num-experts 16 --tensor-model-parallel-size 2 --num-layers 4 --hidden-size 64 "
      "--num-attention-heads 4 "
      "--seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 --lr 1 --train-iters 5 ";
  const auto of_deepspeed =
      told("deepspeed --num_gpus 8 pretrain_gpt.py --deepspeed --moe-expert-parallel-size 8" + experts);
  EXPECT_EQ(of_deepspeed.exit_code, 0) << of_deepspeed.out;
  EXPECT_EQ(of_deepspeed.out.find("moe_tp_needs_sp"), std::string::npos);
  const auto of_megatron = told("torchrun --nproc_per_node 8 pretrain_gpt.py" + experts);
  EXPECT_NE(of_megatron.out.find("moe_tp_needs_sp"), std::string::npos) << of_megatron.out;
  const auto of_swift = told(
      "NPROC_PER_NODE=8 megatron sft --load a --tensor_model_parallel_size 2 --expert_model_parallel_size 4 "
      "--micro_batch_size 1 --sequence_parallel true");
  EXPECT_EQ(of_swift.exit_code, 0) << of_swift.out;
}

TEST(RunRules, WordsThatAddNothingThatCountsAreNotAskedFor) {
  const auto told = [](const std::string& more) {
    const test::TemporaryFile file("run.sh", "A=(--lr 1)\nif [ -n \"$W\" ]; then A+=(" + more +
                                                 "); fi\ntorchrun pretrain_gpt.py " + kDense +
                                                 " \"${A[@]}\"\n");
    return test::run("replay --layout-only --world-size 8 --from '" + file.path() + "'").out;
  };
  EXPECT_EQ(told("--wandb-project a --wandb-exp-name ${N:-b}").find("unresolved_words"), std::string::npos);
  for (const char* more : {"--swiglu", "--wandb-project a --swiglu", "--wandb-project $X", "--my-own 1", "$X",
                           "--wandb-project a $X"})
    EXPECT_NE(told(more).find("unresolved_words"), std::string::npos) << more;
}

TEST(RunRules, ALogIsNotHeldAgainstThem) {
  verify::RunArguments run = verify::read_run_script(script(kDense, "--encoder-num-layers 4"), {});
  EXPECT_EQ(test::judged(run, 8).refused, Codes({"two_layer_counts"}));
  run.kind = verify::RunFileKind::log;
  EXPECT_EQ(test::judged(run, 8).refused, Codes());
}

TEST(RunRules, WhatAStepOrADeviceRefusesIsWarnedOf) {
  const auto warnings = [](const char* base, const std::string& more) {
    const bool sets_connections = more.starts_with("CUDA_DEVICE_MAX_CONNECTIONS");
    const std::string all = sets_connections ? more : "CUDA_DEVICE_MAX_CONNECTIONS=1 " + more;
    const test::JudgedAsScenario judged = test::judged(verify::read_run_script(script(base, all), {}), 8);
    EXPECT_EQ(judged.refused, Codes()) << more;
    Codes names;
    if (judged.request)
      for (const sim::Warning& warning : judged.request->warnings) names.insert(warning.name);
    return names;
  };
  EXPECT_EQ(warnings(kDense, ""), Codes());
  EXPECT_EQ(warnings(kDense, "--group-query-attention --num-query-groups 6"), Codes({"groups_div"}));
  EXPECT_EQ(warnings(kExperts, "--moe-router-topk 5"), Codes({"topk_above_experts"}));
  EXPECT_EQ(warnings(kExperts, "-train-iters -sequence-parallel"), Codes({"moe_tp_needs_sp"}));
  EXPECT_EQ(warnings(kDense, "CUDA_DEVICE_MAX_CONNECTIONS=8"), Codes({"max_connections_not_1"}));
  EXPECT_EQ(warnings(kDense, "CUDA_DEVICE_MAX_CONNECTIONS=1"), Codes());
  EXPECT_EQ(warnings(kDense, "CUDA_DEVICE_MAX_CONNECTIONS="), Codes({"max_connections_not_1"}));
  EXPECT_EQ(warnings(kDense, "--apply-rope-fusion"), Codes({"derived_names"}));
  EXPECT_EQ(warnings(kDense, "--fp8 hybrid"), Codes({"derived_names"}));
}

}  // namespace
