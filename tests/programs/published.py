"""An exam on real code: mistakes of published kinds are put into the installed Megatron, one a run. Who finds them, what
is said of them, and what a loss curve alone would have shown.

    published.py SHARDPROOF PYTHON [--steps N] [--page FILE] [NAME...]

Shapes  a mistake is a row of mistakes.py with a source; names choose rows, also those without one. Each runs on its
        layout, and is compared with one rank. Its right twin is the same layout, on which the same places are counted.
        Twins of one layout are one run.
Errors  exit code 1 if a mistake is found in another way than its row says, something else is said of it, its place is
        not reached, or a twin is not right.
Exact   the loss curve shows a mistake if a loss of the N steps (20) differs by more than 1 % from that of one rank,
        which is chosen. "names": the first sentence names the cause. "wrong": it names another one.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 3600  # seconds of all layouts of a program; chosen
SEEN = 0.01  # of a loss; chosen
TRAINING = "--lr 0.01 --min-lr 0.01"
MEASURED = re.compile(r"it differs in |it is \S+ in place of |no rank has |its shape is |the reference does not have it|it lacks ")


class Run(NamedTuple):
    """What came of a layout."""

    words: str
    document: Dict[str, Any]
    losses: Dict[int, float]  # by step
    calls: Dict[str, int]  # by place

    @property
    def by(self) -> str:
        findings = [finding["code"] for finding in self.document["findings"]]
        if findings:
            return "program" if all(code in ("guest_raised", "rank_exit") for code in findings) else "calls"
        if self.document["groups"]:
            return "groups"
        return "not found" if self.document["verdict"] == "holds" else "values"

    @property
    def first(self) -> str:
        """What is said first."""
        if self.document["findings"]:
            return str(self.document["findings"][0]["sentence"])
        if self.document["groups"]:
            return str(self.document["groups"][0])
        if self.document["incomparable"]:
            return str(self.document["incomparable"])
        for wrong in self.document["wrong"]:
            ranks = ", ".join(str(rank) for rank in wrong["ranks"])
            return f"{wrong['value']} on rank{'s' if len(wrong['ranks']) > 1 else ''} {ranks}: {wrong['what']}"
        return ""


class Verdict(NamedTuple):
    row: Dict[str, Any]
    by: str
    sentence: str
    cause: str  # yes, no, wrong, or "" where nothing is said
    curve: str
    failures: List[str]


class Training(NamedTuple):
    """What the runs have in common that are compared with one reference."""

    program: str
    options: str


def runs_of(shardproof: str, python: str, training: Training, layouts: Sequence[str], steps: int) -> Dict[str, Run]:
    """Runs a training on layouts, and returns what came of each, and of one rank as ""."""
    words = [os.path.join(HERE, "mistakes.py"), *TRAINING.split(), "--train-iters", str(steps), *training.program.split()]
    command = [shardproof, "run", *training.options.split(), "--layouts", "; ".join(layouts), "--format", "json", "--", python, *words]
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "MISTAKES_FOLDER": folder}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=LONGEST, env=variables
        )
    try:
        documents = {each["name"]: {"groups": [], **each} for each in json.loads(done.stdout)["layouts"]}
    except ValueError:
        documents = {}
    if not documents:
        sys.exit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    losses: Dict[str, Dict[int, float]] = {}
    calls: Dict[str, Dict[str, int]] = {}
    for name, step, loss in re.findall(r"^(.*?) *\| *\d+\| .*iteration +(\d+)/.*lm loss: (\S+)", done.stderr, re.M):
        losses.setdefault(name, {})[int(step)] = float(loss)
    for name, place, count in re.findall(r"^(.*?) *\| *\d+\| planted (\S+): (\d+) calls", done.stderr, re.M):
        of_run = calls.setdefault(name, {})
        of_run[place] = of_run.get(place, 0) + int(count)
    made = {name: Run(name, each, losses.get(name, {}), calls.get(name, {})) for name, each in documents.items()}
    made[""] = Run("", {}, losses.get("reference", {}), {})
    return made


def curve_of(run: Run, reference: Run) -> str:
    if run.document["findings"]:
        return "no end"
    pairs = [(run.losses.get(step), right) for step, right in reference.losses.items()]
    largest = max((abs(own - right) / right if own is not None else 1.0 for own, right in pairs), default=0.0)
    return f"{'seen' if not largest <= SEEN else 'unseen'} {100 * largest:.2g} %"


def cause_of(row: Dict[str, Any], run: Run) -> str:
    if run.by == "not found":
        return ""
    if row["what"] and row["what"] in run.first:
        return "yes"
    return "no" if MEASURED.search(run.first) or run.by == "program" else "wrong"


def verdict_of(row: Dict[str, Any], run: Run, twin: Run, reference: Run) -> Verdict:
    failures = []
    for which, each in (("mistake", run), ("twin", twin)):
        places = each.calls if which == "mistake" else {place: twin.calls.get(place, 0) for place in run.calls}
        if not places or not all(places.values()):
            failures.append(f"the place of the {which} is not reached: {places}")
    if run.by != row["by"]:
        failures.append(f"found by: {run.by}")
    if row["value"] not in run.first or row["what"] not in run.first:
        failures.append(f"'{row['value']}' with '{row['what']}' is not in what is said first")
    if twin.by != "not found":
        failures.append(f"false alarm: {twin.first}")
    return Verdict(row, run.by, run.first, cause_of(row, run), curve_of(run, reference), failures)


def verdicts_of(shardproof: str, python: str, training: Training, rows: Sequence[Dict[str, Any]], steps: int) -> List[Verdict]:
    """Runs the mistakes of one program, and their twins."""
    wrong = {row["name"]: f"{row['layout']} --mistake {row['name']}" for row in rows}
    twins = {row["layout"]: row["layout"] for row in rows}
    for row in rows:
        twins[row["layout"]] += f" --twin {row['name']}"
    made = runs_of(shardproof, python, training, [*wrong.values(), *twins.values()], steps)
    return [verdict_of(row, made[wrong[row["name"]]], made[twins[row["layout"]]], made[""]) for row in rows]


def rows_of(python: str, names: Sequence[str]) -> List[Dict[str, Any]]:
    command = [python, os.path.join(HERE, "mistakes.py"), "--list"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [json.loads(line) for line in listed.splitlines()]
    return [row for row in rows if (row["name"] in names if names else row["source"])]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("shardproof")
    parser.add_argument("python")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--page")
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without which each start compiles torch again
    begin, failed = time.monotonic(), 0
    by_training: Dict[Training, List[Dict[str, Any]]] = {}
    for row in rows_of(given.python, given.names):
        by_training.setdefault(Training(row["program"], row["options"]), []).append(row)
    for training, rows in by_training.items():
        for verdict in verdicts_of(given.shardproof, given.python, training, rows, given.steps):
            failed += bool(verdict.failures)
            print(f"{'FAILED' if verdict.failures else 'ok':7}{verdict.row['name']} ({verdict.row['layout']})", flush=True)
            print(f"       {verdict.by}; {verdict.cause}; {verdict.curve}; {verdict.sentence[:300]}")
            for failure in verdict.failures:
                print(f"       ! {failure}", flush=True)
    print(f"{failed} failed; {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
