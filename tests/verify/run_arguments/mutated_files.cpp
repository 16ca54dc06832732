#include "tests/verify/run_arguments/mutated_files.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <random>
#include <sstream>
#include <string_view>

#include "sim/base/error.h"
#include "verify/run_arguments/run_file.h"
#include "verify/run_arguments/run_log.h"

namespace test {

namespace {

constexpr std::string_view kFiles[] = {
    "using world size: 16\n0: ---------- arguments ----------\n0:   bf16 ............................ True\n"
    "0:   moe_layer_freq ................... [0, 1, 1]\n1: another line\n0:   data_path ................ "
    "['a', "
    "'b c']\n0:   world_size ...................................... 16\n0: ---------- end of arguments "
    "----------\n0: > building\n",
    "ENV_VARS:\n  NCCL_ALGO: Ring\nMODEL_ARGS:\n  --num-layers: 12\n  --swiglu: true\n  --list: [a, 'b', "
    "\"c\"]\n  --lines:\n    - c\n    - d\n  --text: |\n    many\n    lines\n  --map: {a: 1, b: [2]}\n",
    "---\nnum_layers: 12\n--bf16: true # a comment\nfp8: null\nx: &anchor 1\n? key\n: value\n...\n",
    "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node 8\nexport TP=${1:-2}\nPP=$((TP * 2 + 1))\n"
    "ARGS=(\n  --num-layers 4 # layers\n  --seq-length ${SEQ:-${LEN:=16}}\n)\nARGS+=(--bf16)\nif [ -n \"$X\" "
    "]; then\n  ARGS+=(--swiglu)\nfi\nfor i in 1 2; do echo $i; done\ntorchrun --nnodes ${NNODES} "
    "--nproc_per_node=4 \\\n  pretrain_gpt.py \"${ARGS[@]}\" --tensor-model-parallel-size $TP ${#ARGS[@]} "
    "${ARGS[0]} `date` $(nproc) > log 2>&1 &\n",
    "sbatch <<EOF\n#SBATCH --nodes=4\nsrun bash -c 'python x.py --num-layers 4 \"--lr\" 1'\nEOF\ncat "
    "<<-'X' "
    "<<Y\n\tone\n\tX\ntwo\nY\ncase $A in a) B=1 ;; *) B=2 ;; esac\npython x.py --micro-batch-size $B || "
    "true\n",
    "launch() {\n  local n=$1\n  shift\n  (( n > 1 )) && S=\"$S --sp\"\n  : ${V:=3} `# note`\n"
    "  eval \"torchrun --nproc_per_node $n x.py --num-layers $V ${S:+$S} $@ | tee log\"\n}\n"
    "if [ -z $M ]; then M=$(( V > 2 ? 4 : 1 )); fi\n[ $Y ] && S+=' --fp8'\nlaunch $M --lr 1\n",
    "model:\n  sizes: {num_layers: 4, tp: 2}\n  seq_length: ${model.sizes.tp}\n  mbs: ${.seq_length}\n  "
    "bias: "
    "false\nother:\n  num_layers: 5\n  list: [{a: 1}, [2]]\n",
    "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 9, \"hidden_size\": 8, \"n_shared_experts\": 2,\n"
    "\"moe_intermediate_size\": 3, \"text_config\": {\"first_k_dense_replace\": 1}, \"eos\": [1, 2]}\n",
    "python -m nemo.train --config-path=a +model.tp=2 ++model.seq_length=$S 'model.kinds=[a,b]' ~x $@\n",
    "0: ---------- arguments ----------\n0:   bf16 ....................\n0: ........................ True\n"
    "0:   list ............................................ [1,\n0:  2]\n0: ---------- end of arguments "
    "----------\n0: > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)\n",
    "kind: Job\nspec:\n  containers:\n  - env: [{name: TP, value: \"2\"}]\n    command: [bash, -c]\n    "
    "args:\n"
    "    - |\n      torchrun x.py --tp $TP 'a'\n  - args: [python, x.py, --lr=$(LR), '--a=\\`b']\nrun: x.py "
    "--b\n"};

constexpr std::string_view kTokens[] = {"$(",
                                        "$((",
                                        "))",
                                        "${",
                                        "}",
                                        "${X:-",
                                        "${#A[@]}",
                                        "${A[99999999999]}",
                                        "<<EOF\n",
                                        "EOF\n",
                                        "\\",
                                        "\"",
                                        "'",
                                        "`",
                                        "&&",
                                        "||",
                                        ";;",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        ", ",
                                        ": ",
                                        "- ",
                                        "? ",
                                        "&a ",
                                        "*a",
                                        "!!x ",
                                        "|\n",
                                        ">-\n",
                                        "%YAML 9\n",
                                        "---\n",
                                        "--",
                                        "--x=",
                                        "=",
                                        "+=(",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        "  ",
                                        "\xef\xbb\xbf",
                                        "\xc3\xa9",
                                        "\xff",
                                        std::string_view("\0", 1),
                                        "\x01",
                                        "\x01"
                                        "0\x02",
                                        "9223372036854775808",
                                        "-9223372036854775808",
                                        "$X$X$X",
                                        "------------ arguments ------------\n",
                                        "------------ end of arguments ------------\n",
                                        " .......... ",
                                        "if x; then\n",
                                        "fi\n",
                                        "for x in ",
                                        "done\n",
                                        "#SBATCH --nodes=",
                                        "bash -c ",
                                        "eval \"",
                                        "f() {\n",
                                        "}\nf 1\n",
                                        "((",
                                        "shift\n",
                                        "${V:+",
                                        "x.py ",
                                        "MODEL_ARGS:\n"};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(engine_() % limit);
  }
  char byte() { return static_cast<char>(engine_() & 0xffU); }

