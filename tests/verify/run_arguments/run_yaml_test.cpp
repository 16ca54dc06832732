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
  EXPECT_EQ(
      hint("model:\n  num_layers: 4\n  tensor_model_parallel_size: 8\n  context_parallel_size: ${C}\n"),
      "run_yaml_nested: the log of the run, which has all arguments, or the layout on the command line, "
      "as in --world-size N --tensor-model-parallel-size 8");
}

TEST(RunYaml, RefusesWhatIsNoMapOfFlags) {
  EXPECT_EQ(code_of("MODEL_ARGS: &a [1]\nx: *a\n"), at("run_yaml_alias", "line 2"));
  EXPECT_EQ(code_of("a: [1, 2\nb: 3"), at("run_yaml_syntax", "line 2"));
  EXPECT_EQ(code_of("- a\n- b\n"), at("run_without_arguments", "--from"));
  EXPECT_EQ(code_of("apiVersion: v1\nkind: PyTorchJob\n"), at("run_without_arguments", "--from"));
  EXPECT_EQ(code_of("model:\n  tensor_model_parallel_size: 8\n"), at("run_yaml_nested", "line 2"));
  EXPECT_EQ(code_of("bf16: true\nmodel_parallel:\n  pipeline_model_parallel_size: 8\n"),
            at("run_yaml_nested", "line 3"));
  EXPECT_TRUE(code_of(std::string(100'000, '[')).starts_with("run_yaml_syntax"));
  std::string many;
  for (int i = 0; i < 10'001; ++i) many += "a" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(code_of(many), at("run_file_size", "line 10001"));
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
  EXPECT_EQ(test::refusal_of(
                [] { verify::read_run_yaml("model:\n  tensor_model_parallel_size: 2\n  num_layers: 28\n"); }),
            test::at("run_yaml_nested", "line 2"));
}

}  // namespace
