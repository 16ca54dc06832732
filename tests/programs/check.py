"""Runs the programs of this folder as virtual ranks, and checks what they compute and what is reported of them.

    check.py SHARDPROOF PYTHON [WORD...]

PYTHON is an interpreter with what environment.py installs. Without a word, the checks run that CI has time for: of each
kind of check one or two. With the word `all` all run. With others those run whose name has one of them or whose part is
one; with `all` and `mistakes` all mistakes of mistakes.py are made. Three checks run at a time, because each waits for
processes at times. A table at the end has the seconds of each part.

  layouts   tiny_gpt.py on layouts: losses and norms are those of one rank
  gloo      the same over Gloo, without virtual ranks: the same bits
  seeds     the same under other schedules: the same bits and the same run_hash
  pretrain  Megatron's own training loop: losses are those of one rank, and calls carry what its arguments ask for
  compare   values of layouts are those of one rank, and mistakes in Megatron are named (mistakes.py)
  held      our model of a GPT is Megatron's: values and calls (held.py); with the word `held` or `all` all rows, else four
  exam      faults that are planted in tiny_gpt.py on a layout are noticed
  marked    marked_test.py: tests on layouts pass under pytest, and fail by what is wrong with them
  page      releases.py writes a page of what it has found
  tests     megatron_tests.py tells how made_up_tests.py end: passed, failed by kinds, skipped, and stopped
  wheel     wheel.py: a fresh environment with the wheel gives verdicts
  hangs     hangs.py: each mistake is reported with its line, `inspect` names its ranks, and the healthy twins are not reported
  torch     programs that check themselves: DDP, FSDP2, DTensor, pipelines, groups, calls, threads, tensors and children;
            engine.py holds the stand-in for Transformer Engine against formulas

No program over torch.distributed can race here: a work says that it is done only after it was waited for, and messages
name their sender. So the part `seeds` shows that schedules change nothing.
"""

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import held
import published

