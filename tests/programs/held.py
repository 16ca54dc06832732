"""Holds our model of a GPT (sim/model) against Megatron's: both train the same small GPT on the same layout, from the same
weights, on the same samples, and each value and each call of three steps is compared.

    held.py SHARDPROOF PYTHON [NAME...]      prints the tables of README.md, or the rows of these names ("tp2 sp")

Megatron runs under `shardproof run` (held_gpt.py), ours on virtual ranks (own_gpt.cpp, built beside the program), and
`shardproof compare` judges the values. A call is an operation over some ranks, with its elements and their dtype. The calls
of each rank are compared in their order; held_calls.tsv says why some differ.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from typing import Dict, List, NamedTuple, Sequence, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 600  # seconds of one program, and
SECONDS_OF_A_ROW = 60  # more of each row; both chosen
FLOATS = ("f64", "f32")
OURS = "-ours"  # behind the name of a folder: ours beside theirs
IN_CI = 4  # rows, the first ones
# A value is the end of a chain of additions, of which three steps have fewer than 2^15 in a row (README.md): its error is at
# most as many roundings of the largest element. `compare` has a bound of 2^-30 of it in f64, and of 2^-10 in f32.
MOST_SLACK = {"f64": 2.0 ** (15 - 53 + 30), "f32": 1.0}
LEFT_OUT = {"f32": "main_param of optimizers"}  # which Megatron keeps apart from parameters in f64 alone
MISTAKE, FAULT = "no_mark", "sequence_parallel_grads.sum:skip"  # in theirs, in ours
SAYS = "gradient of decoder.final_layernorm.bias in step 0"
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
MLA = "--multi-latent-attention --rope-type rope --position-embedding-type rope --kv-lora-rank 16 --qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 8"
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

    def shown(self) -> str:
        """Returns the options as a cell of a table."""
        text = self.options
        for option, short in ((EXPERTS, "experts"), (MLA, "latent attention"), (ENGINE, "Transformer Engine")):
            text = text.replace(option, short)
        return text


ROWS = (
    Row("tp2 sp"),
    Row("cp2", ENGINE),
    Row("pp2", "--group-query-attention --num-query-groups 2 --qk-layernorm"),
    Row("ep2 dp2", EXPERTS + " --moe-token-dispatcher-type alltoall"),
    Row("tp2"),
    Row("dp2"),
    Row("pp2 vpp2"),
    Row("pp2 vpp2 dp2 zero", "--untie-embeddings-and-output-weights"),
    Row("tp2 sp pp2 dp2 zero", "--swiglu --normalization RMSNorm"),
    Row("tp4", "--group-query-attention --num-query-groups 2"),
    Row("tp2 sp", "--group-query-attention --num-query-groups 2 --qk-layernorm --add-qkv-bias --disable-bias-linear"),
    Row("tp2 sp", f"{ENGINE} {MLA}"),
    Row("tp2", f"{ENGINE} {MLA} --qk-layernorm --q-lora-rank 16"),
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
    Row("dp2 zero", "--swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --position-embedding-type rope"),
    Row("cp2 tp2 sp", ENGINE + " --cp-comm-type all_gather --position-embedding-type rope"),
    Row("cp2 pp2 dp2 zero", ENGINE + " --cp-comm-type a2a --swiglu"),
    Row("tp2 sp", ENGINE + " --qk-layernorm --normalization RMSNorm"),
    Row("tp2 sp ep2 etp1", ENGINE + " " + EXPERTS + " --moe-grouped-gemm --moe-token-dispatcher-type alltoall"),
)


class Call(NamedTuple):
    """A call of a rank, as both programs make it. Members are sorted, as torch sorts those of its groups; and which whole
    numbers count or choose is a program's choice."""

    operation: str
    members: Tuple[int, ...]  # of its group; of a message, the other rank
    elements: int
    dtype: str


class Made(NamedTuple):
    call: Call
    where: str  # the function that makes it, and the operation


class Rule(NamedTuple):
    """Calls that differ, and why: a line of held_calls.tsv."""

    name: str
    theirs: List[str]
    ours: List[str]
    elements: str  # "as many", "twice as many" or "any number of"
    when: List[str]
    why: str

    def holds_in(self, row: Row) -> bool:
        return set(self.when) <= set(row.name.split())


