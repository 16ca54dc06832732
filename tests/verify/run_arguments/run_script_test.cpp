// Proves that a launch script is read as a shell would read it, as far as that can be known without executing
// it, and that what cannot be known is named.

#include "verify/run_arguments/run_script.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

#include "sim/base/error.h"
#include "tests/verify/run_arguments/read_arguments.h"

namespace {

using test::at;
using test::text_of;

using verify::read_run_script;
using verify::RunArguments;
using verify::RunVariables;

std::string unresolved_of(const RunArguments& run) {
  std::string text;
  for (const verify::Unresolved& entry : run.unresolved)
    text += std::to_string(entry.line) + ":" + entry.argument + ":" + entry.text + " ";
  return text;
}

std::string read(const std::string& script, const RunVariables& set = {}) {
  return text_of(read_run_script(script, set));
}

std::string code_of(const std::string& script) {
  return test::refusal_of([&] { read_run_script(script, {}); });
}

TEST(RunScript, ReadsArraysContinuationsAndComments) {
  const RunArguments run = read_run_script(R"(#!/bin/bash
# A comment with --not-an-argument.
GPUS_PER_NODE=8
NNODES=16
GPT_ARGS=(
    --num-layers 96   # layers
    --hidden-size 12288
    --lr 3
)
PARALLEL="--tensor-model-parallel-size 8 --pipeline-model-parallel-size=16"
torchrun --nproc_per_node $GPUS_PER_NODE \
  --nnodes ${NNODES} \
  pretrain_gpt.py ${GPT_ARGS[@]} $PARALLEL --bf16 2>&1 | tee log.txt
)",
                                           {});
  EXPECT_EQ(text_of(run),
            "num-layers=96 hidden-size=12288 lr=3 tensor-model-parallel-size=8 "
            "pipeline-model-parallel-size=16 bf16");
  EXPECT_EQ(run.world_size, 128);
  EXPECT_EQ(run.world_size_source, "--nnodes 16 x --nproc_per_node 8 of torchrun, line 3");
  EXPECT_EQ(run.given.at(1).line, 7);
  EXPECT_TRUE(run.unresolved.empty());
}

TEST(RunScript, FollowsDefaultsArithmeticAndAppends) {
  EXPECT_EQ(read("TP=${TP:-4}\nB=$((TP * 2 + 1))\npython x.py --a $TP --b $B --c \"${C-7}\""), "a=4 b=9 c=7");
  EXPECT_EQ(read("A=(--a 1)\nA+=(--b 2)\nS='--c'\nS+=' 3'\npython x.py ${A[@]} $S ${#A[@]}"),
            "a=1 b=2 c=3=4");
  EXPECT_EQ(read("A=(x y z)\npython x.py --a ${A[1]} --b ${A[*]}"), "a=y b=x=y=z");
  EXPECT_EQ(read("X=${Y:-${Z:-5}}\npython x.py --a $X"), "a=5");
  EXPECT_EQ(read("export N=3 M=4\npython x.py --a $N --b $M"), "a=3 b=4");
}

TEST(RunScript, FollowsDefaultsThatAreAssignedAndWordsForValues) {
  EXPECT_EQ(read(": ${TP:=4}\n: \"${PP:=2}\"\npython x.py --a $TP --b $PP"), "a=4 b=2");
  EXPECT_EQ(read(": ${TP:=4}\npython x.py --a $TP", {{"TP", "8"}}), "a=8");
  EXPECT_EQ(read("V=3\nE=\npython x.py ${V:+--a $V} ${E:+--b} ${E+--c}"), "a=3 c");
  EXPECT_EQ(unresolved_of(read_run_script("python x.py --a 1 ${V:+--b $V}", {})), "1::${V:+--b $V} ");
  EXPECT_EQ(read("python x.py --a 1 ${V:+--b $V}", {{"V", ""}}), "a=1");
  EXPECT_EQ(read("A=\" `# sizes` --a 1 \"\npython x.py $A `# last` --b 2"), "a=1 b=2");
}

TEST(RunScript, AFunctionIsReadWhereItIsCalled) {
  const std::string function =
      "TP=1\nlaunch() {\n  local PP=$1\n  { python x.py --tp $TP --pp $PP --n $#; }\n}\n";
  EXPECT_EQ(read(function + "TP=8\nPP=3\nlaunch 4 5\n"), "tp=8 pp=4 n=2");
  EXPECT_EQ(read("function size { PP=$((PP * 2)); }\nPP=2\nsize\nsize\npython x.py --pp $PP"), "pp=8");
  EXPECT_EQ(read("set_tp () { local T=$1; TP=$T; }\nT=5\nset_tp 2\npython x.py --tp $TP --t $T"), "tp=2 t=5");
  EXPECT_EQ(read(function + "launch $1", {{"1", "6"}}), "tp=1 pp=6 n=1");
  EXPECT_EQ(read(function + "TP=8\nsrun --export=ALL bash -c launch\n"), "tp=8 pp=$1 n=$#");
  const RunArguments perhaps = read_run_script("f() { TP=4; }\n[ $1 = x ] && f\npython x.py --tp $TP", {});
  EXPECT_EQ(unresolved_of(perhaps), "1:tp:TP=4 ");
}

TEST(RunScript, ShiftMovesTheArgumentsOfTheScript) {
  const std::string script = "L=$1; shift\npython train.py --layers $L --tp $1 --pp $2";
  EXPECT_EQ(read(script, {{"1", "16"}, {"2", "4"}, {"3", "2"}}), "layers=16 tp=4 pp=2");
  const RunArguments run = read_run_script(script, {{"1", "16"}});
  ASSERT_EQ(run.unresolved.size(), 2U);
  EXPECT_EQ(run.unresolved[0].variable, "2");
  EXPECT_EQ(run.unresolved[1].variable, "3");
  EXPECT_EQ(read("shift 2\npython train.py --tp $1", {{"1", "a"}, {"3", "4"}}), "tp=4");
  // After a shift that may not run, no argument is known by its number.
  const RunVariables set = {{"1", "2"}, {"2", "4"}};
  const RunArguments unknown = read_run_script("[ -n \"$X\" ] && shift\npython train.py --tp $1", set);
  EXPECT_EQ(text_of(unknown), "tp=$1");
  EXPECT_EQ(unknown.unresolved.at(0).variable, "");
}

TEST(RunScript, AFunctionEndsWhereItReturns) {
  const std::string pick = "pick() {\n  if [ \"$M\" = 7b ]; then TP=2; return; fi\n  TP=8\n}\n";
  EXPECT_EQ(read(pick + "M=7b\npick\npython train.py --tp $TP"), "tp=2");
  EXPECT_EQ(read(pick + "M=9b\npick\npython train.py --tp $TP"), "tp=8");
  const RunArguments unknown = read_run_script(pick + "pick\npython train.py --tp $TP", {});
  EXPECT_EQ(unresolved_of(unknown), "3:tp:TP=8 ");
  EXPECT_EQ(read("f() {\n  [ -f x ] || return 1\n  TP=8\n}\nf\npython train.py --tp $TP"), "tp=TP=8");
  EXPECT_EQ(read("f() { (return); TP=2; }\nf\npython train.py --tp $TP"), "tp=2");
  EXPECT_EQ(read("f() { return; }\nf\nTP=4\npython train.py --tp $TP"), "tp=4");
}

