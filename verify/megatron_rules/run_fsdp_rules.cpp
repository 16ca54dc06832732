#include "verify/megatron_rules/run_rule.h"

namespace verify {

namespace {

constexpr const char* kTorch = "use-torch-fsdp2";
constexpr const char* kMegatron = "use-megatron-fsdp";
constexpr const char* kDistributed = "use-distributed-optimizer";
constexpr const char* kFormat = "ckpt-format";
constexpr const char* kTp = "tensor-model-parallel-size";
constexpr const char* kPp = "pipeline-model-parallel-size";

bool has_one_connection(const JudgedRun& r) { return r.environment("CUDA_DEVICE_MAX_CONNECTIONS") == "1"; }
bool saves_as(const JudgedRun& r, std::string_view format) { return r.checkpoint_format() == format; }

}  // namespace

/// The rules about fully sharded data parallelism, and about the checkpoints that it alone writes.
std::vector<RunRule> run_fsdp_rules() {
  constexpr const char* kConnections =
      "fully sharded data parallelism needs CUDA_DEVICE_MAX_CONNECTIONS above 1 or unset, and the file sets "
      "1";
  return {
      {"fsdp2_pp",
       {kTorch, kPp},
       [](const JudgedRun& r) { return r.flag(kTorch) && JudgedRun::above(r.pp(), 1); },
       "FSDP2 goes without pipeline parallelism",
       "--pipeline-model-parallel-size 1"},
      {"fsdp2_ep",
       {kTorch, "expert-model-parallel-size"},
       [](const JudgedRun& r) { return r.flag(kTorch) && JudgedRun::above(r.derived("ep"), 1); },
       "FSDP2 goes without expert parallelism",
       "--expert-model-parallel-size 1"},
      {"fsdp2_distopt",
       {kTorch, kDistributed},
       [](const JudgedRun& r) { return r.flag(kTorch) && r.flag(kDistributed); },
       "FSDP2 goes without the distributed optimizer",
       "leave --use-distributed-optimizer out"},
      {"fsdp2_grad_fusion",
       {kTorch, "no-gradient-accumulation-fusion"},
       [](const JudgedRun& r) { return r.flag(kTorch) && !r.flag("no-gradient-accumulation-fusion"); },
       "FSDP2 goes without the fused accumulation of gradients",
       "--no-gradient-accumulation-fusion"},
      {"fsdp2_ckpt_format",
       {kTorch, kFormat},
       [](const JudgedRun& r) {
         return r.flag(kTorch) && !saves_as(r, "torch_dist") && !saves_as(r, "torch_dcp");
       },
       "FSDP2 saves in the formats torch_dist and torch_dcp",
       "--ckpt-format torch_dist"},
      {"fsdp2_tied_embeddings",
       {kTorch, "untie-embeddings-and-output-weights"},
       [](const JudgedRun& r) { return r.flag(kTorch) && !r.flag("untie-embeddings-and-output-weights"); },
       "FSDP2 needs an embedding and output weights of their own",
       "--untie-embeddings-and-output-weights"},
      {"fsdp2_fp16",
       {kTorch, "fp16"},
       [](const JudgedRun& r) { return r.flag(kTorch) && r.flag("fp16"); },
       "FSDP2 goes without fp16",
       "--bf16"},
      {"fsdp2_max_connections",
       {kTorch},
       [](const JudgedRun& r) { return r.flag(kTorch) && has_one_connection(r); },
       kConnections,
       "CUDA_DEVICE_MAX_CONNECTIONS=8"},
      {"mfsdp2_distopt",
       {kMegatron, "megatron-fsdp-version", kDistributed},
       [](const JudgedRun& r) {
         return r.flag(kMegatron) && r.is("megatron-fsdp-version", "2") && r.flag(kDistributed);
       },
       "version 2 of Megatron-FSDP goes without the distributed optimizer",
       "leave --use-distributed-optimizer out"},
      {"mfsdp_optimizer",
       {kMegatron, "optimizer"},
       [](const JudgedRun& r) {
         return r.flag(kMegatron) && r.optimizer() != "adam" && r.optimizer() != "sgd";
       },
       "Megatron-FSDP has the optimizers adam and sgd",
       "--optimizer adam"},
      {"mfsdp_ckpt_format",
       {kMegatron, kFormat},
       [](const JudgedRun& r) { return r.flag(kMegatron) && !saves_as(r, "fsdp_dtensor"); },
       "Megatron-FSDP saves in the format fsdp_dtensor",
       "--ckpt-format fsdp_dtensor"},
      {"mfsdp_meta_device",
       {"init-model-with-meta-device", "data-parallel-sharding-strategy"},
       [](const JudgedRun& r) {
         return r.flag(kMegatron) && r.flag("init-model-with-meta-device") &&
                r.text("data-parallel-sharding-strategy", "no_shard") == "no_shard";
       },
       "a model begins on the meta device where its parameters are sharded",
       "--data-parallel-sharding-strategy optim_grads_params"},
      {"mfsdp_max_connections",
       {kMegatron},
       [](const JudgedRun& r) { return r.flag(kMegatron) && has_one_connection(r); },
       kConnections,
       "CUDA_DEVICE_MAX_CONNECTIONS=8"},
      {"fsdp_manual_registration",
       {"fsdp-manual-registration", "use-megatron-fsdp", "use-nccl-ub"},
       [](const JudgedRun& r) {
         return r.flag("fsdp-manual-registration") &&
                (!r.flag("use-megatron-fsdp") || !r.flag("use-nccl-ub"));
       },
       "buffers of Megatron-FSDP are registered by hand where NCCL's user buffers are used",
       "--use-megatron-fsdp --use-nccl-ub"},
      {"fsdp_weight_hash",
       {"check-weight-hash-across-dp-replicas-interval", "data-parallel-sharding-strategy"},
       [](const JudgedRun& r) {
         return r.flag("use-megatron-fsdp") && r.has("check-weight-hash-across-dp-replicas-interval") &&
                r.is("data-parallel-sharding-strategy", "optim_grads_params");
       },
       "parameters that are sharded have no equal copies to compare",
       "leave --check-weight-hash-across-dp-replicas-interval out"},
      {"torch_dcp_needs_fsdp2",
       {kFormat, kTorch},
       [](const JudgedRun& r) { return saves_as(r, "torch_dcp") && !r.flag(kTorch); },
       "the format torch_dcp is that of FSDP2",
       "--ckpt-format torch_dist"},
      {"torch_dcp_tp",
       {kFormat, kTp},
       [](const JudgedRun& r) { return saves_as(r, "torch_dcp") && JudgedRun::above(r.tp(), 1); },
       "the format torch_dcp goes without tensor parallelism",
       "--ckpt-format torch_dist"},
      {"torch_dcp_pp",
       {kFormat, kPp},
       [](const JudgedRun& r) { return saves_as(r, "torch_dcp") && JudgedRun::above(r.pp(), 1); },
       "the format torch_dcp goes without pipeline parallelism",
       "--ckpt-format torch_dist"},
      {"fsdp_dtensor_needs_mfsdp",
       {kFormat, kMegatron},
       [](const JudgedRun& r) { return saves_as(r, "fsdp_dtensor") && !r.flag(kMegatron); },
       "the format fsdp_dtensor is that of Megatron-FSDP",
       "--ckpt-format torch_dist"},
  };
}

}  // namespace verify