def rules() -> List[Rule]:
    with open(os.path.join(HERE, "held_calls.tsv"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]

    def parts(cell: str, between: str) -> List[str]:
        return [] if cell == "-" else cell.split(between)

    return [
        Rule(name, parts(theirs, ", "), parts(ours, ", "), elements, parts(when, " "), why)
        for name, theirs, ours, elements, when, why in lines[1:]
    ]


def calls_of(path: str) -> List[Made]:
    """Returns the calls of a rank in groups of several ranks."""
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    return [
        Made(
            Call(operation, tuple(sorted(members)) if peer < 0 else (peer,), count, "whole" if dtype[:1] in "iu" else dtype),
            f"{where} {operation}",
        )
        for operation, members, peer, count, dtype, where, _ in told
        if len(members) > 1
    ]


def without(made: List[Made], explained: Sequence[str], found: Dict[str, int]) -> List[Made]:
    """Leaves out the calls that a rule explains, of which it counts the elements."""
    rest = []
    for each in made:
        if each.where in explained:
            found[each.where] = found.get(each.where, 0) + each.call.elements
        else:
            rest.append(each)
    return rest


def first_difference(theirs: List[Made], ours: List[Made]) -> str:
    """Returns how the calls of a rank differ. Messages that are started together have no order, but for those to one rank."""
    kinds = ("send", "recv")
    lists = [("calls", [[x for x in made if x.call.operation not in kinds] for made in (theirs, ours)])]
    for kind in kinds:
        for peer in sorted({x.call.members for x in theirs + ours if x.call.operation == kind}):
            both = [[x for x in made if x.call.operation == kind and x.call.members == peer] for made in (theirs, ours)]
            lists.append((f"messages ({kind})", both))
    for name, (one, other) in lists:
        for number, (x, y) in enumerate(zip(one, other)):
            if x.call != y.call:
                return f"{name}: number {number} is {x} in theirs and {y} in ours"
        if len(one) != len(other):
            more = (one if len(one) > len(other) else other)[min(len(one), len(other))]
            return f"{name}: theirs has {len(one)}, ours {len(other)}; {more} is the first beyond"
    return ""


class Calls(NamedTuple):
    """What came of comparing the calls of a row."""

    wrong: str = ""
    same: int = 0  # of all ranks, that both make alike
    explained: Tuple[str, ...] = ()  # names of rules that say why others differ


def compared_calls(row: Row, folder: str, all_rules: Sequence[Rule]) -> Calls:
    """Compares the calls of all ranks: of what is left beside the explained ones, each must be the same, in the same order."""
    same, explained = 0, set()
    for rank in range(row.ranks):
        theirs, ours = (calls_of(os.path.join(each, f"calls-{rank}.json")) for each in (folder, folder + OURS))
        for rule in (rule for rule in all_rules if rule.holds_in(row)):
            counts: Tuple[Dict[str, int], Dict[str, int]] = ({}, {})
            theirs, ours = without(theirs, rule.theirs, counts[0]), without(ours, rule.ours, counts[1])
            of_theirs, of_ours = (sum(count.values()) for count in counts)
            if rule.elements != "any number of" and of_theirs != of_ours * {"as many": 1, "twice as many": 2}[rule.elements]:
                return Calls(f"rank {rank}: {rule.name}: theirs has {of_theirs} elements, and ours {of_ours}")
            if counts != ({}, {}):
                explained.add(rule.name)
        differing = first_difference(theirs, ours)
        if differing:
            return Calls(f"rank {rank}: {differing}")
        same += len(theirs)
    return Calls("", same, tuple(rule.name for rule in all_rules if rule.name in explained))


class Outcome(NamedTuple):
    """What came of one row in one kind of floats."""

    wrong: str
    values: int = 0
    slack: float = 0  # the largest share of the bound of `compare` that an error takes
    calls: Calls = Calls()


def output_of(command: Sequence[str], seconds: float = LONGEST) -> Tuple[int, str]:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return 124, f"no end after {seconds} s"
    return done.returncode, done.stdout


class Trained(NamedTuple):
    """A training of Megatron's model that has written into a folder."""

    row: Row
    floats: str  # "f64" or "f32"
    folder: str
    mistake: str = ""  # of mistakes.py

    def layout(self) -> str:
        """Returns it as a layout of --layouts. Only its folder tells that it ran; the verdict about it is of no use."""
        of_mistake = f" --mistake {self.mistake}" if self.mistake else ""
        return f"{self.row.layout} --held {self.folder} --floats {self.floats}{of_mistake} {self.row.options}".strip()


def train_theirs(shardproof: str, python: str, all_of_them: Sequence[Trained]) -> str:
    """Trains Megatron's models, in one run because later ones share what the first imports. Returns what was said."""
    layouts = "; ".join(each.layout() for each in all_of_them)
    started = [shardproof, "run", "--precision", "program", "--layouts", layouts, "--", python]
    return output_of([*started, os.path.join(HERE, "held_gpt.py")], LONGEST + SECONDS_OF_A_ROW * len(all_of_them))[1]


def judged(shardproof: str, trained: Trained, all_rules: Sequence[Rule], faults: Sequence[str] = ()) -> Outcome:
    """Trains our model as Megatron's was trained, and compares both."""
    own_gpt = os.path.join(os.path.dirname(os.path.abspath(shardproof)), "own_gpt")
    ours = trained.folder + OURS
    if not os.path.exists(os.path.join(trained.folder, "arguments.json")):
        return Outcome("Megatron's training did not end")
    code, output = output_of([own_gpt, trained.folder, ours, *faults])
    if code != 0:
        return Outcome(f"exit code {code} of own_gpt\n{output[-4000:]}")
    code, output = output_of([shardproof, "compare", ours, "--against", trained.folder, "--format", "json"])
    if code not in (0, 1):
        return Outcome(output)
    document = json.loads(output)
    (one,) = document["folders"]
    slack = one["worst_slack"] or 0
    wrong = [one["incomparable"]] * bool(one["incomparable"])
    wrong += [f"{x['value']} {x['what']}" for x in one["wrong"][:3]]
    wrong += [f"{name} is not compared" for name in document["left_out"] if name != LEFT_OUT.get(trained.floats)]
    if not wrong and slack > MOST_SLACK[trained.floats]:
        wrong.append(f"an error takes {slack:.2g} of the bound of {trained.floats}")
    calls = compared_calls(trained.row, trained.folder, all_rules)
    return Outcome("; ".join(wrong), one["values"], slack, calls)


def line_of(row: Row, outcomes: Dict[str, Outcome], numbers: Dict[str, int]) -> str:
    """Returns what came of a row; its options are in a second line."""
    first = next(iter(outcomes.values()))
    text = f"{row.layout:26}{row.ranks:5}{first.values:8}"
    for floats in FLOATS:
        found = outcomes.get(floats)
        text += f"{'-' if found is None else 'DIFFERS' if found.wrong else f'{found.slack:.1e}':>9}"
    explained = " ".join(str(numbers[name]) for name in first.calls.explained)
    text += f"{'DIFFER' if first.calls.wrong else format(first.calls.same, ','):>8}  {explained}"
    return text + (f"\n  {row.shown()}" if row.options else "")


def print_tables(rows: Dict[Row, Dict[str, Outcome]], all_rules: Sequence[Rule]) -> None:
    """Prints the tables of README.md."""
    print(f"{'layout, options':26}{'ranks':>5}{'values':>8}{'f64':>9}{'f32':>9}{'calls':>8}  explained")
    numbers = {rule.name: number for number, rule in enumerate(all_rules, 1)}
    for row, outcomes in rows.items():
        print(line_of(row, outcomes, numbers))
    for rule in all_rules:
        sides = [(" and ".join(dict.fromkeys(x.split()[0] for x in side)) or "none") for side in (rule.theirs, rule.ours)]
        text = f"{numbers[rule.name]}. {rule.name}, {rule.elements} elements: {rule.why}. Theirs: {sides[0]}. Ours: {sides[1]}."
        print("\n".join(textwrap.wrap(text, 106, subsequent_indent="   ", break_on_hyphens=False, break_long_words=False)))


def held(shardproof: str, python: str, rows: Sequence[Row], all_floats: Sequence[str], folder: str) -> Dict[Row, Dict[str, Outcome]]:
    """Holds our model against Megatron's in these rows."""
    all_of_them = [
        Trained(row, floats, os.path.join(folder, f"{number}-{floats}")) for floats in all_floats for number, row in enumerate(rows)
    ]
    output, all_rules = train_theirs(shardproof, python, all_of_them), rules()
    outcomes: Dict[Row, Dict[str, Outcome]] = {}
    for each in all_of_them:
        outcome = judged(shardproof, each, all_rules)
        outcomes.setdefault(each.row, {})[each.floats] = outcome
        for wrong in (outcome.wrong, outcome.calls.wrong):
            if wrong:
                print(f"{each.row.name} in {each.floats}: {wrong}", file=sys.stderr, flush=True)
        if outcome.values == 0:
            print(output[-4000:], file=sys.stderr, flush=True)
    return outcomes


def planted(shardproof: str, python: str, folder: str) -> str:
    """Plants a mistake in each of both models. Returns what is wrong with what is said of them."""
    row = ROWS[0]
    trained = [Trained(row, "f64", os.path.join(folder, name), name) for name in ("", MISTAKE)]
    trained[0] = trained[0]._replace(folder=os.path.join(folder, "healthy"))
    train_theirs(shardproof, python, trained)
    all_rules, said = rules(), ""
    for each, faults in ((trained[0], [FAULT]), (trained[1], [])):
        outcome = judged(shardproof, each, all_rules, faults)
        if SAYS not in outcome.wrong or not outcome.calls.wrong:
            said += f"planted {each.mistake or FAULT}: said is {outcome.wrong or 'nothing'}; {outcome.calls.wrong or 'nothing'}\n"
    return said


def checked(shardproof: str, python: str, all_of_them: bool) -> str:
    """Returns what is wrong with our model, or with what is said of planted mistakes."""
    rows, floats = (ROWS, FLOATS) if all_of_them else (ROWS[:IN_CI], FLOATS[:1])
    with tempfile.TemporaryDirectory() as folder:
        outcomes = held(shardproof, python, rows, floats, folder)
        wrong = [
            f"{row.name}: {outcome.wrong} {outcome.calls.wrong}".strip()
            for row, of_floats in outcomes.items()
            for outcome in of_floats.values()
            if outcome.wrong or outcome.calls.wrong
        ]
        return "\n".join([*wrong, *filter(None, [planted(shardproof, python, folder)])])


def main() -> int:
    shardproof, python, *names = sys.argv[1:]
    rows = [row for row in ROWS if not names or row.name in names]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = held(shardproof, python, rows, FLOATS, folder)
    print_tables(outcomes, rules())
    return int(any(outcome.wrong or outcome.calls.wrong for each in outcomes.values() for outcome in each.values()))


if __name__ == "__main__":
    sys.exit(main())