TEST(RunScript, TheOutputOfConditionsAndEchoIsFollowed) {
  const std::string sp =
      "S=$([ \"$TP\" -gt 1 ] && echo \"--sequence-parallel\")\npython train.py --tp $TP $S";
  EXPECT_EQ(read("TP=4\n" + sp), "tp=4 sequence-parallel");
  EXPECT_EQ(read("TP=1\n" + sp), "tp=1");
  EXPECT_EQ(read_run_script(sp, {}).unresolved.at(1).variable, "TP");
  EXPECT_EQ(
      read("F=true\npython train.py --a $(if [[ $F == true ]]; then echo --fp8 hybrid; else echo no; fi)"),
      "a fp8=hybrid");
  EXPECT_EQ(read("python train.py --a `[ 1 -eq 1 ] && echo -n 3`"), "a=3");
  EXPECT_EQ(read("python train.py --a $(case 7b in (7b) echo 1;; (*) echo 2;; esac) --b $(echo $(echo 5))"),
            "a=1 b=5");
  EXPECT_EQ(read("python train.py --a \"$(echo 1; echo 2)\""), "a=1\n2");
  EXPECT_EQ(
      read(
          "python train.py --a 1 $(echo 1 >&2) $({ echo 2; } >&2; echo --b) $(for i in 3; do echo $i; done)"),
      "a=1 b=3");
  // The output of other commands is not known.
  for (const char* other :
       {"$(echo 1 | sort)", "$(hostname; echo 1)", "$(<echo.txt)", "$(printf %d 010)", "$(echo -e '1\\t')",
        "$(X=2 f; echo $X)", "$(test -f x && echo 1)", "$(seq 3)", "$(echo 4*8 | bc)",
        "$(cut -d: -f1 <<< x:y)", "$(awk 'BEGIN{print 3}')", "$(echo a | sed s/a/b/)",
        "$(python3 -c 'print(4)')", "$(expr 4 + 4)", "$(cat list.txt)"})
    EXPECT_EQ(read_run_script(std::string("python train.py --a ") + other, {}).unresolved.size(), 1U)
        << other;
  EXPECT_EQ(read_run_script("python train.py --a $(echo $X | cut -d, -f2)", {}).unresolved.at(0).variable,
            "X");
}

/// What a reference is given in a way that only a shell follows, the variable that it names has.
TEST(RunScript, AVariableIsForgottenThroughItsReference) {
  const RunArguments run = read_run_script(
      "A=(--tp 2)\nf() { local -n out=$1; mapfile -t out < list.txt; }\nf A\npython x.py ${A[@]} --b 3", {});
  EXPECT_EQ(text_of(run), "b=3");
  EXPECT_EQ(run.unresolved.size(), 1U);
}

TEST(RunScript, NamesWithUnderscoresAreKept) {
  const RunArguments run = read_run_script("python train.py --num_layers=8 --hidden-size 4 --my_own 1", {});
  EXPECT_EQ(text_of(run), "num-layers=8 hidden-size=4 my-own=1");
  ASSERT_EQ(run.with_underscores.size(), 1U);
  EXPECT_EQ(run.with_underscores[0].name, "num_layers");
  // Two of Megatron's own names have an underscore.
  const RunArguments own = read_run_script(
      "python train.py --override-opt_param-scheduler --use-checkpoint-opt_param-scheduler --a 1", {});
  EXPECT_EQ(text_of(own), "override-opt-param-scheduler use-checkpoint-opt-param-scheduler a=1");
  EXPECT_TRUE(own.with_underscores.empty());
}

TEST(RunScript, APathInAListIsNoBundleOfArguments) {
  const RunArguments run =
      read_run_script("python x.py --data-path 0.3 ${DATA}/a 0.7 $DATA/b $EXTRA --lr 1 $C/d --seed 2", {});
  EXPECT_EQ(text_of(run), "data-path=0.3=${DATA}/a=0.7=$DATA/b lr=1 seed=2");
  EXPECT_EQ(unresolved_of(run), "1:data-path:${DATA} 1:data-path:$DATA 1::$EXTRA 1::$C ");
  EXPECT_EQ(unresolved_of(read_run_script("python x.py --data-path 1 $(cat x/args)", {})),
            "1::$(cat x/args) ");
}

TEST(RunScript, WhatIsSetCountsFirst) {
  EXPECT_EQ(read("TP=2\npython x.py --a $TP --b ${Q:-1}", {{"TP", "8"}, {"Q", "9"}}), "a=8 b=9");
}

TEST(RunScript, NamesWhatOnlyAShellCouldTell) {
  const RunArguments run = read_run_script(
      "H=$(hostname)\n"
      "if [ $SIZE = 8b ]; then TP=1; else TP=2; fi\n"
      "A=(--x 1)\n"
      "[ -n \"$F\" ] && A+=(--fp8-format hybrid)\n"
      "python x.py --host $H --tp $TP ${A[@]} --n $N $1 $@\n",
      {});
  EXPECT_EQ(text_of(run), "host=$(hostname) tp=TP=2 x=1 n=$N");
  EXPECT_EQ(unresolved_of(run), "1:host:$(hostname) 2:tp:TP=2 4::A+=--fp8-format hybrid 5:n:$N 5::$1 5::$@ ");
  EXPECT_EQ(read("if x; then TP=1; fi\npython x.py --tp $TP", {{"TP", "1"}}), "tp=1");
}

TEST(RunScript, AFlagTakesNoValueOfAVariable) {
  const RunArguments run = read_run_script("python x.py --sequence-parallel $EXTRA --lr $LR", {});
  EXPECT_EQ(text_of(run), "sequence-parallel lr=$LR");
  EXPECT_EQ(unresolved_of(run), "1::$EXTRA 1:lr:$LR ");
}

TEST(RunScript, ReadsHereDocumentsAndCommandsInsideOfShells) {
  EXPECT_EQ(read("TP=2\nsbatch <<EOF\n#SBATCH --nodes=4\npython x.py --tp $TP --n \\$M\nEOF\n", {{"M", "3"}}),
            "tp=2 n=3");
  const RunArguments slurm = read_run_script(
      "#!/bin/bash\n#SBATCH --nodes=4 --ntasks-per-node=8\n"
      "options=\" --tp 2 \\\n --pp 4\"\nrun_cmd=\"cd /x && python -u ${DIR}/pretrain_gpt.py ${options}\"\n"
      "srun -l --output=x sh -c \"${run_cmd}\"\n",
      {});
  EXPECT_EQ(text_of(slurm), "tp=2 pp=4");
  EXPECT_EQ(slurm.world_size, 32);
  EXPECT_TRUE(slurm.unresolved.empty()) << unresolved_of(slurm);
}

TEST(RunScript, ManyArgumentsInOneWordAreTakenApartWhereAScriptHandsThemOn) {
  const std::string words = "x.py '--num-layers 4 --bf16\n --hidden-size 8' --name '--a --b' --seq-length 2";
  const RunArguments handed_on = read_run_script("mpirun -np 4 ./entry.sh " + words, {});
  EXPECT_EQ(text_of(handed_on), text_of(read_run_script("mpirun -np 4 python x.py --num-layers 4 --bf16 "
                                                        "--hidden-size 8 --name '--a --b' --seq-length 2",
                                                        {})));
  EXPECT_EQ(handed_on.notes,
            (std::vector<std::string>{"line 1 holds many arguments in one word; they are read as a script "
                                      "hands them on that drops the quotes"}));
  EXPECT_EQ(code_of("mpirun -np 4 python " + words), at("arguments_in_one_word", "line 1"));
}

TEST(RunScript, KnowsTheVariablesOfSlurm) {
  const RunArguments run = read_run_script(
      "#SBATCH -N 2\n#SBATCH --gpus-per-node=h100:8\n"
      "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_PER_NODE x.py --a 1\n",
      {});
  EXPECT_EQ(run.world_size, 16);
}

TEST(RunScript, AWorldThatIsNotKnownIsAskedFor) {
  const RunArguments run = read_run_script("torchrun --nnodes $N --nproc_per_node 8 x.py --a 1", {});
  EXPECT_FALSE(run.world_size);
  EXPECT_EQ(unresolved_of(run), "1:nnodes:$N ");
  EXPECT_EQ(read_run_script("torchrun --nnodes 1:4 x.py --a 1", {}).unresolved.at(0).reason,
            "it is not a whole number from 1 on");
  EXPECT_EQ(read_run_script("torchrun x.py --a 1", {}).world_size, 1);
  EXPECT_EQ(read_run_script("mpirun -np 12 python x.py --a 1", {}).world_size, 12);
}

TEST(RunScript, OptionsOfTorchrunThatAreNotKnownLeaveTheWorldUnknown) {
  const RunArguments run = read_run_script(
      "if [ $SITE = a ]; then D=(--nproc_per_node 4); else D=(--nproc_per_node 8 --nnodes 2); fi\n"
      "torchrun ${D[@]} x.py --a 1\n",
      {});
  EXPECT_FALSE(run.world_size);
  ASSERT_EQ(run.unresolved.size(), 2U);
  for (const verify::Unresolved& unknown : run.unresolved) {
    EXPECT_TRUE(unknown.is_of_world);
    EXPECT_EQ(unknown.variable, "SITE");
  }
  EXPECT_FALSE(read_run_script("torchrun --standalone $D x.py --a 1", {}).world_size);
  EXPECT_EQ(read_run_script("torchrun --master_port $P --nproc_per_node 8 x.py --a 1", {}).world_size, 8);
  EXPECT_EQ(read_run_script("torchrun --nnodes 2 --nproc_per_node 8 $D x.py --a 1", {}).world_size, 16);
}

