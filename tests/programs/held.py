"""Holds our model of a GPT (sim/model) against Megatron's: both train the same small GPT on the same layout, from the same
weights, on the same samples, and each value and each call of three steps is compared.

    held.py SHARDPROOF PYTHON FOLDER [NAME...]     prints the page (held.md), or one of the rows of these names ("tp2 sp")
    held.py --kept SHARDPROOF PYTHON FOLDER [NAME...]     the same, but trains no model of Megatron

FOLDER keeps what Megatron has computed, by release; what is there is not computed again.
Megatron runs under `shardproof run` (held_gpt.py), ours on virtual ranks (own_gpt.cpp, built beside the program), and
`shardproof compare` judges the values. A call is an operation over some ranks, with its elements and their dtype. The calls
of each rank are compared in their order; held_calls.tsv says why some differ.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from typing import Dict, List, NamedTuple, Sequence, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 600  # seconds of one program, and
SECONDS_OF_A_TRAINING = 300  # more of each training of Megatron; both chosen
FLOATS = ("f64", "f32")
OURS, BEGUN = "-ours", "-begun"  # after the name of a folder: ours beside theirs, and theirs until its training has ended
MESSAGES = ("send", "recv")
IN_CI = 4  # rows, the first ones
AT_ONCE = 8  # trainings in one run of Megatron, after which they are kept
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


PAGE = """# Our model of a GPT and Megatron's

Made by [held.py](held.py) with {releases}, without a GPU. In each row both
train the same GPT for three steps on the same layout, from the same weights and on the same samples. How they
are compared, and why these bounds, is in the [manual of this folder](README.md).

- `values` are parameters, losses, gradients, the norm, and the moments of Adam, over all steps, in f64.
- `f64` and `f32` are the floats of a run; a dash was not run. Their numbers are the largest difference of any
  element, as a share of what `shardproof compare` allows: 2^-30 of the largest element of a tensor in f64,
  2^-10 in f32. A row holds up to the bound of {most_f64:.1e} in f64, and of {most_f32:.1f} in f32.
  `DIFFERS` is beyond it; a reason then says which side is right.
- `calls` are those of all ranks that both make alike, in the same order. `explained` has the numbers of the
  reasons, under the table, for which others differ. With `DIFFER` a reason says which side is right.

Experts are `--num-experts 4 --moe-router-topk 2 --disable-bias-linear`. Latent attention is
`--multi-latent-attention --kv-lora-rank 16 --qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 8` with
rotary embeddings. Transformer Engine is `--transformer-impl transformer_engine`, played in plain torch.

```text
{table}
```

