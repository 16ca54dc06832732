"""Holds our model of a GPT (sim/model) against Megatron's: both train the same small GPT on the same layout, from the same
weights, on the same samples, and each value and each call of three steps is compared.

    held.py SHARDPROOF PYTHON [WORD...]      prints the table of verify/run/README.md, or the rows that have one of the words

Megatron runs under `shardproof run` (held_gpt.py), ours on virtual ranks (own_gpt.cpp), and `shardproof compare` judges the
values. A call is an operation over some ranks, with its elements and their dtype. The calls of each rank are compared in
their order; held_calls.tsv says why some differ.
"""

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Dict, List, NamedTuple, Sequence, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 600  # seconds of one program; chosen
SIZES = {
    "tp": "--tensor-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
    "cp": "--context-parallel-size",
    "ep": "--expert-model-parallel-size",
    "etp": "--expert-tensor-parallel-size",
    "vpp": "--num-virtual-stages-per-pipeline-rank",
    "dp": "",
}
EXPERTS = "--num-experts 4 --moe-router-topk 2 --disable-bias-linear"
MLA = "--multi-latent-attention --kv-lora-rank 16 --qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 8"
ENGINE = "--transformer-impl transformer_engine"


class Row(NamedTuple):
    """A layout, and the options of Megatron that make the model."""

    layout: str  # "tp2 sp dp2"
    options: str = ""

    @property
    def name(self) -> str:
        return f"{self.layout} {self.options}".strip()

    @property
    def ranks(self) -> int:
        sizes = self._sizes()
        return sizes.get("tp", 1) * sizes.get("pp", 1) * sizes.get("cp", 1) * sizes.get("dp", 1)

    def _sizes(self) -> Dict[str, int]:
        found = (re.fullmatch(r"([a-z]+)(\d+)", word) for word in self.layout.split())
        return {match[1]: int(match[2]) for match in found if match}

    def words(self) -> List[str]:
        """Returns the options of the layout and of the model."""
        words = [f"{SIZES[name]} {size}" for name, size in self._sizes().items() if SIZES[name]]
        words += ["--sequence-parallel"] * ("sp" in self.layout.split())
        words += ["--use-distributed-optimizer"] * ("zero" in self.layout.split())
        return " ".join([*words, self.options]).split()


ROWS = (
    Row("tp2 sp"),
    Row("dp2 zero", "--swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --position-embedding-type rope"),
    Row("pp2", "--group-query-attention --num-query-groups 2 --qk-layernorm"),
    Row("ep2 dp2", EXPERTS + " --moe-token-dispatcher-type alltoall"),
    Row("tp2"),
    Row("dp2"),
    Row("pp2 vpp2"),
    Row("pp2 vpp2 dp2 zero", "--untie-embeddings-and-output-weights"),
    Row("tp2 sp pp2 dp2 zero", "--swiglu --normalization RMSNorm"),
    Row("tp4", "--group-query-attention --num-query-groups 2"),
    Row("tp2 sp", "--group-query-attention --num-query-groups 2 --qk-layernorm --add-qkv-bias --disable-bias-linear"),
    Row("tp2 sp", MLA),
    Row("tp2", MLA + " --qk-layernorm --q-lora-rank 16"),
    Row("tp2 sp pp2", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"),
    Row("dp2 zero", "--calculate-per-token-loss"),
    Row("dp2 zero", "--overlap-grad-reduce --overlap-param-gather"),
    Row("dp2", "--overlap-grad-reduce"),
    Row("ep2 dp2", EXPERTS),
    Row("tp2 sp", EXPERTS),
    Row("tp2 sp etp1", EXPERTS + " --moe-token-dispatcher-type alltoall"),
    Row("tp2 sp ep2 etp2 dp2 zero", EXPERTS),
    Row("tp2 sp ep2 etp1 dp2 zero", EXPERTS + " --swiglu --moe-token-dispatcher-type alltoall"),
    Row("tp2 sp ep2 etp2 dp2", EXPERTS + " --moe-token-dispatcher-type alltoall"),
    Row("tp2 sp ep2 etp1", EXPERTS + " --moe-shared-expert-intermediate-size 32 --moe-token-dispatcher-type alltoall"),
    Row("ep2 dp2", EXPERTS + " --moe-shared-expert-intermediate-size 32 --moe-shared-expert-gate"),
    Row("tp2 sp ep2 etp1", EXPERTS + " --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.1 --moe-z-loss-coeff 0.01"),
    Row("tp2 sp ep2 etp1", EXPERTS + " --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 0.1"),
    Row("ep2 dp2", EXPERTS + " --moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff 0.1"),
    Row("pp2 ep2 dp2", EXPERTS + " --moe-layer-freq 2 --moe-router-score-function sigmoid --moe-router-enable-expert-bias"),
    Row("tp2 sp ep2 etp1", EXPERTS + " --moe-expert-capacity-factor 1.0 --moe-token-dispatcher-type alltoall"),
    Row("cp2", ENGINE),
    Row("cp2 tp2 sp", ENGINE + " --cp-comm-type all_gather --position-embedding-type rope"),
    Row("cp2 pp2 dp2 zero", ENGINE + " --cp-comm-type a2a --swiglu"),
    Row("tp2 sp", ENGINE + " --qk-layernorm --normalization RMSNorm"),
    Row("tp2 sp ep2 etp1", ENGINE + " " + EXPERTS + " --moe-grouped-gemm --moe-token-dispatcher-type alltoall"),
)


class Call(NamedTuple):
    """A call of a rank, as both programs make it."""

    operation: str
    members: Tuple[int, ...]  # of its group; of a message, the other rank
    elements: int
    dtype: str


class Made(NamedTuple):
    call: Call
    where: str  # the function that makes it
    group: str  # the kind of the group


def calls_of(path: str) -> List[Made]:
    """Returns the calls of a rank in groups of several ranks."""
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    return [
        Made(Call(operation, tuple(members) if peer < 0 else (peer,), count, dtype), where, kind)
        for operation, members, peer, count, dtype, where, kind in told
        if len(members) > 1
    ]


class Difference(NamedTuple):
    """Calls that one of the programs makes alone."""

    side: str  # "theirs" or "ours"
    where: str
    operation: str
    group: str


class Run(NamedTuple):
    """What came of one row in one kind of floats."""

    wrong: str
    values: int = 0
    slack: float = 0
    same: int = 0  # calls of all ranks
    differences: Dict[Difference, int] = {}


def add_differences(theirs: List[Made], ours: List[Made], found: Dict[Difference, int]) -> int:
    """Adds the calls of a rank that one program makes alone, and returns how many both make."""
    matcher = difflib.SequenceMatcher(None, [made.call for made in theirs], [made.call for made in ours], autojunk=False)
    same = 0
    for kind, begin, end, own_begin, own_end in matcher.get_opcodes():
        if kind == "equal":
            same += end - begin
            continue
        for side, made in (("theirs", theirs[begin:end]), ("ours", ours[own_begin:own_end])):
            for each in made:
                key = Difference(side, each.where, each.call.operation, each.group)
                found[key] = found.get(key, 0) + 1
    return same


def output_of(command: Sequence[str]) -> Tuple[int, str]:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LONGEST
    )
    return done.returncode, done.stdout