TEST(RunScript, ReadsTheWorldOfDeepspeed) {
  const auto world = [](const std::string& options) {
    return read_run_script("deepspeed " + options + " x.py --a 1", {}).world_size;
  };
  EXPECT_EQ(world("--num_nodes 2 --num_gpus 8"), 16);
  EXPECT_EQ(world("--num_gpus=8"), 8);
  EXPECT_EQ(world("--num_nodes 2 --hostfile h"), std::nullopt);
  EXPECT_EQ(world("--num_gpus 8 --hostfile h"), std::nullopt);
  EXPECT_EQ(world(""), std::nullopt);
}

TEST(RunScript, ProcessesNodesAndGpusThatContradictEachOtherAreTold) {
  const auto told = [](const std::string& before, const std::string& options) {
    const RunArguments run =
        read_run_script(before + "torchrun " + options + " --nproc_per_node 8 x.py --num-layers 4", {});
    return run.contradictions.empty() ? "" : run.contradictions.front();
  };
  const std::string two = "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n";
  EXPECT_EQ(told(two + "srun ", "--nnodes 2"), "");
  EXPECT_EQ(told(two + "srun ", "--nnodes 4"), "torchrun waits for 4 nodes, and Slurm gives 2");
  EXPECT_EQ(told(two + "srun ", "--nnodes 1"), "");
  EXPECT_EQ(told(two + "srun -N 1 -n 1 ", "--nnodes 2"), "");
  EXPECT_EQ(told("srun -N 1 -n 1 -w $NODE ", "--nnodes 2"), "");
  EXPECT_EQ(
      told("#SBATCH -N 2\n#SBATCH --ntasks-per-node=8\nsrun ", "--nnodes 2"),
      "srun starts torchrun 8 times on each node, and each starts 8 processes: one task per node is enough");
  EXPECT_EQ(told("#SBATCH -N 2\n#SBATCH --ntasks-per-node=8\nsrun -n 2 ", "--nnodes 2"), "");
  EXPECT_EQ(told("#SBATCH -N 2\n#SBATCH --ntasks-per-node=8\nsrun --ntasks-per-node=1 ", "--nnodes 2"), "");
  EXPECT_EQ(told("#SBATCH --ntasks-per-node=8\n", ""), "");
  EXPECT_EQ(told("#SBATCH --gres=gpu:a100:4\n", ""),
            "torchrun starts 8 processes on a node, and Slurm gives it 4 GPUs");
  EXPECT_EQ(told("export CUDA_VISIBLE_DEVICES=0,1,2,3\n", ""),
            "torchrun starts 8 processes on a node, and CUDA_VISIBLE_DEVICES shows them 4 GPUs");
  EXPECT_EQ(told("CUDA_VISIBLE_DEVICES=$LIST ", ""), "");
  EXPECT_EQ(told("", "--standalone --nnodes 2"), "--standalone is for one node, and torchrun waits for 2");
  EXPECT_EQ(told("", "--standalone --nnodes 1"), "");
}

TEST(RunScript, AFileThatIsSourcedIsNamedWhereSomethingIsNotAssigned) {
  const auto notes = [](const std::string& words) {
    return read_run_script("source \"${HERE}/models/sizes.sh\"\npython train.py --num-layers 4 " + words, {})
        .notes;
  };
  ASSERT_EQ(notes("${MODEL_ARGS[@]}").size(), 1U);
  EXPECT_EQ(
      notes("${MODEL_ARGS[@]}").front(),
      "sizes.sh, which line 1 sources, is not read: a file that has its lines in the place of that line "
      "says what it assigns");
  EXPECT_TRUE(notes("--bf16").empty());
}

TEST(RunScript, TheActorsOfSlimeAreItsWorld) {
  const std::string script =
      "srun -n 4 ray job submit -- python3 train.py --num-layers 4 --actor-num-nodes 4 \\\n"
      "  --actor-num-gpus-per-node ";
  const RunArguments run = read_run_script(script + "8", {});
  EXPECT_EQ(run.world_size, 32);
  EXPECT_EQ(run.gpus_per_node, 8);
  EXPECT_EQ(run.world_size_source, "--actor-num-nodes 4 x --actor-num-gpus-per-node 8, line 2");
  EXPECT_EQ(read_run_script(script + "$G", {}).world_size, 4);
}

TEST(RunScript, TheNumberOfConnectionsMayBeHandedOnByALauncher) {
  const auto connections = [](const std::string& before) {
    const auto environment = read_run_script(before + " python x.py --num-layers 4", {}).environment;
    const auto found = environment.find("CUDA_DEVICE_MAX_CONNECTIONS");
    return found == environment.end() ? "none" : found->second;
  };
  EXPECT_EQ(
      connections("R=\"{\n  \\\"CUDA_DEVICE_MAX_CONNECTIONS\\\": \\\"1\\\", \\\"A\\\": \\\"${A}\\\"}\"\n"),
      "1");
  EXPECT_EQ(connections("R='{\"CUDA_DEVICE_MAX_CONNECTIONS\": 8}'\n"), "8");
  EXPECT_EQ(connections("mpirun -np 8 -x CUDA_DEVICE_MAX_CONNECTIONS=1"), "1");
  EXPECT_EQ(connections("srun --export=ALL,CUDA_DEVICE_MAX_CONNECTIONS=1"), "1");
  EXPECT_EQ(connections("CUDA_DEVICE_MAX_CONNECTIONS=1"), "1");
  EXPECT_EQ(connections("# \"CUDA_DEVICE_MAX_CONNECTIONS\": \"1\"\n"), "none");
  EXPECT_EQ(connections("if [ 1 = 2 ]; then export CUDA_DEVICE_MAX_CONNECTIONS=1; fi\n"), "none");
}

TEST(RunScript, DeepspeedWritesItsNamesWithUnderscores) {
  EXPECT_TRUE(read_run_script("deepspeed x.py --deepspeed_config a.json", {}).with_underscores.empty());
  EXPECT_EQ(read_run_script("deepspeed x.py --num_layers 4", {}).with_underscores.size(), 1U);
}

TEST(RunScript, AScriptThatStartsAnotherNamesIt) {
  const auto hint = [](const std::string& script) {
    try {
      read_run_script(script, {});
    } catch (const sim::Error& error) {
      return error.refusal().hint;
    }
    return std::string();
  };
  EXPECT_EQ(hint("TP=2 bash ${HERE}/train.sh --x 1"), "--from train.sh, which line 1 starts");
  EXPECT_EQ(hint("\nsrun bash -c 'docker run --rm x bash -c \"cd y; sh z/train.sh 2>&1 | tee log\"'"),
            "--from train.sh, which line 2 starts");
  EXPECT_EQ(hint(". `pwd`/sizes.sh"), "--from sizes.sh, which line 1 starts");
  EXPECT_EQ(hint("ls"), "the run's log, or the command line that starts the run");
  EXPECT_EQ(read_run_script("A='--a 1'\nsource launch.sh", {}).notes.at(0),
            "the file has no command; the arguments that it assigns are read, and may be used by launch.sh, "
            "which line 2 starts");
}

TEST(RunScript, KeysOfAConfigurationAreReadByTheNamesOfArguments) {
  const std::string keys = "a.b.tensor_model_parallel_size=4 +a.context_parallel_size=$C trainer.nnodes=2";
  const RunArguments verl =
      read_run_script("python3 -m verl.trainer.main_ppo --config-path=c \\\n  " + keys + " $@", {});
  EXPECT_EQ(text_of(verl), "tensor-model-parallel-size=4 context-parallel-size=$C");
  EXPECT_EQ(unresolved_of(verl), "2:context-parallel-size:$C 2::$@ ");
  ASSERT_EQ(verl.notes.size(), 1U);
  EXPECT_NE(verl.notes[0].find("not used: trainer.nnodes"), std::string::npos) << verl.notes[0];
  EXPECT_EQ(read("torchrun --nproc_per_node 8 x.py " + keys),
            "tensor-model-parallel-size=4 context-parallel-size=$C");
  EXPECT_EQ(read("torchrun x.py model.pp=2 ++model.tp=4 model.optim.lr=0.5 'model.kinds=[a,b]' -x"),
            "pipeline-model-parallel-size=2 tensor-model-parallel-size=4 lr=0.5");
  // Two keys that say two sizes: nobody has said which one counts.
  EXPECT_EQ(unresolved_of(
                read_run_script("torchrun x.py actor.tp_size=2 rollout.tensor_model_parallel_size=4", {})),
            "1:tensor-model-parallel-size:2 ");
  EXPECT_EQ(read("python x.py --num-layers 4 --data-path a.tensor_model_parallel_size=4"),
            "num-layers=4 data-path=a.tensor_model_parallel_size=4");
}

