// Proves that flags are read from YAML, and that text which would cost memory or time is refused.

#include "verify/run_arguments/run_yaml.h"

#include <gtest/gtest.h>
#include <string>

#include "sim/base/error.h"
#include "tests/verify/run_arguments/read_arguments.h"

namespace {

using test::at;

std::string read(const std::string& text) {
  std::string result;
  for (const verify::RunArgument& argument : verify::read_run_yaml(text).given) {
    result += (result.empty() ? "" : " ") + std::to_string(argument.line) + ":" + test::text_of(argument);
  }
  return result;
}

std::string code_of(const std::string& text) {
  return test::refusal_of([&] { read(text); });
}

TEST(RunYaml, ReadsTheSectionOfTheArguments) {
  EXPECT_EQ(read("ENV_VARS:\n  NCCL_ALGO: Ring\nTEST_TYPE: regular\nMODEL_ARGS:\n  --num-layers: 12\n"
                 "  --swiglu: true\n  --moe-layer-freq: ([0]*1+[1]*15)\n  --list: [a, b]\n"
                 "  --lines:\n    - c\n    - d\nMETRICS:\n  - \"loss\"\n"),
            "5:num-layers=12 6:swiglu=true 7:moe-layer-freq=([0]*1+[1]*15) 8:list=a=b 9:lines=c=d");
}

TEST(RunYaml, ReadsAFlatMapOfFlags) {
  EXPECT_EQ(read("---\nnum_layers: 12\n--bf16: true\nfp8: null\n"), "2:num-layers=12 3:bf16=true 4:fp8=null");
  EXPECT_EQ(read("{num-layers: 12, bf16: true}"), "1:num-layers=12 1:bf16=true");
}

TEST(RunYaml, VariablesHaveTheValuesThatAreSet) {
  const std::string text =
      "ENV_VARS:\n  PP: 2\nMODEL_ARGS:\n  --bf16: true\n  --tp: ${TP}\n  --pp: $PP\n  --cp: ${CP:-4}\n  "
      "--name: a-$TP\n";
  const verify::RunArguments run = verify::read_run_yaml(text, {{"TP", "8"}});
  EXPECT_EQ(test::text_of(run), "bf16=true tp=8 pp=2 cp=4 name=a-8");
  EXPECT_TRUE(run.unresolved.empty());
  const verify::RunArguments unknown = verify::read_run_yaml(text);
  EXPECT_EQ(test::text_of(unknown), "bf16=true tp=${TP} pp=2 cp=4 name=a-$TP");
  ASSERT_EQ(unknown.unresolved.size(), 2U);
  EXPECT_EQ(unknown.unresolved[0].argument, "tp");
  EXPECT_EQ(unknown.unresolved[0].variable, "TP");
  EXPECT_EQ(unknown.unresolved[0].line, 5);
}

const std::string kManifest =
    "apiVersion: v1\nkind: Service\nmetadata: {name: etcd}\n---\nkind: PyTorchJob\nspec:\n  containers:\n"
    "  - name: side\n    command: [/bin/etcd, --data-dir, /var]\n"
    "  - name: pytorch\n    env:\n    - {name: CUDA_DEVICE_MAX_CONNECTIONS, value: \"1\"}\n"
    "    - name: HIDDEN\n      value: \"4096\"\n";

TEST(RunYaml, CommandsOfContainersAreALaunchScript) {
  const verify::RunArguments run = verify::read_run_yaml(
      kManifest +
          "    command: [\"/usr/bin/torchrun\", --nproc_per_node=8, '--nnodes=${NODES}']\n    args:\n"
          "    - pretrain_gpt.py\n    - --num-layers=36\n    - --hidden-size=$(HIDDEN)\n    - --bf16\n",
      {{"NODES", "2"}});
  EXPECT_EQ(test::text_of(run), "num-layers=36 hidden-size=4096 bf16");
  EXPECT_EQ(run.kind, verify::RunFileKind::script);
  EXPECT_EQ(run.world_size, 16);
  EXPECT_EQ(run.given.at(0).line, 18);
  EXPECT_EQ(run.environment.at("CUDA_DEVICE_MAX_CONNECTIONS"), "1");
}

TEST(RunYaml, TheTextBehindAShellOfAContainerIsOfThatShell) {
  const verify::RunArguments run =
      verify::read_run_yaml(kManifest +
                            "    command: [/bin/bash, -xc]\n    args:\n    - |\n      TP=4\n"
                            "      torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 8 \\\n"
                            "        --tp $TP --name 'a b'\n");
  EXPECT_EQ(test::text_of(run), "num-layers=8 tp=4 name=a b");
  EXPECT_EQ(run.world_size, 16);
}

TEST(RunYaml, TextThatATaskRunsIsALaunchScript) {
  const verify::RunArguments task = verify::read_run_yaml(
      "resources:\n  accelerators: H100:8\nnum_nodes: 2\nrun: |\n  TP=4\n"
      "  torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --tp $TP\n");
  EXPECT_EQ(test::text_of(task), "num-layers=8 tp=4");
  EXPECT_EQ(task.given.at(0).line, 6);
  EXPECT_EQ(task.world_size, 16);
  const verify::RunArguments service = verify::read_run_yaml(
      "services:\n  train:\n    command: torchrun --nnodes 1 --nproc_per_node 8 x.py --num-layers 8\n");
  EXPECT_EQ(test::text_of(service), "num-layers=8");
  EXPECT_EQ(code_of("services:\n  train:\n    command: sleep 1\n"),
            test::at("run_without_arguments", "--from"));
}

TEST(RunYaml, AnOperatorMayGiveTorchrunOfAContainerItsNodes) {
  const auto world = [](const std::string& options) {
    return verify::read_run_yaml(kManifest + "    args: [torchrun, " + options + "x.py, --num-layers, '8']\n")
        .world_size;
  };
  EXPECT_EQ(world(""), std::nullopt);
  EXPECT_EQ(world("--nproc_per_node=8, "), std::nullopt);
  EXPECT_EQ(world("--standalone, --nproc_per_node=8, "), 8);
  EXPECT_EQ(world("--nnodes=1, --nproc_per_node=8, "), 8);
  // A manifest without a training has no arguments.
  EXPECT_EQ(code_of(kManifest), test::at("run_without_arguments", "--from"));
}

TEST(RunYaml, KeysOfOtherProgramsAreRefusedWithTheLayoutThatTheySay) {
  const auto hint = [](const std::string& text) {
    try {
      read(text);
    } catch (const sim::Error& error) {
      return error.refusal().code + ": " + error.refusal().hint;
    }
    return std::string();
  };
  EXPECT_EQ(hint("{\"pipe-parallel-size\": 4, \"model-parallel-size\": 2, \"num-layers\": 44}"),
            "run_yaml_neox: the layout on the command line, as in --world-size N "
            "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4");
  EXPECT_EQ(code_of("pipe_parallel_size: 0\nnum_layers: 12\n"), at("run_yaml_neox", "--from"));
  EXPECT_EQ(code_of("{\"train_batch_size\": 256, \"train_micro_batch_size_per_gpu\": 2}"),
            at("run_deepspeed_config", "--from"));
  EXPECT_EQ(hint("pipe_parallel_size: 0\nnum_layers: 12\n"),
            "run_yaml_neox: the layout on the command line, as in --world-size N "
            "--pipeline-model-parallel-size 1");
}

TEST(RunYaml, RefusesWhatIsNoMapOfFlags) {
  EXPECT_EQ(code_of("MODEL_ARGS: &a [1]\nx: *a\n"), at("run_yaml_alias", "line 2"));
  EXPECT_EQ(code_of("a: [1, 2\nb: 3"), at("run_yaml_syntax", "line 2"));
  EXPECT_EQ(code_of("- a\n- b\n"), at("run_without_arguments", "--from"));
  EXPECT_EQ(code_of("apiVersion: v1\nkind: PyTorchJob\n"), at("run_without_arguments", "--from"));
  EXPECT_EQ(code_of("model:\n  seed: 8\n"), at("run_without_arguments", "--from"));  // it is used nowhere
  EXPECT_TRUE(code_of(std::string(100'000, '[')).starts_with("run_yaml_syntax"));
  std::string many;
  for (int i = 0; i < 10'001; ++i) many += "a" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(code_of(many), at("run_file_size", "line 10001"));
}

TEST(RunYaml, ReadsSectionsByTheNamesOfArguments) {
  EXPECT_EQ(read("bf16: true\nmodel_parallel:\n  pipeline_model_parallel_size: 8\n"),
            "1:bf16=true 3:pipeline-model-parallel-size=8");
  EXPECT_EQ(read("model:\n  a:\n    num_query_groups: 2\n  share_embeddings_and_output_weights: false\n"
                 "  bias: false\n  activation: fast-swiglu\n  normalization: rmsnorm\n"
                 "  num_moe_experts: null\n  ${x}: [{num_layers: 3}]\n"
                 "other:\n  warmup: 5\n  c: ${model.a.num_query_groups}\n  cp: ${.c}\n"),
            "3:num-query-groups=2 3:group-query-attention 4:untie-embeddings-and-output-weights "
            "5:disable-bias-linear 6:swiglu 7:normalization=RMSNorm 13:context-parallel-size=2");
  const verify::RunArguments run = verify::read_run_yaml(
      "actor:\n  tensor_model_parallel_size: 4\nrollout:\n  tensor_model_parallel_size: 2\n  share: 0.5\n");
  ASSERT_EQ(run.unresolved.size(), 1U);
  EXPECT_EQ(run.unresolved[0].argument, "tensor-model-parallel-size");
  EXPECT_EQ(
      run.unresolved[0].reason,
      "actor.tensor_model_parallel_size says so, and rollout.tensor_model_parallel_size in line 4 says 2");
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_EQ(run.notes[0], "sections are read by the names of arguments in them; not used: rollout.share");
}

/// A value that stands for another one, and that for another, is no larger than the text.
TEST(RunYaml, ValuesThatStandForOthersAreShort) {
  std::string text = "a:\n  num_layers: 1\n  v0: " + std::string(200, 'x') + "\n  w0: [1, 2]\n";
  for (int i = 1; i < 100; ++i) text += "  v" + std::to_string(i) + ": ${a.v" + std::to_string(i - 1) + "}\n";
  EXPECT_EQ(read(text + "  num_experts: ${a.v1}\n  seq_length: ${a.seq_length}\n  mbs: ${a.w0}\n"),
            "2:num-layers=1 104:num-experts=${a.v0} 105:seq-length=${a.seq_length} "
            "106:micro-batch-size=${a.w0}");
}

TEST(RunYaml, ReadsTheModelOfAConfigOfHuggingFace) {
  EXPECT_EQ(read("{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 94, \"hidden_size\": 4096,\n"
                 "\"num_key_value_heads\": 4, \"num_experts\": 128, \"tie_word_embeddings\": false,\n"
                 "\"torch_dtype\": \"bfloat16\", \"rms_norm_eps\": 0.25, \"sliding_window\": null,\n"
                 "\"vision_config\": {\"hidden_size\": 7}, \"seq_length\": 5}"),
            "1:disable-bias-linear 1:qk-layernorm 1:num-layers=94 1:hidden-size=4096 2:num-query-groups=4 "
            "2:group-query-attention 2:num-experts=128 2:untie-embeddings-and-output-weights 3:bf16 "
            "3:norm-epsilon=0.25 3:normalization=RMSNorm");
  const verify::RunArguments deepseek = verify::read_run_yaml(
      "{\"model_type\": \"kimi_vl\", \"text_config\": {\"model_type\": \"deepseek_v3\", \"hidden_size\": 8,\n"
      "\"num_hidden_layers\": 61, \"first_k_dense_replace\": 3, \"n_routed_experts\": 256,\n"
      "\"n_shared_experts\": 1, \"moe_intermediate_size\": 2048, \"kv_lora_rank\": 512, \"n_group\": 8,\n"
      "\"num_key_value_heads\": 128, \"qk_nope_head_dim\": 128, \"topk_group\": 4,\n"
      "\"hidden_act\": \"silu\", \"tie_word_embeddings\": true}}");
  EXPECT_EQ(test::text_of(deepseek),
            "disable-bias-linear qk-layernorm hidden-size=8 num-layers=61 moe-layer-freq=[0]*3+[1]*58 "
            "num-experts=256 moe-shared-expert-intermediate-size=2048 moe-ffn-hidden-size=2048 "
            "kv-lora-rank=512 multi-latent-attention moe-router-num-groups=8 qk-head-dim=128 "
            "moe-router-group-topk=4 swiglu");
  const auto has_known_layers = [](const verify::RunArguments& run) {
    return run.notes.at(0).find("of this model_type are not known") == std::string::npos;
  };
  EXPECT_TRUE(has_known_layers(deepseek));
  EXPECT_FALSE(has_known_layers(
      verify::read_run_yaml("{\"model_type\": \"a\", \"hidden_size\": 8, \"num_hidden_layers\": 2}")));
}

TEST(RunYaml, ReadsTheSectionsOfFlagScale) {
  const verify::RunArguments run = verify::read_run_yaml(
      "system:\n  tensor_model_parallel_size: 2\n  precision:\n    bf16: true\n  log_interval: null\n"
      "model:\n  num_layers: 28\n  cp_comm_type: [p2p, a2a]\n  optimizer:\n    lr_scheduler:\n      lr: "
      "1\ndata:\n  data_path: ${data_path:??}\n");
  EXPECT_EQ(test::text_of(run),
            "tensor-model-parallel-size=2 bf16=true num-layers=28 cp-comm-type=p2p=a2a lr=1 "
            "data-path=${data_path:??}");
  EXPECT_EQ(run.notes.size(), 1U);
}

}  // namespace