```text
{reasons}
```
"""


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

    def folder_in(self, folder: str, floats: str) -> str:
        return os.path.join(folder, floats + re.sub(r"[^A-Za-z0-9]+", "-", " " + self.name))

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
    Row("tp2 sp", f"{ENGINE} {MLA} --qk-layernorm --q-lora-rank 16"),
    Row("tp2 sp pp2", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"),
    Row("dp2 zero", "--calculate-per-token-loss"),
    Row("dp2 zero", "--overlap-grad-reduce --overlap-param-gather"),
    Row("dp2", "--overlap-grad-reduce"),
    Row("dp2 zero", "--overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 10000"),
    Row("pp2 dp2 zero", "--overlap-grad-reduce --overlap-param-gather"),
    Row("pp2 vpp2 dp2 zero", "--overlap-grad-reduce --overlap-param-gather"),
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
    Row("ep2 dp2", EXPERTS + " --moe-router-score-function sigmoid --moe-router-enable-expert-bias --calculate-per-token-loss"),
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
    elements: str  # "as many", "twice as many", "any number of", "exchanged" or "differs"
    when: List[str]
    why: str

    def holds_in(self, row: Row) -> bool:
        words = row.name.split()
        return all((word.lstrip("!") in words) != word.startswith("!") for word in self.when)


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


def exchanged(theirs: List[Made], ours: List[Made], rule: Rule) -> List[Made]:
    """Exchanges two calls of theirs, one after the other, if ours makes them the other way round, as a rule says."""
    rest = list(theirs)
    for place, (first, second) in enumerate(zip(ours, ours[1:])):
        pair = rest[place : place + 2]
        if [x.where for x in pair] == rule.theirs and [first.where, second.where] == rule.ours:
            if [x.call for x in pair] == [second.call, first.call]:
                rest[place : place + 2] = pair[::-1]
    return rest


def without_messages(made: List[Made]) -> List[Made]:
    return [each for each in made if each.call.operation not in MESSAGES]


def first_difference(theirs: List[Made], ours: List[Made]) -> str:
    """Returns how the calls of a rank differ. Messages that are started together have no order, but for those to one rank."""
    lists = [("calls", [without_messages(theirs), without_messages(ours)])]
    for kind in MESSAGES:
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


class Explained(NamedTuple):
    """The calls of both without those that a rule explains."""

    theirs: List[Made]
    ours: List[Made]
    is_used: bool
    broken: str = ""  # how they break the rule


def explained_by(rule: Rule, theirs: List[Made], ours: List[Made]) -> Explained:
    if rule.elements == "exchanged":
        calls = without_messages(theirs)
        rest = exchanged(calls, without_messages(ours), rule)
        return Explained(rest + [each for each in theirs if each.call.operation in MESSAGES], ours, rest != calls)
    counts: Tuple[Dict[str, int], Dict[str, int]] = ({}, {})
    both = without(theirs, rule.theirs, counts[0]), without(ours, rule.ours, counts[1])
    of_theirs, of_ours = (sum(count.values()) for count in counts)
    if rule.elements == "any number of" or of_theirs == of_ours * {"as many": 1, "twice as many": 2}[rule.elements]:
        return Explained(*both, counts != ({}, {}))
    return Explained(*both, True, f"{rule.name}: theirs has {of_theirs} elements, and ours {of_ours}")


def compared_calls(row: Row, folder: str, all_rules: Sequence[Rule]) -> Calls:
    """Compares the calls of all ranks: of what is left beside the explained ones, each must be the same, in the same order."""
    same, explained = 0, set()
    for rank in range(row.ranks):
        theirs, ours = (calls_of(os.path.join(each, f"calls-{rank}.json")) for each in (folder, folder + OURS))
        for rule in (rule for rule in all_rules if rule.holds_in(row)):
            theirs, ours, is_used, broken = explained_by(rule, theirs, ours)
            if broken:
                return Calls(f"rank {rank}: {broken}")
            if is_used:
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
    known: str = ""  # the rule that says why the row differs

    def failure(self) -> str:
        return "" if self.known else f"{self.wrong} {self.calls.wrong}".strip()


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


def train_theirs(shardproof: str, python: str, all_of_them: Sequence[Trained]) -> None:
    """Trains Megatron's models that are not there, several in one run because later ones share what the first imports. A
    training has its folder when it has ended."""
    missing = [each for each in all_of_them if not os.path.exists(each.folder)]
    for first in range(0, len(missing), AT_ONCE):
        at_once = missing[first : first + AT_ONCE]
        begun = [each._replace(folder=each.folder + BEGUN) for each in at_once]
        for each in begun:
            shutil.rmtree(each.folder, ignore_errors=True)
        started = [shardproof, "run", "--precision", "program", "--layouts", "; ".join(x.layout() for x in begun), "--", python]
        command = [*started, os.path.join(HERE, "held_gpt.py")]
        output = output_of(command, LONGEST + SECONDS_OF_A_TRAINING * len(begun))[1]
        for each, of_each in zip(at_once, begun):
            if os.path.exists(os.path.join(of_each.folder, "arguments.json")):
                os.rename(of_each.folder, each.folder)
            else:
                print(f"{each.row.name} in {each.floats} did not end\n{output[-4000:]}", file=sys.stderr, flush=True)


def judged(shardproof: str, trained: Trained, all_rules: Sequence[Rule], faults: Sequence[str] = ()) -> Outcome:
    """Trains our model as Megatron's was trained, and compares both."""
    own_gpt = os.path.join(os.path.dirname(os.path.abspath(shardproof)), "own_gpt")
    ours = trained.folder + OURS
    if not os.path.exists(trained.folder):
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
    calls = compared_calls(trained.row, trained.folder, [rule for rule in all_rules if rule.elements != "differs"])
    outcome = Outcome("; ".join(wrong), one["values"], slack, calls)
    return known(outcome, [rule for rule in all_rules if rule.elements == "differs" and rule.holds_in(trained.row)])


def known(outcome: Outcome, differences: Sequence[Rule]) -> Outcome:
    """Adds the rule that says why a row differs. A row that does not differ as a rule says is wrong, too."""
    for rule in differences:
        sides = ((rule.theirs, outcome.wrong), (rule.ours, outcome.calls.wrong))
        if all(all(word in said for word in words) and bool(words) == bool(said) for words, said in sides):
            return outcome._replace(known=rule.name)
        return outcome._replace(wrong=f"{outcome.wrong} (it does not differ as {rule.name!r} says)")
    return outcome