TEST(RunScript, AFileWithoutACommandSaysItsWorldInTheOptionsOfTorchrun) {
  const RunArguments run = read_run_script(
      "#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n"
      "D=(--nproc_per_node 8 --nnodes $SLURM_NNODES)\nA=\" $MORE --num-layers 4\"\n",
      {});
  EXPECT_EQ(text_of(run), "num-layers=4");
  EXPECT_EQ(unresolved_of(run), "4::$MORE ");
  EXPECT_EQ(run.world_size, 32);
}

TEST(RunScript, TextOfEvalIsReadAsAShellReadsIt) {
  const RunArguments run = read_run_script(
      "R=\"torchrun --nproc_per_node 8 x.py --moe-layer-freq '([0]*1+[1]*3)' --lr 3\"\n"
      "R=\"$R | tee $LOG\"\necho ${R}\neval ${R}\n",
      {});
  EXPECT_EQ(text_of(run), "moe-layer-freq=([0]*1+[1]*3) lr=3");
  EXPECT_EQ(run.world_size, 8);
  EXPECT_TRUE(run.unresolved.empty()) << unresolved_of(run);
  EXPECT_TRUE(run.notes.empty());
}

TEST(RunScript, ReadsTextThatIsArgumentsAlone) {
  EXPECT_EQ(read("--tensor-model-parallel-size 8 --bf16 \\\n --n=-1"),
            "tensor-model-parallel-size=8 bf16 n=-1");
  EXPECT_EQ(read("MODEL_ARGS=\" \\\n    --num-layers 4 \\\n    --swiglu \\\n\"\n"), "num-layers=4 swiglu");
  EXPECT_EQ(read("A=(--a 1)\nB=(--b 2)\n"), "a=1 b=2");
}

TEST(RunScript, TheLastCommandCounts) {
  const RunArguments run =
      read_run_script("python pretrain_bert.py --x 1\npython pretrain_gpt.py --y 2\n", {});
  EXPECT_EQ(text_of(run), "y=2");
  ASSERT_EQ(run.notes.size(), 1U);
}

TEST(RunScript, AScriptThatIsNamedTrainingCountsBeforeOthers) {
  const RunArguments run = read_run_script(
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2\n"
      "python tools/checkpoint/convert.py --num-layers 4\n",
      {});
  EXPECT_EQ(text_of(run), "num-layers=2");
  EXPECT_EQ(run.world_size, 8);
}

TEST(RunScript, ArgumentsThatBeginACommandOfTheirOwnAreRefused) {
  for (const char* script :
       {"python pretrain_gpt.py --num-layers 2 \\\n  # --swiglu \\\n  --hidden-size 64\n",
        "python pretrain_gpt.py --num-layers 2 \\ \n  --hidden-size 64\n",
        "python pretrain_gpt.py\n--num-layers 2\n",
        "A=\"\n--num-layers 2\n\"\nbash -c \"python pretrain_gpt.py $A --bf16\""})
    EXPECT_EQ(code_of(script).substr(0, 15), "arguments_apart") << script;
  EXPECT_EQ(read("--num-layers 2\n--hidden-size 64\n"), "num-layers=2 hidden-size=64");
  EXPECT_EQ(read("cat > f <<EOF\n--num-layers 2\nEOF\npython pretrain_gpt.py --bf16"), "bf16");
}

TEST(RunScript, AQuotedListOfAllElementsIsOneWord) {
  EXPECT_EQ(read("A=(--a 1 --b 2)\nbash -c \"python x.py ${A[*]} --c 3\""), "a=1 b=2 c=3");
  EXPECT_EQ(read("f() { bash -c \"python x.py $*\"; }\nf --a 1 --b 2"), "a=1 b=2");
}

/// What a shell would split into fields, or replace by names of files, has an unknown number of them.
TEST(RunScript, TheNumberOfElementsIsKnownWhereNoneMayBeSeveral) {
  const auto nodes = [](const std::string& array) {
    const RunArguments run =
        read_run_script(array + "\ntorchrun --nproc_per_node 8 --nnodes ${#N[@]} train.py --a 1", {});
    return run.world_size.value_or(0);
  };
  EXPECT_EQ(nodes("N=(a b 'c d')"), 24);
  EXPECT_EQ(nodes("N=(a \"$X\" \"$(hostname)\")"), 24);
  EXPECT_EQ(nodes("M=(a b)\nN=(\"${M[@]}\" c)"), 24);
  for (const char* some : {"N=( $( scontrol show hostnames $LIST ) )", "N=(a $X)", "N=(*.txt)", "N=({0..7})",
                           "M=($X)\nN=(\"${M[@]}\")", "IFS=, read -ra N <<< \"$X\"", "mapfile -t N < hosts",
                           "N=(a)\nif [ -n \"$X\" ]; then N=(a b); fi", "N=(a)\n[ -f x ] && N+=(b)"})
    EXPECT_EQ(nodes(some), 0) << some;
  EXPECT_EQ(read("N=($X b)\ntrain.py --a ${N[1]}"), "a=${N[1]}");
  EXPECT_EQ(unresolved_of(read_run_script("N=($X b)\ntrain.py --a ${N[1]}", {})), "2:a:${N[1]} ");
}

TEST(RunScript, ElementsAreAssignedOneByOne) {
  EXPECT_EQ(read("A=(1 2)\nA[1]=5\nA[2]=7\npython x.py --a ${A[@]}"), "a=1=5=7");
  EXPECT_EQ(read("A=(1 2)\nA[${#A[@]}]=3\ni=0\nA[i]=8\nA[$i+1]=9\npython x.py --a ${A[@]} --b ${A[i]}"),
            "a=8=9=3 b=8");
  for (const char* unclear : {"A[7]=5", "A[$K]=5", "A=([1]=4 [0]=2)", "A[0]=()", "((A[0]=4))", "A[-1]=3"})
    EXPECT_EQ(unresolved_of(read_run_script(
                  "A=(1 2)\n" + std::string(unclear) + "\nA[0]=6\npython x.py --a ${A[1]} --b 1", {})),
              "4:a:${A[1]} ")
        << unclear;
}

TEST(RunScript, QuotesWithSignsAreRead) {
  EXPECT_EQ(read("python x.py --a $'1\\t2' --b $'it\\'s'"), "a=1\t2 b=it's");
  for (const char* other : {"$'\\x01'", "$'\\x32'", "$'\\cA'"})
    EXPECT_EQ(unresolved_of(read_run_script(std::string("python x.py --a ") + other, {})),
              std::string("1:a:") + other + " ");
}

/// What a regular expression finds, and what braces make of a word, only a shell tells.
TEST(RunScript, RegularExpressionsAndBracesAreAskedFor) {
  const std::string size =
      "if [[ $S =~ ^llama-([0-9]+)b$ ]]; then N=${BASH_REMATCH[1]}; else N=none; fi\npython x.py --n $N";
  EXPECT_EQ(unresolved_of(read_run_script("S=llama-70b\n" + size, {})), "2:n:N=none ");
  EXPECT_EQ(read("S=llama-70b\n" + size, {{"N", "70"}}), "n=70");
  EXPECT_EQ(read("[[ a,b =~ (^|,)b($|,) && 1 -gt 2 ]] && N=1\npython x.py --n ${N:-3}"), "n=3");
  EXPECT_EQ(unresolved_of(read_run_script("python x.py --a {1..3} --b x{a,b}y --c {} --d '{1,2}'", {})),
            "1:a:{1..3} 1:b:x{a,b}y ");
}

/// Arrays with keys, and what `declare -i` computes, are not followed.
TEST(RunScript, WhatDeclareGivesOtherwiseIsAskedFor) {
  for (const char* declared :
       {"declare -A C=([tp]=2)", "declare -A C\nC[tp]=2", "declare -A C\nC=([x]=1)", "declare -i C=2+3"}) {
    const RunArguments run =
        read_run_script(std::string(declared) + "\npython x.py --a ${C[tp]} --b $C --n 1", {});
    EXPECT_EQ(text_of(run), "a=${C[tp]} b=$C n=1") << declared;
    EXPECT_EQ(run.unresolved.at(1).variable, "C") << declared;
  }
  EXPECT_EQ(unresolved_of(read_run_script("A=(4 8)\npython x.py --a ${A[key]:-2} --b ${!A[@]} --n 1", {})),
            "2:a:${A[key]:-2} 2:b:${!A[@]} ");
}