HERE = os.path.dirname(os.path.abspath(__file__))
LAYOUTS = (
    (2, "--tp 2"),
    (2, "--pp 2"),
    (2, "--zero"),
    (2, "--pp 2 --vpp 2"),
    (4, "--tp 2 --sp --pp 2"),
    (16, "--tp 2 --sp --pp 4 --zero"),
    (2, "--experts 4 --ep 2"),
    (2, "--experts 4 --tp 2 --sp --etp 2"),
    (8, "--experts 4 --tp 2 --sp --pp 2 --ep 2 --etp 1 --dispatcher alltoall --zero"),
)
OVER_GLOO = ("--tp 2", "--pp 2", "--zero")
LAYOUTS_IN_CI = ("--tp 2", LAYOUTS[5][1], LAYOUTS[-1][1])
TRAININGS = (
    (2, "--tensor-model-parallel-size 2 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"),
    (4, "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1"),
    (4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer"),
)
EXPERTS = "--num-experts 4 --moe-router-topk 2 --expert-model-parallel-size 2 --disable-bias-linear --use-distributed-optimizer"
OVERLAPPED = EXPERTS + " --moe-token-dispatcher-type alltoall --overlap-grad-reduce --overlap-param-gather"
OF_EXPERTS = "--num-experts 4 --moe-router-topk 2 --disable-bias-linear --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.1"
ENGINE = "--transformer-impl transformer_engine"
COMPARED = (
    ("pretrain --swiglu", "tp2 sp pp2 zero; dp2 zero --bf16; pp2 vpp2"),
    ("pretrain " + OF_EXPERTS, "tp2 sp ep2 etp1 zero; ep2 --moe-token-dispatcher-type alltoall"),
    ("pretrain", f"tp2 sp zero {ENGINE}; cp2 {ENGINE}; cp2 pp2 zero --cp-comm-type a2a {ENGINE}"),
)
OTHER_LAYERS = "ranks have other layers of the module than the reference"
WATCHED = (  # programs, layouts that hold, and why some values of their modules are not compared
    ("tiny_gpt", "tp2 sp; pp2; pp2 vpp2; dp2", (OTHER_LAYERS,)),
    ("tiny_gpt --experts 4", "ep2", ("tokens are sent to its experts", "no rank has it")),
    ("pretrain --swiglu " + ENGINE, "tp2; cp2; cp2 tp2 sp zero", ()),
)
FIRST_MODULES = (  # a mistake with its layout and what the program gets, and the first module that differs
    ("tp2 --mistake bias_of_every_rank", "", r"self_attention\.linear_proj gives \[1\] .*: it is 2 \(tp is 2\) times the right one"),
    ("cp2 --mistake unscaled_merge", ENGINE, r"self_attention\.core_attention gives in step 0, microbatch 0, on ranks 0, 1: "),
    ("ep2 --mistake reversed_experts", OF_EXPERTS, r"mlp gives in step 0, microbatch 0, on rank 0: "),
)
PREDICTIONS = "pretrain --mtp-num-layers 1 --position-embedding-type rope --normalization RMSNorm"  # on two stages
RECORDED = (
    ("pretrain", "--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer", ""),
    (
        "mistakes",
        "--tensor-model-parallel-size 2 --sequence-parallel --mistake no_mark",
        "decoder.final_layernorm.bias in step 0 on ranks 0, 1: each rank holds its own term: the sum over ranks 0, 1 is missing",
    ),
)
AGAINST_WHOLE = (
    (2, "ddp", ""),
    (2, "ddp --optimizer SGD", ""),
    (2, "fsdp2", ""),
    (4, "dtensor", ""),
    (2, "ddp --mistake twice", "down.bias in step 0 on ranks 0, 1: it is 2 times"),
    (2, "fsdp2 --mistake other_beta", "the exp_avg_sq of norm.weight after step 0 on rank 1: it is 10 times"),
)
MADE_UP = (  # what is said of made_up_tests.py: counts of the table, and what is told beside it
    "| all | 12 | 4 | 4 | 1 | 3 | 50 % | 1 | 0 | 0 | 1 | 2 |",
    "run again: tests/unit_tests/optimizer/test_made_up.py::test_fails_behind_it",
    "started again after tests/unit_tests/optimizer/test_made_up.py::test_stops",
    "started again after tests/unit_tests/optimizer/test_made_up.py::test_takes_too_long[1]",
    "test_fails_on_one_rank | AssertionError",
)
FOUND = {  # by releases.py: what is said of two layouts, and rows of the page
    "0.12.3": {"dense layers": {"tp2": "holds", "pp2": "refused: it does not import"}},
    "0.19.2": {"dense layers": {"tp2": "wrong: the loss in step 0: it differs", "pp2": "refused: it does not import"}},
}
ROWS = ("| tp2 | holds | WRONG 1 |", "| pp2 | refused 2 | refused 2 |", "1. wrong: the loss in step 0: it differs")
EXAMINED = ("tp2 sp", "tiny_gpt", 6)  # layouts, program, faults
NAMED = "dp2; dp4"  # layouts of named_values.py
MARKED = {  # by the mistake of marked_test.py: what the test that fails says
    "": "",
    "no_sum": r"tp2 pp2 dp1: the value of layer 0 in step 0 on ranks 0, 1: each rank holds its own term: the sum over tp .*missing",
    "factor": r"tp2 dp2: the gradient of down.bias in step 0 on ranks 0, 1, 2, 3: it is 2 \(tp, dp is 2\) times the right one",
    "stuck": r"tp2 pp2 dp1: unmatched_send: rank 0 .*\n.*\n  rank 0 waits in send at 'test_layers' \(.*marked_test.py:\d+\)",
    "silent": "nothing compared: the test",
    "no_word": "refused: --layouts: 'xp2' in",
}
IN_CI = (  # of mistakes.py
    "no_mark no_sum_of_embeddings twice kept_gradients norm_of_a_stage other_order_of_buckets other_stride_of_experts"
).split()
CHECK_THEMSELVES = (
    *((name, ranks) for name in ("ddp", "fsdp2", "dtensor", "pipeline") for ranks in (2, 4)),
    ("calls", 4),
    ("cuda_programs", 2),
    ("engine", 4),
    ("engine defects", 4),
    ("groups", 4),
    ("users", 2),
    ("not_served", 3),
    ("threads turns", 2),
    ("own_ranks", 2),
    ("children", 2),
    ("tensors", 2),
    ("by_torch", 2),
)
SEEDS = 10  # of each schedule
STEPS = 3  # of mistakes
LONGEST = 600  # seconds of one program; chosen
TOLERANCE = 2e-5  # of f32 over two steps; chosen


class Check(NamedTuple):
    part: str
    name: str
    run: Callable[[], str]  # returns what is wrong; nothing if all is right
    is_of_ci: bool = True  # it runs where no word chooses checks


def program(words: str) -> List[str]:
    """Returns a program of this folder with its arguments."""
    name, *arguments = words.split()
    return [os.path.join(HERE, name + ".py"), *arguments]


def run(ranks: int, words: str, options: str = "") -> Tuple[int, str]:
    """Runs a program as virtual ranks, and returns the exit code and what was written."""
    shardproof, python = sys.argv[1:3]
    try:
        done = subprocess.run(
            [shardproof, "run", "--no-gpu", "--ranks", str(ranks), *options.split(), "--", python, *program(words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired as late:
        return 124, f"no end after {LONGEST} s\n{late.stdout}"
    return done.returncode, done.stdout


def numbers(output: str) -> List[float]:
    """Returns the losses and norms of all steps."""
    found = re.findall(r"step \d+: loss (\S+), norm (\S+)|lm loss: (\S+) .*grad norm: (\S+)", output)
    return [float(x) for line in found for x in line if x]


def compared(layout: "Reference", expected: "Reference") -> str:
    """Returns what is wrong with a layout; nothing if it trains as one rank does."""
    code, output = layout.result()
    found, wanted = numbers(output), numbers(expected.result()[1])
    if code != 0 or "\nwarning" in output:
        return f"exit code {code}\n{output[-2000:]}"
    if len(found) != len(wanted) or not wanted:
        return f"{len(found)} numbers in place of {len(wanted)}"
    differing = [(x, y) for x, y in zip(found, wanted) if abs(x - y) > TOLERANCE * abs(y)]
    return f"{differing[0][0]} in place of {differing[0][1]}" if differing else ""


def carried(training: "Reference", warnings: int = 0) -> str:
    """Returns what is wrong with what the calls of a training carry; `warnings` operations carry something else."""
    found = re.search(r"^calls   (\d+) of (\d+) operations? carr.*\n.*\n((?:warning .*\n)*)", training.result()[1], re.M)
    if found is None:
        return f"its calls are not judged\n{training.result()[1][-2000:]}"
    equal, judged, said = int(found[1]), int(found[2]), found[3]
    as_expected = judged - equal == warnings == said.count("\n") == said.count("2 times as many")
    return "" if as_expected and equal > 0 else found[0]


def gloo_output(ranks: int, words: str, options: Sequence[str] = ()) -> str:
    """Runs a program as ranks over Gloo, and returns what they write."""
    started = []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for rank in range(ranks):
        place = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        started.append(
            subprocess.Popen(
                [sys.argv[2], *program("without"), *options, *program(words)],
                env={**os.environ, **place, "TORCHDYNAMO_DISABLE": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return "".join(rank.communicate(timeout=LONGEST)[0] for rank in started)


def over_gloo(layout: "Reference") -> str:
    """Returns how two ranks over Gloo differ from two virtual ones."""
    output = gloo_output(2, layout.words)
    found, wanted = numbers(layout.result()[1]), numbers(output)
    if not wanted:
        return f"no numbers over Gloo\n{output[-2000:]}"
    return "" if found == wanted else f"{found} in place of {wanted}"


def of_a_seed(options: str, expected: "Reference") -> str:
    """Returns how a run under another schedule differs."""
    documents = []
    for code, output in (run(2, "tiny_gpt --pp 2", options + " --format json"), expected.result()):
        if code != 0:
            return f"exit code {code}\n{output[-2000:]}"
        documents.append((json.loads(output[output.index("\n{") :])["run_hash"], numbers(output)))
    return "" if documents[0] == documents[1] else f"{documents[0]} in place of {documents[1]}"


def lines_of_mistakes() -> Dict[str, int]:
    """Returns the line of each kind's mistake."""
    kind, lines = "", {}
    with open(program("hangs")[0], encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("def "):
                kind = line[4 : line.index("(")]
            if "# here" in line:
                lines[kind] = number
    return lines


# Whom `inspect` names from the dumps, where that is not rank 1. Dumps do not tell which of two ranks that wait for each other is
# wrong. They have no values, and calls that ended say nothing of a wait that was left out.
NAMED_FROM_DUMPS: Dict[str, Tuple[int, ...]] = {
    "crossed_groups": (0, 1),
    "send_without_recv": (0, 1),
    "branch_of_rank_0": (0,),
    "other_dtype": (0,),
    "group_not_by_all": (2,),
    "forgotten_wait": (),
    "other_order": (),
}


def named_from_dumps(kind: str, folder: str) -> str:
    """Returns how `inspect` names other ranks than it should."""
    command = [sys.argv[1], "inspect", folder, "--format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=LONGEST)
    named = tuple(suspect["rank"] for suspect in json.loads(done.stdout)["suspects"])
    expected = NAMED_FROM_DUMPS.get(kind, (1,))
    return "" if named == expected else f"from the dumps ranks {named} in place of {expected}\n{done.stdout}"


def hang(kind: str, line: int) -> str:
    """Returns what is wrong with the report of a kind of mistake, or with whom its dumps name."""
    with tempfile.TemporaryDirectory() as folder:
        code, output = run(3, "hangs " + kind, f"--flight-recorder {folder}")
        other = named_from_dumps(kind, folder)
    if other:
        return other
    is_warning = kind == "other_order"
    named = "rank 1: its process: it is gone" if kind == "killed_process" else f"hangs.py:{line}"
    if code != (0 if is_warning else 3) or named not in output:
        return f"exit code {code}, or '{named}' is not in the report\n{output}"
    return "no warning" if is_warning and "warning other_lines" not in output else ""


def compared_values(options: Sequence[str], words: str) -> Tuple[int, str]:
    """Runs a program on several layouts, whose values are compared."""
    command = [*sys.argv[1:2], "run", *options, "--", sys.argv[2], *program(words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=LONGEST)
    return done.returncode, done.stdout + (done.stderr[-4000:] if done.returncode not in (0, 1) else "")


def same_values(layouts: str, words: str, left_out: str = "") -> str:
    """Returns what is wrong with what is said of right layouts; `left_out` is the parameter that is not compared."""
    code, output = compared_values(("--layouts", layouts), words)
    found = re.search(r"^left out .*: (.*)$", output, re.M)
    return "" if code == 0 and (found[1] if found else "") == left_out else f"exit code {code}\n{output}"


def watched(words: str, layouts: str, reasons: Sequence[str]) -> str:
    """Returns what is wrong with what is said of the modules of right layouts."""
    code, output = compared_values(("--layouts", layouts, "--watch", "*", "--format", "json"), words)
    if code != 0:
        return f"exit code {code}\n{output}"
    for layout in json.loads(output)["layouts"]:
        rows = layout["watched"]["values"]
        wrong = [row for row in rows if row["state"] != "agrees" and row["what"] not in reasons]
        if wrong or not any(row["state"] == "agrees" for row in rows):
            return f"{layout['name']}: {len(wrong)} of {len(rows)} values, such as {wrong[:1]}"
    return ""


def first_module(layout: str, words: str, first: str) -> str:
    """Returns what is wrong with the first module that is said to differ in a training with a mistake."""
    code, output = compared_values(("--layouts", layout, "--watch", "*"), "mistakes " + words)
    is_named = re.search(r"^  first +what decoder\.layers\.0\." + first, output, re.M)
    return "" if code == 1 and is_named else f"exit code {code}\n{output}"


def shrunk() -> str:
    """Returns what is wrong with the smallest run that has the mistake of a layout."""
    layouts = "pp2; tp2 sp zero --mistake no_mark"
    code, output = compared_values(("--shrink", "--layouts", layouts), "mistakes --num-layers 2 --global-batch-size 2")
    last = output[output.find("\nshrunk ") :]
    is_smallest = " to tp2 sp --mistake no_mark with --global-batch-size 1 --num-layers 1 on 2 ranks:" in last
    return "" if code == 1 and is_smallest and "the sum over tp (ranks 0, 1) is missing" in last else f"exit code {code}\n{output}"


def own_names() -> str:
    """Returns what is wrong with what is said of a value that only a layout has."""
    code, output = compared_values(("--layouts", "dp2"), "named_values own_names")
    is_told = "dp2: the value of rank 1 in step 0: the reference does not have it" in output
    return "" if code == 1 and is_told else f"exit code {code}\n{output}"


def in_floats_of_the_program() -> str:
    """Returns what is wrong with what is said of bf16: a right layout, and a wrong one whose factor is beyond rounding."""
    layouts = "tp2 sp; tp2 --mistake half"
    code, output = compared_values(("--precision", "program", "--layouts", layouts), "mistakes --bf16")
    is_right = code == 1 and "falsified: 1 of 2 layouts" in output and "ranks 0, 1: it is 1/2 (tp is 2) of" in output
    return "" if is_right else f"exit code {code}\n{output}"


def against_whole(ranks: int, how: str, wrong: str) -> str:
    """Returns what is wrong with what is said of a divided model, held against the whole one."""
    code, output = compared_values(("--ranks", str(ranks), "--against", "--how whole"), "trained --how " + how)
    return "" if code == (1 if wrong else 0) and wrong in output else f"exit code {code}\n{output}"


def recorded(words: str, options: str, wrong: str) -> str:
    """Returns what is wrong with what `compare` says of values that two ranks have written, held against those of one."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = (os.path.join(folder, name) for name in ("one", "two"))
        written = gloo_output(1, words, ("--record", one)) + gloo_output(2, f"{words} {options}", ("--record", two))
        command = [sys.argv[1], "compare", two, "--against", one]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    is_right = done.returncode == (1 if wrong else 0) and wrong in done.stdout
    return "" if is_right else f"exit code {done.returncode}\n{done.stdout}{written[-2000:]}"


def mistakes(all_of_them: bool) -> str:
    """Returns what is wrong with how mistakes in Megatron are found, and with what is said of them and of their twins."""
    rows = [row for row in published.rows_of(sys.argv[2]) if all_of_them or row["name"] in IN_CI]
    verdicts = published.verdicts(sys.argv[1], sys.argv[2], rows, STEPS)
    return "\n".join(published.told(verdict) for verdict in verdicts if verdict.failures)


def exam(layouts: str, words: str, most: int) -> str:
    """Returns what is wrong with an exam in which so many faults are planted: one is missed, or none is compared."""
    command = [sys.argv[1], "exam", "--layouts", layouts, "--most-faults", str(most), "--format", "json", "--", sys.argv[2]]
    done = subprocess.run(
        [*command, *program(words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=LONGEST
    )
    try:
        document = json.loads(done.stdout)
        is_right = done.returncode == document["missed"] == document["unmet"] == 0 and document["planted"] == most
        is_right = is_right and document["noticed"]["comparison"] > 0 and document["noticed"]["calls"] > 0
    except (ValueError, KeyError):
        is_right = False
    return "" if is_right else f"exit code {done.returncode}\n{done.stdout}{done.stderr[-4000:]}"


def marked(mistake: str) -> str:
    """Returns what is wrong with what pytest says of tests on layouts."""
    client = os.path.join(HERE, "..", "..", "verify", "python")
    chosen = {"": "test", "factor": "test_training"}.get(mistake, "test_layers")
    done = subprocess.run(
        [sys.argv[2], "-m", "pytest", "-p", "no:cacheprovider", *program("marked_test"), "-k", chosen],
        env={**os.environ, "SHARDPROOF": os.path.abspath(sys.argv[1]), "PYTHONPATH": client, "MISTAKE": mistake},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    is_told = re.search("^" + MARKED[mistake], done.stdout, re.M) and "Traceback" not in done.stdout
    return "" if done.returncode == (1 if mistake else 0) and is_told else f"exit code {done.returncode}\n{done.stdout}"


def made_up_tests() -> str:
    """Returns what is wrong with what is said of tests of a made-up checkout."""
    with tempfile.TemporaryDirectory() as folder:
        tests = os.path.join(folder, "checkout", "tests", "unit_tests", "optimizer")
        os.makedirs(tests)
        shutil.copy(program("made_up_tests")[0], os.path.join(tests, "test_made_up.py"))
        words = ["--ranks", "2", "--longest", "30", *sys.argv[1:3], os.path.join(folder, "checkout"), os.path.join(folder, "out")]
        command = [sys.executable, *program("megatron_tests"), *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LONGEST)
    missing = [said for said in MADE_UP if said not in done.stdout]
    return "" if done.returncode == 1 and not missing else f"exit code {done.returncode}, without {missing}\n{done.stdout}"


def page_of_releases() -> str:
    """Returns what is wrong with the page of made-up results."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
            json.dump({"torch": "2", "results": FOUND}, file)
        command = [sys.executable, *program("releases"), "--page", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    is_right = done.returncode == 0 and all(row in done.stdout for row in ROWS)
    return "" if is_right else f"exit code {done.returncode}\n{done.stdout}"


def wheel() -> str:
    """Returns what is wrong with the wheel in a fresh environment."""
    command = [sys.executable, *program("wheel"), *sys.argv[1:3]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LONGEST)
    return "" if done.returncode == 0 and done.stdout.startswith("wheel: ok") else f"exit code {done.returncode}\n{done.stdout}"


def silent(ranks: int, words: str) -> str:
    """Returns what is wrong with the report of a program in which nothing is wrong."""
    code, output = run(ranks, words)
    return "" if code == 0 and "\nwarning" not in output else f"exit code {code}\n{output[-4000:]}"


def refused_threads(words: str) -> str:
    code, output = run(2, words)
    # Ranks that raise the same are one finding, so it names one rank or both.
    is_told = re.search(r"guest_raised: ranks? .*NotServed: calls of two threads at once: thread '", output)
    names_both = "thread 'saver' at 'reduced'" in output and "thread 'MainThread' at 'reduced'" in output
    return "" if code == 3 and is_told and names_both else f"exit code {code}\n{output[-4000:]}"


def refused_child() -> str:
    code, output = run(2, "children call")
    is_told = re.search(r"guest_raised: rank (\d): its program: NotServed: a process that rank \1 has forked", output)
    return "" if code == 3 and is_told else f"exit code {code}\n{output[-4000:]}"


class Reference:
    """A run that several checks look at. It is made once, when it is first asked for."""

    def __init__(self, ranks: int, words: str, options: str = "") -> None:
        self.words = words
        self._given = (ranks, words, options)
        self._lock = threading.Lock()
        self._made: Optional[Tuple[int, str]] = None

    def result(self) -> Tuple[int, str]:
        with self._lock:
            if self._made is None:
                self._made = run(*self._given)
            return self._made


def all_checks() -> List[Check]:
    dense, experts, training = (Reference(1, words) for words in ("tiny_gpt", "tiny_gpt --experts 4", "pretrain"))
    first = Reference(2, "tiny_gpt --pp 2", "--format json")
    checks = []
    layouts = {words: Reference(ranks, "tiny_gpt " + words) for ranks, words in LAYOUTS}
    for words, layout in layouts.items():
        one = experts if "experts" in words else dense
        checks.append(Check("layouts", "tiny_gpt " + words, lambda x=layout, o=one: compared(x, o), words in LAYOUTS_IN_CI))
    for words in OVER_GLOO:
        checks.append(Check("gloo", "tiny_gpt " + words, lambda x=layouts[words]: over_gloo(x), words in LAYOUTS_IN_CI))
    for number in range(2 * SEEDS):
        options = f"--schedule {('uniform', 'pct')[number % 2]} --schedule-seed {number // 2 + 1}"
        checks.append(Check("seeds", options, lambda o=options: of_a_seed(o, first), number < 2))
    for ranks, words in TRAININGS:
        one = Reference(ranks, "pretrain " + words)
        is_of_ci = words == TRAININGS[-1][1]
        checks.append(Check("pretrain", one.words, lambda x=one: compared(x, training) or carried(x), is_of_ci))
    # Without overlap each of the two optimizers gathers the parameters of both.
    for ranks, words, warnings in ((4, OVERLAPPED, 0), (4, EXPERTS, 2)):
        one = Reference(ranks, "pretrain " + words)
        checks.append(Check("pretrain", one.words, lambda x=one, w=warnings: carried(x, w)))
    for words, layouts in COMPARED:
        checks.append(Check("compare", layouts, lambda w=words, x=layouts: same_values(x, w), words == COMPARED[0][0]))
    told = "output_layer.weight"  # of the last stage, whose copy of the embedding has no name in a checkpoint
    checks.append(Check("compare", "predictions", lambda: same_values("tp2 sp pp2 zero", PREDICTIONS, told), False))
    checks.append(Check("compare", "named_values", lambda: same_values(NAMED, "named_values"), False))
    checks.append(Check("compare", "named_values own_names", own_names))
    checks.append(Check("compare", "shrunk", shrunk))
    for words, layouts, reasons in WATCHED:
        is_of_ci = words == WATCHED[-1][0]
        checks.append(Check("compare", "watched " + layouts, lambda w=words, x=layouts, r=reasons: watched(w, x, r), is_of_ci))
    for differing, words, module in FIRST_MODULES:
        is_of_ci = module == FIRST_MODULES[0][2]
        checks.append(
            Check("compare", "watched " + differing, lambda x=differing, w=words, m=module: first_module(x, w, m), is_of_ci)
        )
    for ranks, how, wrong in AGAINST_WHOLE:
        checks.append(Check("compare", "trained --how " + how, lambda r=ranks, h=how, w=wrong: against_whole(r, h, w), "fsdp2" in how))
    checks.append(Check("compare", "in bf16", in_floats_of_the_program, False))
    for words, options, wrong in RECORDED:
        checks.append(Check("compare", "recorded " + words, lambda w=words, o=options, x=wrong: recorded(w, o, x)))
    checks.append(Check("compare", "mistakes", lambda: mistakes(not {"all", "mistakes"}.isdisjoint(sys.argv[3:]))))
    checks.append(Check("held", "held", lambda: held.checked(*sys.argv[1:3], bool({"held", "all"} & set(sys.argv[3:])))))
    checks.append(Check("exam", "exam of tiny_gpt", lambda: exam(*EXAMINED)))
    checks.append(Check("wheel", "wheel", wheel))
    checks.append(Check("page", "page of releases", page_of_releases))
    checks.append(Check("tests", "made_up_tests", made_up_tests, False))
    for mistake in MARKED:
        checks.append(Check("marked", f"marked_test {mistake}".rstrip(), lambda m=mistake: marked(m), mistake in ("", "no_sum")))
    for kind, line in lines_of_mistakes().items():
        checks.append(Check("hangs", "hangs " + kind, lambda k=kind, n=line: hang(k, n)))
    checks.append(Check("hangs", "hangs --healthy", lambda: silent(3, "hangs --healthy")))
    most = dict(CHECK_THEMSELVES)
    for name, ranks in CHECK_THEMSELVES:
        checks.append(Check("torch", f"{name} on {ranks} ranks", lambda n=name, r=ranks: silent(r, n), ranks == most[name]))
    checks.append(Check("torch", "children call", refused_child))
    for words in ("threads at_once", "threads late"):
        checks.append(Check("torch", words, lambda w=words: refused_threads(w)))
    return checks


def timed(check: Check) -> Tuple[Check, str, float]:
    begin = time.monotonic()
    return check, check.run(), time.monotonic() - begin


def is_chosen(check: Check, words: Set[str]) -> bool:
    if not words:
        return check.is_of_ci
    return "all" in words or any(word in check.name or word == check.part for word in words)


def main() -> int:
    words, failed, begin = set(sys.argv[3:]), 0, time.monotonic()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without which each start compiles torch again
    seconds: Dict[str, List[float]] = {}
    chosen = [check for check in all_checks() if is_chosen(check, words)]
    with ThreadPoolExecutor(3) as pool:
        for check, wrong, spent in pool.map(timed, chosen):
            seconds.setdefault(check.part, []).append(spent)
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok':8}{check.name}" + (f": {wrong}" if wrong else ""), flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\n{'part':12}{'checks':>8}{'seconds':>9}")
    for part, spent in seconds.items():
        print(f"{part:12}{len(spent):8}{sum(spent):9.0f}")
    print(f"{failed} failed; {time.monotonic() - begin:.0f} s in all, {used.ru_utime + used.ru_stime:.0f} s of a core")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