def line_of(row: Row, outcomes: Dict[str, Outcome], numbers: Dict[str, int]) -> str:
    """Returns what came of a row; its options are in further lines."""
    if not outcomes:
        return "\n".join([f"{row.layout:26}{row.ranks:5}  not run", *wrapped(row.shown(), "  ", "  ")])
    first, differ = next(iter(outcomes.values())), any(found.calls.wrong for found in outcomes.values())
    text = f"{row.layout:26}{row.ranks:5}{first.values:8}"
    for found in (outcomes.get(floats) for floats in FLOATS):
        text += f"{'-' if found is None else 'DIFFERS' if found.wrong else f'{found.slack:.1e}':>9}"
    names = [*first.calls.explained, *filter(None, [first.known])]
    explained = " ".join(str(numbers[name]) for name in names)
    text += f"{'DIFFER' if differ else format(first.calls.same, ','):>8}  {explained}"
    return "\n".join([text, *wrapped(row.shown(), "  ", "  ")])


def wrapped(text: str, first: str, further: str) -> List[str]:
    return textwrap.wrap(
        text, 106, initial_indent=first, subsequent_indent=further, break_on_hyphens=False, break_long_words=False
    )


def text_of(number: int, rule: Rule) -> str:
    sides = [(" and ".join(dict.fromkeys(x.split()[0] for x in side)) or "none") for side in (rule.theirs, rule.ours)]
    how = rule.elements if rule.elements in ("exchanged", "differs") else f"{rule.elements} elements"
    text = f"{rule.name}, {how}: {rule.why}. Theirs: {sides[0]}. Ours: {sides[1]}."
    return "\n".join(wrapped(text, f"{number}. ", "   "))


def page(rows: Dict[Row, Dict[str, Outcome]], releases: str, all_rules: Sequence[Rule]) -> str:
    """Returns the text of held.md."""
    numbers = {rule.name: number for number, rule in enumerate(all_rules, 1)}
    head = f"{'layout, options':26}{'ranks':>5}{'values':>8}{'f64':>9}{'f32':>9}{'calls':>8}  explained"
    table = "\n".join([head, *(line_of(row, outcomes, numbers) for row, outcomes in rows.items())])
    reasons = "\n".join(text_of(numbers[rule.name], rule) for rule in all_rules)
    return PAGE.format(
        releases=releases, table=table, reasons=reasons, most_f64=MOST_SLACK["f64"], most_f32=MOST_SLACK["f32"]
    )


def trainings(rows: Sequence[Row], all_floats: Sequence[str], folder: str) -> List[Trained]:
    return [Trained(row, floats, row.folder_in(folder, floats)) for floats in all_floats for row in rows]


def held(shardproof: str, all_of_them: Sequence[Trained]) -> Dict[Row, Dict[str, Outcome]]:
    """Holds our model against Megatron's trainings."""
    all_rules = rules()
    outcomes: Dict[Row, Dict[str, Outcome]] = {}
    for each in all_of_them:
        outcome = judged(shardproof, each, all_rules)
        outcomes.setdefault(each.row, {})[each.floats] = outcome
        if outcome.failure():
            print(f"{each.row.name} in {each.floats}: {outcome.failure()}", file=sys.stderr, flush=True)
    return outcomes


def planted(shardproof: str, python: str, folder: str) -> str:
    """Plants a mistake in each of both models. Returns what is wrong with what is said of them."""
    row = ROWS[0]
    trained = [Trained(row, "f64", row.folder_in(folder, "f64")), Trained(row, "f64", os.path.join(folder, MISTAKE), MISTAKE)]
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
        all_trainings = trainings(rows, floats, folder)
        train_theirs(shardproof, python, all_trainings)
        outcomes = held(shardproof, all_trainings)
        wrong = [
            f"{row.name}: {outcome.failure()}"
            for row, of_floats in outcomes.items()
            for outcome in of_floats.values()
            if outcome.failure()
        ]
        return "\n".join([*wrong, *filter(None, [planted(shardproof, python, folder)])])


def releases_of(python: str) -> str:
    """Returns what is compared with: "megatron-core 0.19.2 and torch 2.15.0"."""
    code = "import importlib.metadata as m; print(*(m.version(x).partition('+')[0] for x in ('megatron-core', 'torch')))"
    return "megatron-core {} and torch {}".format(*output_of([python, "-c", code])[1].split())


def main() -> int:
    trains = sys.argv[1] != "--kept"
    shardproof, python, folder, *names = sys.argv[1 if trains else 2 :]
    releases = releases_of(python)
    rows = [row for row in ROWS if not names or row.name in names]
    kept = os.path.join(folder, releases.replace(" ", "-"))
    os.makedirs(kept, exist_ok=True)
    all_trainings = trainings(rows, FLOATS, kept)
    if trains:
        train_theirs(shardproof, python, all_trainings)
    outcomes = held(shardproof, [each for each in all_trainings if trains or os.path.exists(each.folder)])
    print(page({row: outcomes.get(row, {}) for row in rows}, releases, rules()), end="")
    return int(any(outcome.failure() for each in outcomes.values() for outcome in each.values()))


if __name__ == "__main__":
    sys.exit(main())
