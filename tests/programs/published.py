"""An exam on real code: mistakes of published kinds are put into the installed Megatron, one a run. Who finds them, what
is said of them, and what a loss curve alone would have shown.

    published.py SHARDPROOF PYTHON [--steps N] [--results FILE [--page FILE]] [NAME...]

Shapes  a mistake is a row of mistakes.py with a source; names and sources choose rows, also those without one. Each
        runs on its layout, and is compared with one rank. Its right twin is the same layout, on which the same places
        are counted. Twins of one layout are one run. A page has the latest results of a file: to go on after an
        interruption, name the rows that it lacks.
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
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 3600  # seconds of all layouts of a program; chosen
SEEN = 0.01  # of a loss; chosen
MOST_ROWS, AT_A_TIME = 8, 3  # of a comparison, which runs its layouts one after the other; comparisons; chosen
NOT_FOUND, FALSE_ALARM = "not found", "false alarm"
TRAINING = "--lr 0.01 --min-lr 0.01 --clip-grad 0.1 --num-layers 2"
STEPS_OF_TWINS = 3  # those that are compared
MEASURED = re.compile(r"it differs (in|from) |it is \S+ in place of |no rank has |its shape is |the reference does not have it|it lacks ")


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
        return NOT_FOUND if self.document["verdict"] == "holds" else "values"

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
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("w+", prefix="mistakes-") as written:
        variables = {**os.environ, "MISTAKES_FOLDER": folder}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=written, text=True, check=False, timeout=LONGEST, env=variables
        )
        written.seek(0)
        lines = written.read()
    try:
        documents = {each["name"]: {"groups": [], **each} for each in json.loads(done.stdout)["layouts"]}
    except ValueError:
        documents = {}
    if not documents:
        raise RuntimeError(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stdout[-3000:]}\n{lines[-3000:]}")
    losses: Dict[str, Dict[int, float]] = {}
    calls: Dict[str, Dict[str, int]] = {}
    for name, step, loss in re.findall(r"^(.*?) *\| *\d+\| .*iteration +(\d+)/.*lm loss: (\S+)", lines, re.M):
        losses.setdefault(name, {})[int(step)] = float(loss)
    for name, place, count in re.findall(r"^(.*?) *\| *\d+\| planted (\S+): (\d+) calls", lines, re.M):
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


def cause_of(row: Dict[str, Any], by: str, sentence: str) -> str:
    if by == NOT_FOUND:
        return ""
    if row["what"] and row["what"] in sentence:
        return "yes"
    is_known = row["relation"] and row["relation"] in sentence
    return "no" if by in ("calls", "program") or is_known or MEASURED.search(sentence) else "wrong"


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
    cause = cause_of(row, run.by, run.first)
    if cause == "wrong":
        failures.append("the row has nothing of what is said first")
    if twin.by != NOT_FOUND:
        failures.append(f"{FALSE_ALARM}: {twin.first}")
    return Verdict(row, run.by, run.first, cause, curve_of(run, reference), failures)


def verdicts_of(shardproof: str, python: str, training: Training, rows: Sequence[Dict[str, Any]], steps: int) -> List[Verdict]:
    """Runs the mistakes of one training, and their twins."""
    wrong = {row["name"]: f"{row['layout']} --mistake {row['name']}" for row in rows}
    twins = {row["layout"]: f"{row['layout']} --train-iters {STEPS_OF_TWINS}" for row in rows}
    for row in rows:
        twins[row["layout"]] += f" --twin {row['name']}"
    made = runs_of(shardproof, python, training, [*wrong.values(), *twins.values()], steps)
    return [verdict_of(row, made[wrong[row["name"]]], made[twins[row["layout"]]], made[""]) for row in rows]


def batches_of(rows: Sequence[Dict[str, Any]]) -> List[Tuple[Training, List[Dict[str, Any]]]]:
    """Returns rows that are compared with one reference, those of one layout together, and not too many."""
    batches: Dict[Training, List[List[Dict[str, Any]]]] = {}
    for row in sorted(rows, key=lambda row: str(row["layout"])):
        of_training = batches.setdefault(Training(row["program"], row["options"]), [[]])
        if len(of_training[-1]) >= MOST_ROWS and of_training[-1][-1]["layout"] != row["layout"]:
            of_training.append([])
        of_training[-1].append(row)
    return [(training, batch) for training, of_training in batches.items() for batch in of_training]


def verdicts(shardproof: str, python: str, rows: Sequence[Dict[str, Any]], steps: int) -> Iterator[Verdict]:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        running = {
            pool.submit(verdicts_of, shardproof, python, training, batch, steps): batch for training, batch in batches_of(rows)
        }
        for done in as_completed(running):
            try:
                yield from done.result()
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                yield from (Verdict(row, NOT_FOUND, "", "", "no end", [str(error)]) for row in running[done])


def rows_of(python: str) -> List[Dict[str, Any]]:
    command = [python, os.path.join(HERE, "mistakes.py"), "--list"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in listed.splitlines()]


def is_chosen(row: Dict[str, Any], names: Sequence[str]) -> bool:
    return bool({row["name"], row["source"]} & set(names) if names else row["source"])


def release_of(python: str) -> str:
    ask = "import importlib.metadata as m; print('torch', m.version('torch').split('+')[0] + ', megatron-core', m.version('megatron-core'))"
    return subprocess.run([python, "-c", ask], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def columns_of(verdict: Verdict) -> Tuple[str, ...]:
    row = verdict.row
    words = row["layout"].split(" --")[0]
    curve = verdict.curve if verdict.curve == "no end" else verdict.curve.split()[0]
    return row["kind"], row["source"], words, verdict.by, verdict.cause, curve


def table_of(verdicts: Sequence[Verdict]) -> str:
    head = ("what is wrong", "published", "layout", "by", "cause", "curve")
    rows = [head, *(columns_of(verdict) for verdict in verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def score_of(verdicts: Sequence[Verdict]) -> str:
    found = [verdict for verdict in verdicts if verdict.by != NOT_FOUND]
    by = {way: sum(verdict.by == way for verdict in found) for way in ("values", "calls", "groups", "program")}
    causes = {word: sum(verdict.cause == word for verdict in found) for word in ("yes", "no", "wrong")}
    curves = [verdict.curve.split() for verdict in verdicts if verdict.curve != "no end"]
    seen = [sum(float(size) > 100 * least for _, size, _ in curves) for least in (SEEN, SEEN / 10)]
    alarms = sum(any(failure.startswith(FALSE_ALARM) for failure in verdict.failures) for verdict in verdicts)
    right = {(verdict.row["layout"], verdict.row["program"], verdict.row["options"]) for verdict in verdicts}
    return (
        f"found         {len(found)} of {len(verdicts)}: {', '.join(f'{count} by {way}' for way, count in by.items() if count)}\n"
        f"cause         named {causes['yes']}, not named {causes['no']}, another one named {causes['wrong']}\n"
        f"curve         {seen[0]} differ by more than 1 %, {seen[1]} by more than 0.1 %; {len(verdicts) - len(curves)} do not end\n"
        f"false alarms  {alarms} on {len(right)} right layouts\n"
    )


PAGE = """# Published mistakes, put into Megatron