TEST(RunScript, AListWithoutElementsIsNoWord) {
  EXPECT_EQ(read("A=()\npython x.py --a 1 \"${A[@]}\" --b"), "a=1 b");
  EXPECT_EQ(read("A=()\nf() { python x.py --a 1 \"$@\" --b \"x${A[@]}\"; }\nf"), "a=1 b=x");
  EXPECT_EQ(read("A=()\npython x.py --a \"${A[*]}\" --b \"\""), "a= b=");
}

TEST(RunScript, AScriptEndsWhereItExits) {
  EXPECT_EQ(code_of("C=\nif [ -z \"$C\" ]; then echo no; exit 1; fi\npython x.py --a 1"),
            at("run_without_arguments", "--from"));
  EXPECT_EQ(read("python x.py --a 1\nexit 0\npython y.py --b 2"), "a=1");
  EXPECT_EQ(read("bash -c 'exit 1'\n(exit 1)\n[ -d x ] || exit 2\npython x.py --a 1"), "a=1");
}

TEST(RunScript, ACommandThatIsNotKnownIsAskedFor) {
  const std::string both =
      "if [ $MULTI = 1 ]; then C=\"srun -N 4 python x.py --a 1\"; else C=\"python x.py --a 2\"; fi\n";
  EXPECT_EQ(code_of(both + "eval $C"), at("run_without_arguments", "line 1"));
  const RunArguments other = read_run_script(both + "$C\npython x.py --b 3", {});
  EXPECT_EQ(text_of(other), "b=3");
  EXPECT_EQ(unresolved_of(other), "1::C=python x.py --a 2 ");
  EXPECT_EQ(read("for lr in 1 2; do C=\"python x.py --lr $lr\"; eval $C; done"), "lr=2");
}

TEST(RunScript, ATrainingScriptWhoseNameIsNotKnownIsOne) {
  // A script whose name depends on a test, as Megatron's examples of post-training choose theirs.
  const std::string choice = "A='--num-layers 8'\nif [ -f x ]; then S=/x/a.py; else S=/x/b.py; fi\n";
  const RunArguments run = read_run_script(
      choice + "torchrun --nproc_per_node=16 $S \\\n  --save ck $A --pipeline-model-parallel-size 2\n", {});
  EXPECT_EQ(text_of(run), "save=ck num-layers=8 pipeline-model-parallel-size=2");
  EXPECT_EQ(run.world_size, 16);
  EXPECT_TRUE(run.notes.empty());
  EXPECT_EQ(text_of(read_run_script("torchrun --nproc_per_node 8 $SCRIPT --num-layers 4", {})),
            "num-layers=4");
  // A value is no script.
  EXPECT_EQ(text_of(read_run_script("prog --nodes $N --num-layers 4", {})), "nodes=$N num-layers=4");
}

TEST(RunScript, ALauncherOfSomebodysOwnIsNoTraining) {
  EXPECT_EQ(read("python launch.py --nodes 4 -- python pretrain_gpt.py --a 1"), "a=1");
  EXPECT_EQ(read_run_script("python l.py --n 9 -- torchrun --nproc_per_node 8 x.py --a 1", {}).world_size, 8);
}

TEST(RunScript, AHereDocumentIsExpandedBeforeItIsRead) {
  EXPECT_EQ(read("TP=4\nbash <<EOF\nTP=2\npython x.py --a $TP --b \\$TP\nEOF\n"), "a=4 b=2");
  EXPECT_EQ(read("TP=4\nbash <<'EOF'\nTP=2\npython x.py --a $TP\nEOF\n"), "a=2");
  EXPECT_EQ(read("X=2\nread -r -d '' X <<'E' || true; echo hi\n4\nE\npython x.py --a $X"), "a=4");
}

TEST(RunScript, AnAssignmentBeforeACommandIsOfThatCommandAlone) {
  const RunArguments run = read_run_script(
      "TP=1\nTP=8 bash -c 'python x.py --tp $TP'\nX=2 CUDA_DEVICE_MAX_CONNECTIONS=1 python x.py --tp $TP\n",
      {});
  EXPECT_EQ(text_of(run), "tp=1");
  EXPECT_EQ(run.environment.at("CUDA_DEVICE_MAX_CONNECTIONS"), "1");
  EXPECT_EQ(read("TP=1\nTP=8 bash -c 'python x.py --tp $TP'"), "tp=8");
  EXPECT_EQ(read("TP=2\nTP=8 python x.py --tp $TP"), "tp=2");
}

TEST(RunScript, FollowsAssignmentsOfArithmetic) {
  EXPECT_EQ(read("TP=4\nlet DP=32/TP/2 N=3\n(( G = DP * 16 ))\npython x.py --a $DP --b $G --c $N"),
            "a=4 b=64 c=3");
  EXPECT_EQ(read("((N=2**3))\npython x.py --a $N --b $((2**3))"), "a=${N} b=$((2**3))");
  EXPECT_EQ(unresolved_of(read_run_script("((N=M*2))\n((K+=1))\npython x.py --a $N --b $K", {})),
            "1:a:${N} 2:b:${K} ");
}

TEST(RunScript, ReadsTheWorldOfSbatchAndOfWordsThatAreOne) {
  const auto world = [](const std::string& script) { return read_run_script(script, {}).world_size; };
  EXPECT_EQ(world("sbatch --nodes=4 --ntasks-per-node=8 <<EOF\nsrun python x.py --a 1\nEOF\n"), 32);
  EXPECT_EQ(world("sbatch -N4 --ntasks-per-node 8 --wrap='srun python x.py --a 1'"), 32);
  EXPECT_EQ(world("sbatch -N 4 -n 16 --wrap \"python x.py --a $SLURM_NNODES\""), 16);
  EXPECT_EQ(world("#SBATCH -N4\n#SBATCH -n32\nsrun python x.py --a 1"), 32);
  EXPECT_EQ(world("srun -n8 python x.py --a 1"), 8);
  EXPECT_EQ(world("accelerate launch --num_processes 16 --num_machines 2 x.py --a 1"), 16);
  EXPECT_EQ(world("ssh host \"cd /x; torchrun --nnodes 2 --nproc_per_node=4 x.py --a 1\""), 8);
}

TEST(RunScript, ANodeHasTheGpusThatItsLauncherSays) {
  const auto gpus = [](const std::string& script) { return read_run_script(script, {}).gpus_per_node; };
  EXPECT_EQ(gpus("torchrun --nnodes 2 --nproc_per_node 4 x.py --a 1"), 4);
  EXPECT_EQ(gpus("torchrun --nnodes $N --nproc_per_node 4 x.py --a 1"), 4);
  EXPECT_EQ(gpus("srun -N 4 --ntasks-per-node=1 --gpus-per-node=h100:8 python x.py --a 1"), 8);
  EXPECT_EQ(gpus("srun -N 4 -n 16 python x.py --a 1"), 4);
  EXPECT_EQ(gpus("mpirun -np 16 python x.py --a 1"), std::nullopt);
  EXPECT_EQ(gpus("python x.py --a 1"), std::nullopt);
}

TEST(RunScript, ReadKeepsAHereDocument) {
  const std::string read_args = "TP=2\nread -r -d '' ARGS <<EOF\n  --a $TP\n  --b 1\nEOF\n";
  EXPECT_EQ(read(read_args + "python x.py $ARGS"), "a=2 b=1");
  EXPECT_EQ(read("read -d '' A <<'EOF'\n--a $TP\nEOF\npython x.py $A"), "a=$TP");
  EXPECT_EQ(read("X=4\nread -r -d '' A <<EOF\n--a \\$X \"$X\nEOF\npython x.py $A"), "a=$X=\"4");
  for (const char* unclear :
       {"read -n 2 X <<EOF\n4\nEOF", "read -r Y X <<EOF\n4 $N\nEOF",
        "if [ $1 = 2 ]; then read -r -d '' X <<EOF\n4\nEOF\nfi", "mapfile -n 1 X <<EOF\n4\nEOF"})
    EXPECT_FALSE(
        read_run_script("X=1\n" + std::string(unclear) + "\npython x.py --a $X --n 1", {}).unresolved.empty())
        << unclear;
}

