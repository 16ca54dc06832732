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
    Row("tp2"),
    Row("tp2 sp pp2 dp2 zero", "--swiglu --normalization RMSNorm --untie-embeddings-and-output-weights"),
)


class Call(NamedTuple):
    """A call of a rank, as both programs make it."""

    operation: str
    members: str  # of its group; of a message, from whom to whom
    elements: str
    dtype: str


class Made(NamedTuple):
    call: Call
    where: str  # the function that makes it
    group: str  # the kind of the group


def flat(sizes: Sequence[Sequence[int]]) -> int:
    """Returns the number of elements of some tensors."""
    count = 0
    for size in sizes:
        product = 1
        for length in size:
            product *= length
        count += product
    return count


def calls_of(path: str) -> List[Made]:
    """Returns the calls of a rank among several ranks, from its dump of a flight recorder."""
    with open(path, encoding="utf-8") as file:
        dump = json.load(file)
    members = {group["name"]: json.loads(group["ranks"]) for group in dump["pg_config"].values()}
    calls = []
    for entry in dump["entries"]:
        name, kind = entry["process_group"]
        ranks = members[name]
        operation, _, places = entry["profiling_name"].replace("nccl:", "").partition(" ")
        if len(ranks) == 1:
            continue
        said = str(ranks)
        if places:
            first, arrow, second = re.match(r"(\d+)(->|<-)(\d+)", places).groups()  # type: ignore[union-attr]
            said = f"{ranks[int(first)]} {arrow} {ranks[int(second)]}"
        elements = f"{flat(entry['input_sizes'])} to {flat(entry['output_sizes'])}"
        calls.append(
            Made(Call(operation, said, elements, entry["input_dtypes"][0]), entry["frames"][0]["name"], kind)
        )
    return calls


class Run(NamedTuple):
    """What came of one row in one kind of floats."""

    values: int
    wrong: str
    slack: float
    same: int  # calls of all ranks
    differing: Dict[Tuple[str, str, str, str], int]  # by side, function, operation and kind of group


def differing_calls(theirs: List[Made], ours: List[Made], found: Dict[Tuple[str, str, str, str], int]) -> int:
    """Adds the calls of a rank that one program makes alone, and returns how many both make."""
    matcher = difflib.SequenceMatcher(None, [made.call for made in theirs], [made.call for made in ours], autojunk=False)
    same = 0
    for kind, begin, end, own_begin, own_end in matcher.get_opcodes():
        if kind == "equal":
            same += end - begin
            continue
        for side, made in (("theirs", theirs[begin:end]), ("ours", ours[own_begin:own_end])):
            for each in made:
                key = (side, each.where, each.call.operation, each.group)
                found[key] = found.get(key, 0) + 1
    return same


def held(shardproof: str, python: str, row: Row, floats: str, program: str = "pretrain.py", faults: Sequence[str] = ()) -> Run:
    """Runs both programs, and compares their values and calls."""
    own_gpt = os.path.join(os.path.dirname(os.path.abspath(shardproof)), "own_gpt")
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = (os.path.join(folder, name) for name in ("theirs", "ours"))
        recorder = ["--flight-recorder", os.path.join(folder, "calls"), "--flight-recorder-format", "json"]
        recorder += ["--flight-recorder-entries", "100000"]
        started = [shardproof, "run", "--no-gpu", "--ranks", str(row.ranks), *recorder, "--", python]
        started += [os.path.join(HERE, "held_gpt.py"), theirs, floats, program, *row.words()]
        for command in (started, [own_gpt, theirs, ours, *faults]):
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LONGEST
            )
            if done.returncode != 0:
                return Run(0, f"exit code {done.returncode} of {os.path.basename(command[0])}\n{done.stdout[-4000:]}", 0, 0, {})
        judged = [shardproof, "compare", ours, "--against", theirs, "--format", "json"]
        done = subprocess.run(judged, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 1):
            return Run(0, done.stdout + done.stderr, 0, 0, {})
        document = json.loads(done.stdout)
        one = document["folders"][0]
        wrong = one["incomparable"] or "; ".join(f"{x['value']} of {x['name']} in step {x['step']} {x['what']}" for x in one["wrong"][:3])
        if document["left_out"]:
            wrong = f"not compared: {document['left_out']}; {wrong}"
        found: Dict[Tuple[str, str, str, str], int] = {}
        same = 0
        for rank in range(row.ranks):
            name = f"nccl_trace_rank_{rank}.json"
            same += differing_calls(calls_of(os.path.join(folder, "calls", name)), calls_of(os.path.join(ours, "calls", name)), found)
        return Run(one["values"], wrong, one["worst_slack"] or 0, same, found)


def main() -> int:
    shardproof, python, *words = sys.argv[1:]
    for row in ROWS:
        if words and not any(word in row.name for word in words):
            continue
        for floats in ("f64", "f32"):
            run = held(shardproof, python, row, floats)
            print(row.name, floats, run.values, run.wrong, run.slack, run.same)
            for key, count in sorted(run.differing.items()):
                print("   ", count, *key, sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())