Each row is a mistake of a published kind. A patch puts it into the installed Megatron while
[pretrain.py](pretrain.py) runs, and `shardproof run --layouts` compares a layout with one rank. Its right
twin is the same layout, in which the same functions run unchanged: a report about it is a false alarm. The
patches are in [mistakes.py](mistakes.py), [wrong_layers.py](wrong_layers.py),
[wrong_updates.py](wrong_updates.py) and [reloaded.py](reloaded.py).

- `published`: an issue, a commit that mends it (a hash of Megatron-LM), a project or a paper. MLM is
  Megatron-LM, TE Transformer Engine, DS DeepSpeed, PT PyTorch.
- `by`: what detects the mistake. `values`: a loss, gradient, norm, parameter or state is not that of one
  rank. `calls`: calls do not match, or ranks cannot go on. `groups`: a group has other members than Megatron
  gives it. `program`: the program raises.
- `cause`: `yes` if the first sentence names the cause, such as the missing sum and its ranks, or the factor
  and the dimension. `no` if it says only what is wrong first. `wrong` if it names another cause.
- `curve`: what the losses of {steps} steps show. `seen`: one differs by more than 1 % from that of one rank.
  `no end`: the run does not end. Weights and samples are the same, and nothing is dropped. The options of the
  training are `{training}`.

Commit {commit}, {release}.
The first line makes the page again, the second one runs a row:

```sh
python3 tests/programs/published.py build/shardproof PYTHON --results FILE --page tests/programs/published.md
python3 tests/programs/published.py build/shardproof PYTHON 'MLM#1446'
```

```text
{table}
{score}```
{gaps}"""


def gaps_of(verdicts: Sequence[Verdict]) -> str:
    gaps = [f"- {verdict.row['kind']}: {verdict.row['why']}\n" for verdict in verdicts if verdict.by == NOT_FOUND]
    return "\nNot found, and why:\n\n" + "".join(gaps) if gaps else ""


def page_of(python: str, results: str, steps: int) -> str:
    """Returns the page with the latest result of each mistake, and what the table says now of its sentence."""
    with open(results, encoding="utf-8") as file:
        latest = {verdict.row["name"]: verdict for verdict in (Verdict(**json.loads(line)) for line in file)}
    rows = [(row, latest[row["name"]]) for row in rows_of(python) if row["name"] in latest]
    verdicts = [each._replace(row=row, cause=cause_of(row, each.by, each.sentence)) for row, each in rows]
    commit = subprocess.run(["git", "-C", HERE, "log", "-1", "--format=%h of %cs"], stdout=subprocess.PIPE, text=True, check=True)
    return PAGE.format(
        steps=steps,
        training=TRAINING,
        commit=commit.stdout.strip(),
        release=release_of(python),
        table=table_of(verdicts),
        score=score_of(verdicts),
        gaps=gaps_of(verdicts),
    )


def told(verdict: Verdict) -> str:
    state = "FAILED" if verdict.failures else "ok"
    lines = [f"{state:7}{verdict.row['name']}: {verdict.by}; names the cause: {verdict.cause}; loss {verdict.curve}"]
    lines.append(f"       {verdict.sentence[:400]}")
    return "\n".join(lines + [f"       ! {failure}" for failure in verdict.failures])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("shardproof")
    parser.add_argument("python")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--results", help="a file to which a line of JSON is added for each mistake")
    parser.add_argument("--page", help="a file that is written with the latest results of all")
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without which each start compiles torch again
    begin, failed = time.monotonic(), 0
    rows = [row for row in rows_of(given.python) if is_chosen(row, given.names)]
    for verdict in verdicts(given.shardproof, given.python, rows, given.steps):
        failed += bool(verdict.failures)
        print(told(verdict), flush=True)
        if given.results:
            with open(given.results, "a", encoding="utf-8") as file:
                file.write(json.dumps(verdict._asdict()) + "\n")
    if given.page:
        with open(given.page, "w", encoding="utf-8") as file:
            file.write(page_of(given.python, given.results, given.steps))
    print(f"{failed} failed; {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