 private:
  std::mt19937_64 engine_;  // std's distributions differ between libraries; its engines do not
};

void change(std::string& file, Draw& draw) {
  const std::size_t at = draw.below(file.size() + 1);
  const std::size_t length = std::min(draw.below(draw.below(4) == 0 ? 200 : 8), file.size() - at);
  switch (draw.below(6)) {
    case 0:
      if (at < file.size()) file[at] = draw.byte();
      return;
    case 1:
      file.erase(at, length);
      return;
    case 2: {
      const std::string again = file.substr(at, length);
      for (std::size_t i = draw.below(20); i > 0; --i) file.insert(at, again);
      return;
    }
    case 3: {
      const std::string_view token = kTokens[draw.below(std::size(kTokens))];
      for (std::size_t i = draw.below(8) == 0 ? draw.below(60) : 1; i > 0; --i) file.insert(at, token);
      return;
    }
    case 4: {
      const std::string_view other = kFiles[draw.below(std::size(kFiles))];
      file.insert(at, other.substr(draw.below(other.size()), draw.below(100)));
      return;
    }
    default:
      file.resize(at);
  }
}

std::string problem_of(const sim::Refusal& refusal) {
  const bool has_place = refusal.option.starts_with("line ") || refusal.option.starts_with("--from") ||
                         refusal.option.starts_with("--set");
  if (has_place && !refusal.code.empty() && !refusal.numbers.empty() && !refusal.rule.empty()) return "";
  return "a refusal without a place or a reason: " + refusal.code + " " + refusal.option + " " +
         refusal.numbers;
}

template <typename Read>
std::string problem_in(const Read& read) {
  try {
    read();
  } catch (const sim::Error& error) {
    return problem_of(error.refusal());
  } catch (const std::exception& error) {
    return std::string("an exception: ") + error.what();
  }
  return "";
}

}  // namespace

std::string mutated_file(std::uint64_t seed) {
  Draw draw(seed);
  std::string file;
  if (draw.below(16) == 0) {
    for (std::size_t i = draw.below(300); i > 0; --i) file += draw.byte();
    return file;
  }
  file = kFiles[draw.below(std::size(kFiles))];
  for (std::size_t i = draw.below(8) + 1; i > 0; --i) change(file, draw);
  return file;
}

std::string problem_of_reading(const std::string& file) {
  verify::RunVariables set;
  if (file.find("NNODES") != std::string::npos) set["NNODES"] = "2";
  const std::string problem = problem_in([&] { verify::read_run_text(file, set); });
  if (!problem.empty()) return problem;
  return problem_in([&] {
    std::istringstream log(file);
    verify::read_run_log(log);
  });
}

}  // namespace test