def train_theirs(shardproof: str, python: str, folders: Dict[str, Tuple[Row, str]]) -> str:
    """Trains Megatron's model of each row in its floats, which writes into its folder."""
    layouts = "; ".join(f"{row.layout} --held {folder} --floats {floats} {row.options}" for folder, (row, floats) in folders.items())
    started = [shardproof, "run", "--precision", "program", "--layouts", layouts, "--", python]
    code, output = output_of([*started, os.path.join(HERE, "held_gpt.py")])
    return output


def judged(shardproof: str, folder: str, ranks: int, faults: Sequence[str]) -> Run:
    """Trains our model as that of a folder was trained, and compares both."""
    own_gpt = os.path.join(os.path.dirname(os.path.abspath(shardproof)), "own_gpt")
    ours = folder + "-ours"
    if not os.path.exists(os.path.join(folder, "arguments.json")):
        return Run("Megatron's training did not end")
    code, output = output_of([own_gpt, folder, ours, *faults])
    if code != 0:
        return Run(f"exit code {code} of own_gpt\n{output[-4000:]}")
    code, output = output_of([shardproof, "compare", ours, "--against", folder, "--format", "json"])
    if code not in (0, 1):
        return Run(output)
    document = json.loads(output)
    (one,) = document["folders"]
    found: Dict[Difference, int] = {}
    same = 0
    for rank in range(ranks):
        theirs, own = (calls_of(os.path.join(each, f"calls-{rank}.json")) for each in (folder, ours))
        same += add_differences(theirs, own, found)
    wrong = [one["incomparable"]] * bool(one["incomparable"])
    wrong += [f"{x['value']} {x['what']}" for x in one["wrong"][:3]]
    wrong += [f"{name} is not compared" for name in document["left_out"]]
    return Run("; ".join(wrong), one["values"], one["worst_slack"] or 0, same, found)


def main() -> int:
    shardproof, python, *words = sys.argv[1:]
    rows = [row for row in ROWS if not words or any(word in row.name for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        folder = os.environ.get("HELD", folder)
        folders = {
            os.path.join(folder, f"{number}-{floats}"): (row, floats)
            for number, row in enumerate(rows)
            for floats in os.environ.get("FLOATS", "f64 f32").split()
        }
        output = train_theirs(shardproof, python, folders)
        for each, (row, floats) in folders.items():
            run = judged(shardproof, each, row.ranks, ())
            print(row.name, floats, run.values, run.wrong, run.slack, run.same, flush=True)
            for key, count in sorted(run.differences.items()):
                print("   ", count, *key, sep="\t")
    print(output[-3000:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