/// What `read` and its like take from an input is asked for, with the line and the variable.
TEST(RunScript, WhatIsReadFromAnInputIsAskedFor) {
  for (const char* reads : {"read X <<< 4", "read -r Y X <<< '2 4'", "while read -r X; do :; done < f",
                            "mapfile -t X < f", "readarray X <<< 4", "printf -v X %d 4",
                            "while getopts X: X; do :; done", "echo 4 | { read X; python x.py --a $X; }"}) {
    const RunArguments run = read_run_script("X=1\n" + std::string(reads) + "\npython x.py --a $X --n 1", {});
    if (std::string(reads).starts_with("echo")) continue;
    ASSERT_EQ(run.unresolved.size(), 1U) << reads;
    EXPECT_EQ(run.unresolved[0].variable, "X") << reads;
    EXPECT_EQ(run.unresolved[0].line, 2) << reads;
    EXPECT_EQ(read("X=1\n" + std::string(reads) + "\npython x.py --a $X", {{"X", "7"}}), "a=7") << reads;
  }
}

TEST(RunScript, PartsOfValuesAreCutAndReplaced) {
  const auto of = [](const std::string& expansion, const std::string& value) {
    return read("X='" + value + "'\npython x.py --a \"" + expansion + "\"");
  };
  EXPECT_EQ(of("${X#*-}", "a-b-c"), "a=b-c");
  EXPECT_EQ(of("${X##*-}", "a-b-c"), "a=c");
  EXPECT_EQ(of("${X%-*}", "a-b-c"), "a=a-b");
  EXPECT_EQ(of("${X%%-*}", "a-b-c"), "a=a");
  EXPECT_EQ(of("${X%[bB]}", "70b"), "a=70");
  EXPECT_EQ(of("${X%k}", "8"), "a=8");
  EXPECT_EQ(of("${X%'*'}", "8*"), "a=8");
  EXPECT_EQ(of("${X/b/x}", "abab"), "a=axab");
  EXPECT_EQ(of("${X//b/}", "abab"), "a=aa");
  EXPECT_EQ(of("${X//\\//_}", "a/b/c"), "a=a_b_c");
  EXPECT_EQ(of("${X/#a/x}${X/%b/y}", "abab"), "a=xbababay");
  EXPECT_EQ(of("${X^^}${X^}${X,,}${X,}", "aB"), "a=ABABabaB");
  EXPECT_EQ(of("${X:2}${X:0:2}${X: -1}${X:1:-1}", "abcd"), "a=cdabdbc");
  EXPECT_EQ(of("${#X}", "abcd"), "a=4");
  EXPECT_EQ(of("${X//[0-9]/}", "a1b22"), "a=ab");
  EXPECT_EQ(read("A=(a.x b.x)\npython x.py --a ${A[@]%.x} --c ${A[-2]} --n ${#A[0]}"), "a=a=b c=a.x n=3");
  EXPECT_EQ(unresolved_of(read_run_script("L_8b=32\nN=L_8b\npython x.py --a ${!N}", {})), "3:a:${!N} ");
  EXPECT_EQ(read("X=8k\nS=$(( ${X%k} * 1024 ))\npython x.py --a $S --b ${X/#/x} --c ${X%$Y}"),
            "a=8192 b=x8k c=${X%$Y}");
  EXPECT_EQ(read("A=(1 2)\npython x.py --a ${A[@]/#/x} --b ${A[@]/%/y}"), "a=x1=x2 b=1y=2y");
  EXPECT_EQ(of("${X//(/_}${X//)/_}", "a(b)c"), "a=a_b)ca(b_c");
  // What only a shell could tell is asked for.
  for (const char* open :
       {"${Y%b}", "${X%[[:digit:]]}", "${X/b/&}", "${X@A}", "${X%+(b)}", "${A[@]:1}", "${X:$Y}"})
    EXPECT_EQ(read_run_script(std::string("X=ab\npython x.py --a ") + open, {}).unresolved.size(), 1U)
        << open;
}

TEST(RunScript, PatternsOfTestsAndCasesAreThoseOfTheShell) {
  EXPECT_EQ(read("M=qwen3-8b\ncase $M in *-70[bB]) T=8;; *-8?) T=2;; *) T=1;; esac\npython x.py --t $T"),
            "t=2");
  EXPECT_EQ(read("[[ llama3-8b == llama* ]] && T=2\n[[ x != [a-w] ]] && U=3\npython x.py --t $T --u $U"),
            "t=2 u=3");
  EXPECT_EQ(read("T=1\nif [ $T -gt 0 -a $T -lt 4 ]; then U=1; fi\n[ a = b -o $T -eq 1 ] && V=2\n"
                 "python x.py --u $U --v $V"),
            "u=1 v=2");
  EXPECT_EQ(read("T=1\n[[ -v T ]] && U=1\n[ -v T ] && V=2\npython x.py --u $U --v $V"), "u=1 v=2");
  EXPECT_EQ(unresolved_of(read_run_script("[[ -v Q ]] && U=1\npython x.py --u $U --n 1", {})), "1:u:U=1 ");
}

TEST(RunScript, SetGivesTheScriptOtherArguments) {
  EXPECT_EQ(read("set -- --tp 2\nset -- \"$@\" --pp 4\npython x.py \"$@\" --n $# --a $2"),
            "tp=2 pp=4 n=4 a=2");
  EXPECT_EQ(read("C='4 2'\nset -- $C\npython x.py --tp $1 --pp $2 --cp ${3:-1}"), "tp=4 pp=2 cp=1");
  const RunArguments open = read_run_script("set -- --tp 2 \"$@\"\npython x.py \"$@\" --n $#", {});
  EXPECT_EQ(text_of(open), "tp=2 n=$#");
  EXPECT_EQ(unresolved_of(open), "1::$@ 2:n:$# ");
  const RunArguments perhaps = read_run_script("[ -f x ] && set -- --tp 8\npython x.py --n 1 \"$@\"", {});
  EXPECT_EQ(text_of(perhaps), "n=1");
  EXPECT_EQ(unresolved_of(perhaps), "2::$@ ");
}

TEST(RunScript, AFunctionThatGetsAllArgumentsHasThoseOfTheScript) {
  const std::string script =
      "main() { local L=$1; shift; python x.py --layers $L --tp $1 --pp ${2:-1}; }\nmain \"$@\"";
  EXPECT_EQ(read(script, {{"1", "16"}, {"2", "4"}, {"3", "2"}}), "layers=16 tp=4 pp=2");
  const RunArguments run = read_run_script(script, {});
  ASSERT_EQ(run.unresolved.size(), 2U);
  EXPECT_EQ(run.unresolved[0].variable, "1");
  EXPECT_EQ(run.unresolved[1].variable, "2");
  EXPECT_EQ(read("python x.py --a 1 \"$@\" --n $#", {{"1", "--b"}, {"2", "3"}}), "a=1 b=3 n=2");
  EXPECT_EQ(unresolved_of(read_run_script("python x.py --a 1 \"${@:2}\"", {{"1", "--b"}, {"2", "3"}})),
            "1::${@:2} ");
  EXPECT_EQ(read("f() { python x.py --a $1 --n $#; }\nf 2 \"$@\""), "a=2 n=$#");
}

TEST(RunScript, TheOutputOfFunctionsAndHereDocumentsIsFollowed) {
  EXPECT_EQ(read("sizes() { local L=$1; echo --layers $L --heads 8; }\npython x.py $(sizes 4) --n $L",
                 {{"L", "7"}}),
            "layers=7 heads=8 n=7");
  EXPECT_EQ(read("sizes() { local L=$1; [ $L -gt 2 ] && echo --big; echo --l $L; }\n"
                 "A=$(sizes 4)\npython x.py $A --n ${L-0}"),
            "big l=4 n=0");
  EXPECT_EQ(read("pick() { if [ $1 = a ]; then echo 1; return; fi; echo 2; }\npython x.py --a $(pick a) --b "
                 "$(pick b)"),
            "a=1 b=2");
  EXPECT_EQ(read("T=2\nA=$(cat <<EOF\n --tp $T\n --pp 4\nEOF\n)\npython x.py $A"), "tp=2 pp=4");
  EXPECT_EQ(read("f() { echo note >&2; echo 1; }\npython x.py --a $(f) --c $(X=2; echo $X)"), "a=1 c=2");
  for (const char* other : {"f() { hostname; echo 1; }", "f() { f; }", "f() { echo 1 | sort; }"})
    EXPECT_EQ(read_run_script(std::string(other) + "\npython x.py --a $(f)", {}).unresolved.size(), 1U)
        << other;
  EXPECT_EQ(read("f() { echo 1 2> /dev/null; }\npython x.py --a $(f)"), "a=1");
}

TEST(RunScript, ArithmeticHasSteps) {
  EXPECT_EQ(read("X=6\n((X+=2))\n((X*=2+1))\nlet X--\n((++X))\npython x.py --a $X"), "a=24");
  EXPECT_EQ(read("python x.py --a $((1<2==1))"), "a=1");
  // What is not followed has no number, and what it may assign has none.
  EXPECT_EQ(read("python x.py --a $((08)) --b $((1<<2)) --c $((6&3)) --d $((0x10)) --e $((010))"),
            "a=$((08)) b=$((1<<2)) c=$((6&3)) d=$((0x10)) e=$((010))");
  EXPECT_EQ(read("X=1\n((X=6&3))\npython x.py --a $X"), "a=${X}");
}

std::string notes_of(const RunArguments& run) {
  std::string text;
  for (const std::string& note : run.notes) text += note + "; ";
  return text;
}

/// A name that stands for another variable is not followed: any variable may have been assigned.
TEST(RunScript, AReferenceMayChangeEachVariable) {
  const std::string append = "f() { local -n a=$1; a+=(--b 2); }\nA=(--a 1)\n";
  EXPECT_EQ(unresolved_of(read_run_script(append + "f A\npython x.py \"${A[@]}\" --c 3", {})), "1::${A} ");
  EXPECT_EQ(read("out=7\nf() { local -n out=$1; out=2; }\nf B\npython x.py --a ${B:-9}"), "a=$B");
  EXPECT_EQ(read("X=3\ndeclare -n R=X\nR=4\npython x.py --a $X --b $R"), "a=${X} b=$R");
  EXPECT_EQ(read("A=1\nf() { :; }\nunset -f A\npython x.py --a $A"), "a=1");
}

TEST(RunScript, ArgumentsThatAreKeptAreThoseOfTheirTime) {
  const std::string kept = "ARGS=(\"$@\")\nf() { python x.py --a 1 \"$@\"; }\n";
  EXPECT_EQ(read(kept + "f \"${ARGS[@]}\"", {{"1", "--k"}, {"2", "3"}}), "a=1 k=3");
  const RunArguments other = read_run_script(kept + "set -- --q 3\nf \"${ARGS[@]}\"", {});
  EXPECT_EQ(text_of(other), "a=1");
  EXPECT_EQ(unresolved_of(other), "1::$@ ");
  EXPECT_EQ(read("set -- --a 1\n(shift; true)\npython x.py \"$@\""), "a=1");
  EXPECT_EQ(read("set -- --a 1\n(set -- --b 2)\npython x.py \"$@\""), "a=1");
  EXPECT_EQ(read("A=1\n(declare -n q=A)\nq=2\npython x.py --a $A"), "a=1");
}

/// Where IFS has another value, nobody knows which words a value has.
TEST(RunScript, OtherSeparatorsOfWordsAreNotFollowed) {
  EXPECT_EQ(read("IFS=,\nX=1,2\npython x.py --a $X --b \"$X\""), "a=1,2 b=1,2");
  EXPECT_EQ(read_run_script("IFS=,\nX=1,2\npython x.py --a $X --b \"$X\"", {}).unresolved.size(), 1U);
  EXPECT_EQ(
      read("join() { local IFS=\"$1\"; shift; echo \"$*\"; }\nX='1 2'\npython x.py --a $(join , 1 2) --b $X"),
      "a=$* b=1=2");
  EXPECT_EQ(read("X=$'a\\tb'\npython x.py --a $X"), "a=a=b");
}

TEST(RunScript, APatternOfACaseMayGoOnWithTheNext) {
  const std::string start = "esac\npython x.py --a ${A:-0} --b ${B:-0} --c ${C:-0}";
  const auto of = [&](const std::string& size, const std::string& sign) {
    return read("case " + size + " in\n7b) A=1" + sign + "\n7*|13b) B=2;;\n*) C=3;;\n" + start);
  };
  EXPECT_EQ(of("7b", ";;"), "a=1 b=0 c=0");
  EXPECT_EQ(of("7b", ";&"), "a=1 b=2 c=0");
  EXPECT_EQ(of("13b", ";&"), "a=0 b=2 c=0");
  EXPECT_EQ(of("70b", ";&"), "a=0 b=2 c=0");
  EXPECT_EQ(of("7b", ";;&"), "a=1 b=2 c=0");
  EXPECT_EQ(of("1b", ";;&"), "a=0 b=0 c=3");
  EXPECT_EQ(read("case 7b in\n7b) A=1;;&\n9) B=2;;&\n*) C=3;;\n" + start), "a=1 b=0 c=3");
  EXPECT_EQ(
      unresolved_of(read_run_script("case 7b in +([0-9])b) A=1;; *) A=2;; esac\npython x.py --a $A", {})),
      "1:a:A=2 ");
}

TEST(RunScript, FollowsWhatExportAndDeclareAreGivenAsWords) {
  const auto tp = [](const std::string& command) {
    return read("TP=1\nNAME=TP\n" + command + "\npython x.py --a $TP");
  };
  EXPECT_EQ(tp("export \"TP=5\""), "a=5");
  EXPECT_EQ(tp("export 'TP'=5 B=3"), "a=5");
  EXPECT_EQ(tp("declare \"$NAME=5\""), "a=5");
  EXPECT_EQ(tp("declare $NAME+=5"), "a=15");
  EXPECT_EQ(tp("f() { local $NAME=5; }\nf"), "a=1");
  EXPECT_EQ(tp("if false; then export $NAME=5; fi"), "a=1");
  EXPECT_EQ(tp("if [ $Q ]; then export $NAME=5; fi").substr(0, 2), "a=");
  EXPECT_EQ(tp("declare -i TP=2+3; TP+=4"), "a=$TP");
  const RunArguments run = read_run_script("TP=1\nexport $(cat .env)\npython x.py --a $TP", {});
  EXPECT_EQ(notes_of(run), "line 2 may give variables other values, which are not known: $(cat .env); ");
  EXPECT_EQ(notes_of(read_run_script("TP=1\neval $(cat .env)\npython x.py --a $TP", {})), notes_of(run));
  EXPECT_EQ(notes_of(read_run_script("eval \"python `pwd`/x.py --a 1\"", {})), "");
}

TEST(RunScript, LoopsAreReadRoundByRound) {
  const std::string start = "\npython x.py --z \"$i\" \"${A[@]}\"";
  EXPECT_EQ(read("for i in 1 2 3; do [ $i = 2 ] && continue; A+=(--x$i 1); done" + start), "z=3 x1=1 x3=1");
  EXPECT_EQ(read("for i in 1 2 3; do [ $i = 2 ] && break; A+=(--x$i 1); done" + start), "z=2 x1=1");
  EXPECT_EQ(
      read("for i in 1 2; do for j in a b; do [ $j = b ] && continue 2; A+=(--$j$i 1); done; i=9; done" +
           start),
      "z=2 a1=1 a2=1");
  EXPECT_EQ(read("for i in 6 4 2; do for j in a b; do [ $i$j = 4b ] && break 2; A+=(--$j$i 1); done; "
                 "done" +
                 start),
            "z=4 a6=1 b6=1 a4=1");
  EXPECT_EQ(read("f() { for i in 1 2; do return; done; A=(--y); }\nf" + start), "z=1");
  EXPECT_EQ(read("f() { break; }\nfor i in 1 2; do f; (break); done" + start), "z=2");
  EXPECT_EQ(read("i=1\nE=\nfor i in $E; do A=(--y); done" + start), "z=1");
  EXPECT_EQ(read("for i in 1 2 3; do python x.py --z $i; [ $i = 2 ] && exit; done"), "z=2");
}

TEST(RunScript, OfALoopWithRoundsThatAreNotKnownNothingIsTakenForCertain) {
  const auto asked = [](const std::string& loop) {
    return unresolved_of(read_run_script(loop + "\npython x.py --z \"$i\" \"${A[@]}\" --b ${B:-0}", {}));
  };
  // The rounds of these are not counted, also where bash would know them.
  EXPECT_NE(asked("i=3\nwhile (( i-- )); do A+=(--x 1); done").find("2::A+=--x 1"), std::string::npos);
  EXPECT_NE(asked("i=0\nuntil [ $i -ge 3 ]\ndo i=$((i+2)); done").find(":z:"), std::string::npos);
  EXPECT_NE(asked("for ((i = 0; i < 3; i++)); do A+=(--x$i 1); done").find("1::A+=--x"), std::string::npos);
  const std::string parse =
      "while [ $# -gt 0 ]; do case \"$1\" in --tp) TP=$2; shift 2;; --pp=*) PP=${1#*=}; shift;; *) shift;; "
      "esac; done\npython x.py --a ${TP:-1} --b ${PP:-1}";
  EXPECT_EQ(unresolved_of(read_run_script("set -- --tp 4 -x --pp=2\n" + parse, {})),
            "2:a:TP=4 2:b:PP=${1#*=} ");
  EXPECT_EQ(unresolved_of(read_run_script(parse, {})), "1:a:TP=$2 1:b:PP=${1#*=} ");
  EXPECT_EQ(read(parse, {{"TP", "4"}, {"PP", "2"}}), "a=4 b=2");
  EXPECT_NE(asked("i=$N\nwhile (( i-- )); do A+=(--x 1); done").find("2:z:"), std::string::npos);
  EXPECT_NE(asked("for i in 1 2; do [ $Q ] && break; B=1; done").find(":z:i=2"), std::string::npos);
  EXPECT_NE(asked("for i in 1 2; do [ $Q ] && break; B=1; done").find(":b:B=1"), std::string::npos);
  EXPECT_NE(asked("for i in 1 2; do [ $Q ] && continue; B=1; done").find(":b:B=1"), std::string::npos);
  EXPECT_NE(asked("f() { for i in 1 2; do [ $Q ] && return; done; B=1; }\nf").find(":b:B=1"),
            std::string::npos);
  EXPECT_NE(asked("for ((i = 0; i < N; i++)); do B=1; done").find(":b:B=1"), std::string::npos);
  EXPECT_NE(asked("while read B; do A+=(--x 1); done < file").find("::A+=--x 1"), std::string::npos);
  EXPECT_NE(asked("i=0\nwhile [ 1 ]; do i=$((i + 1)); done").find(":z:"), std::string::npos);
  EXPECT_EQ(read("while [ 1 ]; do python x.py --a 1; done"), "a=1");
}

TEST(RunScript, TheRanksOfAJobOfSeveralComponentsAreNotThoseOfTheLast) {
  const std::string job =
      "#SBATCH --nodes=2 --ntasks-per-node=8\n#SBATCH hetjob\n#SBATCH --nodes=1 --ntasks-per-node=4\n";
  const RunArguments run = read_run_script(job + "srun --het-group=0 python x.py --a 1", {});
  EXPECT_EQ(run.world_size, std::nullopt);
  EXPECT_EQ(notes_of(run),
            "the job has components of their own sizes (hetjob, line 2): --world-size gives the ranks of "
            "those that srun starts; ");
  EXPECT_EQ(read_run_script(job + "torchrun --nnodes 2 --nproc_per_node 8 x.py --a 1", {}).world_size, 16);
}

TEST(RunScript, SaysThatASourcedFileMayReplaceValues) {
  const auto notes = [](const std::string& script) { return notes_of(read_run_script(script, {})); };
  const std::string start = "\npython x.py --a ${TP:-2}";
  EXPECT_EQ(notes("TP=1\n. ./sizes.conf" + start),
            "sizes.conf, which line 2 sources, is not read: it may give other values to variables that are "
            "assigned before that line; ");
  EXPECT_EQ(notes("TP=1\nsource /opt/venv/bin/activate" + start), "");
  EXPECT_EQ(notes("TP=1\nsource ~/.bashrc" + start), "");
  EXPECT_NE(notes("TP=1\nsource profile_7b/activate_fp8.conf" + start), "");
  EXPECT_EQ(notes(". ./sizes.conf\nTP=1" + start), "");
}

TEST(RunScript, ATextThatEndsInAnExpansionLeavesNoFunctionOpen) {
  EXPECT_EQ(read("f() { local A=2\ncat <<X\n${\nX\n}\nA=1\nB=$(f)\npython x.py --a $A"), "a=1");
}

TEST(RunScript, ReadsACommandOfSwift) {
  const RunArguments run = read_run_script(
      "export NNODES=2\nNPROC_PER_NODE=8 CUDA_VISIBLE_DEVICES=0,1 \\\nmegatron sft --load Qwen3-mcore \\\n"
      "  --tensor_model_parallel_size 2 --sequence_parallel true --swiglu false --micro_batch_size 1\n",
      {});
  EXPECT_EQ(text_of(run),
            "load=Qwen3-mcore tensor-model-parallel-size=2 sequence-parallel micro-batch-size=1 "
            "expert-tensor-parallel-size=1");
  EXPECT_EQ(run.world_size, 16);
  EXPECT_EQ(run.script, "megatron sft");
  EXPECT_TRUE(run.with_underscores.empty());
  EXPECT_EQ(read_run_script("megatron pt --tensor_model_parallel_size 2", {}).world_size, std::nullopt);
}

TEST(RunScript, ReadsTheArgumentsOfAModule) {
  const RunArguments run =
      read_run_script("exec torchrun --nproc_per_node 4 --module pretrain_gpt --num-layers 2 $@", {});
  EXPECT_EQ(text_of(run), "num-layers=2");
  EXPECT_EQ(run.world_size, 4);
  EXPECT_EQ(read("python3 -m torch.distributed.run --nproc-per-node 2 -m my.train --a 1"), "a=1");
  EXPECT_EQ(read("srun -N 2 python -u -m my.train --a 1"), "a=1");
  EXPECT_EQ(read("docker run -m 4g --rm x bash -c 'python x.py --a 1'"), "a=1");
}

TEST(RunScript, ACommandThatTrainsCountsBeforeOthers) {
  const RunArguments run = read_run_script(
      "python a.py --vocab-file x\npython pretrain_gpt.py --num-layers 2\npython plot.py --dir $D\n", {});
  EXPECT_EQ(text_of(run), "num-layers=2");
  EXPECT_TRUE(run.notes.empty());
}

TEST(RunScript, RefusesWhatDoesNotEnd) {
  EXPECT_EQ(code_of("\n\nX=\"abc\npython x.py --a 1"), at("script_syntax", "line 3"));
  EXPECT_EQ(code_of("X='abc"), at("script_syntax", "line 1"));
  EXPECT_EQ(code_of("X=(a b\n"), at("script_syntax", "line 1"));
  EXPECT_EQ(code_of("x <<EOF\npython x.py --a 1\n"), at("script_syntax", "line 2"));
  EXPECT_EQ(code_of("echo ${A\n"), at("script_syntax", "line 1"));
  EXPECT_EQ(code_of("echo $(a\n"), at("script_syntax", "line 1"));
  EXPECT_EQ(code_of("echo hello\n"), at("run_without_arguments", "--from"));
  EXPECT_EQ(code_of(""), at("run_without_arguments", "--from"));
}

TEST(RunScript, FunctionsThatCallOthersTooOftenAreRefused) {
  std::string script = "f0() { X=1; }\n";
  for (int i = 1; i < 8; ++i) {
    std::string calls;
    for (int call = 0; call < 10; ++call) calls += " f" + std::to_string(i - 1) + ";";
    script += "f" + std::to_string(i) + "() {" + calls + " }\n";
  }
  EXPECT_EQ(code_of(script + "f7\nf7\npython x.py --a 1"), at("run_file_size", "line 2"));
  EXPECT_EQ(read("f() { f; f; }\nf\npython x.py --a 1"), "a=1");
}

TEST(RunScript, AValueThatDoublesIsRefused) {
  std::string script = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) script += "A=\"$A$A\"\n";
  EXPECT_TRUE(code_of(script + "python x.py --a $A\n").starts_with("run_file_size"));
  std::string nested(100'000, '(');
  EXPECT_EQ(code_of("echo $((" + nested), at("script_syntax", "line 1"));
  std::string defaults;
  for (int i = 0; i < 1000; ++i) defaults += "${A:-";
  EXPECT_TRUE(code_of("x=" + defaults + std::string(1000, '}')).starts_with("script_syntax"));
}

}  // namespace
