"""Runs Megatron's own unit tests, which are made for 8 GPUs, as virtual ranks without one, and prints a table.

    megatron_tests.py [--ranks N] [--longest SECONDS] [--memory GIB] SHARDPROOF PYTHON CHECKOUT FOLDER [PATH...]
    megatron_tests.py --table FOLDER

PYTHON is an interpreter with what `environment.py FOLDER tests` installs. CHECKOUT is a checkout of Megatron-LM, and a
PATH is a file or a folder of its tests/unit_tests; without one, those of PATHS are run. FOLDER gets a file of results
for each start. What is there already is not run again, and --table makes the table of it.

A start has one interpreter, which forks the ranks, and MOST_LINES lines of tests. A test has passed if it has passed on
all ranks. After a test in which ranks cannot go on, or that takes longer than --longest, the ranks are started again
with the tests that follow. A test that takes longer has not ended. Of a function that has MOST_STOPS of both, no further
ones are run, and these have not ended either. A rank may write --memory of its own. Tests that fail behind one that
fails, or that has left the ranks in several states, are run again without the others.

Failures are sorted into kinds by the rows of megatron_tests.tsv: the first whose expression is found in the test and
its reason. A failure that no row explains is "not explained", and the exit code is 1.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
PATHS = (
    "tensor_parallel pipeline_parallel distributed dist_checkpointing transformer optimizer resharding models".split()
)
MOST_LINES = 2500  # of tests, of one start; chosen
MOST_AGAIN = 3  # times that doubtful tests are run again; chosen
MOST_STOPS = 2  # tests of a function that have no end; chosen
LONGEST_START = 7200  # seconds; chosen
FIRST_MODULES = "pytest megatron.core.parallel_state megatron.training.argument_utils megatron.core.models.gpt"
MOST_TEXT = 1000  # characters of a reason; chosen
OF_OTHERS = ("WorldEnded", "LinkError")  # what is raised on a rank because others cannot go on
UNIT_TESTS = os.path.join("tests", "unit_tests")
NOT_ENDED = "not ended"
HOWS = ("passed", "failed", "skipped", NOT_ENDED)
KINDS = ("a GPU kernel", "a package", "not ours", "a limit of ours", "not explained")


def files_of(checkout: str, paths: Iterable[str]) -> List[str]:
    """Returns the files of tests, relative to the checkout."""
    found = []
    for path in paths:
        whole = os.path.join(checkout, UNIT_TESTS, path)
        if os.path.isfile(whole):
            found.append(whole)
        for folder, folders, names in os.walk(whole):
            folders.sort()
            found += [os.path.join(folder, name) for name in sorted(names) if re.fullmatch(r"test_.*\.py", name)]
    return [os.path.relpath(file, checkout) for file in found]


def starts_of(checkout: str, files: Iterable[str]) -> List[List[str]]:
    """Divides files into those of one start each; a start has files of one folder of PATHS."""
    starts: List[List[str]] = []
    lines, last = 0, ""
    for file in files:
        with open(os.path.join(checkout, file), encoding="utf-8") as text:
            own = sum(1 for _ in text)
        part = part_of(file)
        if not starts or part != last or lines + own > MOST_LINES:
            starts.append([])
            lines = 0
        starts[-1].append(file)
        lines, last = lines + own, part
    return starts


def part_of(test: str) -> str:
    """Returns the folder of unit tests to which a file or a test belongs."""
    return test.split("/")[2]


class Events(NamedTuple):
    """What the ranks of a start have written (tests_of_rank.py)."""

    collected: List[str]
    ended: Dict[str, List[Dict[str, Any]]]  # by test: on each rank that has ended it
    begun: Dict[str, int]  # by test: how many ranks have begun it
    late: List[Dict[str, Any]]
    parted: List[str]  # tests that have ended in other ways on some ranks


def events(folder: str, ranks: int) -> Events:
    found = Events([], {}, {}, [], [])
    for rank in range(ranks):
        path = os.path.join(folder, f"rank-{rank}.jsonl")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if line.endswith("\n")]
        for line in lines:
            if "collected" in line and not found.collected:
                found.collected.extend(line["collected"])
            elif "begun" in line:
                found.begun[line["begun"]] = found.begun.get(line["begun"], 0) + 1
            elif "parted" in line:
                found.parted.append(line["parted"])
            elif "late" in line:
                found.late.append({**line, "rank": rank})
            elif "test" in line:
                found.ended.setdefault(line["test"], []).append({**line, "rank": rank})
    return found


def failure(test: str, kind: str, text: str) -> Dict[str, Any]:
    return {"test": test, "how": "failed", "kind": kind, "text": text, "places": []}


def outcome(test: str, of_ranks: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Returns how a test has ended: failed if it has on a rank; skipped if it has on all."""
    failed = [line for line in of_ranks if line["how"] == "failed"]
    own = [line for line in failed if line["kind"] not in OF_OTHERS] or failed
    if own:
        return {**own[0], "ranks": [line["rank"] for line in failed]}
    skipped = [line for line in of_ranks if line["how"] == "skipped"]
    return skipped[0] if skipped and len(skipped) == len(of_ranks) else {"test": test, "how": "passed"}


def finding(output: str) -> str:
    """Returns what `shardproof run` has found first."""
    try:
        found = json.loads(output[output.rindex('{"verdict"') :])["findings"]
    except (ValueError, KeyError):
        found = []
    return str(found[0]["sentence"])[:MOST_TEXT] if found else output[-MOST_TEXT:]


class Start(NamedTuple):
    """What one start is of."""

    command: Tuple[str, ...]  # without files
    checkout: str
    folder: str
    ranks: int
    longest: int  # seconds of a test
    memory: float  # GiB that a rank may write


def not_ended(test: str) -> Dict[str, Any]:
    return {"test": test, "how": NOT_ENDED}


def others_of_stops(collected: Iterable[str], known: Dict[str, Any]) -> List[str]:
    """Returns the tests that are not known of functions of which enough tests have had no end."""
    stops = [test.split("[")[0] for test in known if NOT_ENDED in (known[test]["how"], known[test].get("kind"))]
    return [test for test in collected if test not in known and stops.count(test.split("[")[0]) >= MOST_STOPS]


def write_lines(path: str, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def started(start: Start, files: List[str], left_out: Iterable[str]) -> Tuple[Events, str]:
    """Runs files without some tests, and returns what the ranks have written and what was found."""
    os.makedirs(start.folder, exist_ok=True)
    for rank in range(start.ranks):
        path = os.path.join(start.folder, f"rank-{rank}.jsonl")
        if os.path.exists(path):
            os.remove(path)
    write_lines(os.path.join(start.folder, "left_out"), left_out)
    paths = os.pathsep.join([HERE, start.checkout, os.environ.get("PYTHONPATH", "")])
    named = {"TESTS_OF_RANK": os.path.abspath(start.folder), "LONGEST_TEST": str(start.longest), "PYTHONPATH": paths}
    named["MEMORY_OF_RANK"] = str(int(start.memory * 2**30))
    named["SHARDPROOF_PRELOAD"] = os.path.join(os.path.dirname(os.path.abspath(start.folder)), "modules")
    log = os.path.join(start.folder, "output")
    with open(log, "w", encoding="utf-8") as output:
        try:
            subprocess.run(
                [*start.command, *files],
                cwd=start.checkout,
                env={**os.environ, **named},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=LONGEST_START,
            )
        except subprocess.TimeoutExpired:
            pass
    with open(log, encoding="utf-8", errors="replace") as output:
        return events(start.folder, start.ranks), finding(output.read())


def ended_here(found: Events, ranks: int, known: Dict[str, Any], what: str) -> str:
    """Keeps how tests have ended, and returns the one at which the ranks did not go on; nothing if there is none."""
    for test in [*found.collected, *(other for other in found.ended if other not in found.collected)]:
        lines = found.ended.get(test, [])
        if test in known or (not lines and test not in found.begun):
            continue
        known[test] = outcome(test, lines)
        late = [line for line in found.late if line["rank"] not in [x["rank"] for x in lines]]
        is_told = known[test]["how"] == "failed" and known[test]["kind"] not in OF_OTHERS
        is_over = len(lines) == ranks or test not in found.begun
        if not is_told and (not is_over or known[test]["how"] == "failed"):
            known[test] = not_ended(test) if late else failure(test, NOT_ENDED, what)
            return test
        if not is_over:
            return test
    return ""


def doubtful(found: Events, known: Dict[str, Any]) -> List[str]:
    """Returns tests that have failed behind one that has failed, or has left the ranks in several states."""
    failed = [test for test in found.collected if test in found.ended and known.get(test, {}).get("how") == "failed"]
    left = {*found.parted, *failed[:1]}
    first = next((place for place, test in enumerate(found.collected) if test in left), len(found.collected))
    return [test for test in failed if test in found.collected[first + 1 :]]


def run_start(start: Start, files: List[str]) -> Dict[str, Any]:
    """Runs the tests of files, and returns how each has ended. Doubtful ones are run again on their own."""
    known, again = run_once(start, files, {})
    for _ in range(MOST_AGAIN):
        if not again:
            break
        print(f"  run again: {', '.join(again)}", flush=True)
        others = {test: known[test] for test in known if test not in again}
        known, again = run_once(start, sorted({test.split("::")[0] for test in again}, key=files.index), others)
    return known


def run_once(start: Start, files: List[str], known: Dict[str, Any]) -> Tuple[Dict[str, Any], List[str]]:
    """Runs the tests of files that are not known, and returns how each has ended, and which are doubtful."""
    left, again = list(files), []
    while left:
        found, what = started(start, left, known)
        before = len(known)
        guilty = ended_here(found, start.ranks, known, what)
        again += doubtful(found, known)
        known.update({test: not_ended(test) for test in others_of_stops(found.collected, known)})
        waiting = [test for test in found.collected if test not in known]
        if guilty:
            print(f"  started again after {guilty}", flush=True)
        if not found.collected or len(known) == before:
            if waiting or not found.collected:
                known.update({file: failure(file, "NotStarted", what) for file in left})
            break
        left = [file for file in left if any(test.startswith(file + "::") for test in waiting)]
    return known, again


def run_all(given: argparse.Namespace) -> None:
    command = (
        *(os.path.abspath(given.shardproof), "run", "--no-gpu", "--ranks", str(given.ranks), "--format", "json", "--"),
        *(os.path.abspath(given.python), "-m", "pytest", "-p", "tests_of_rank", "-p", "no:cacheprovider"),
        *("-q", "--tb=no", "--continue-on-collection-errors"),
    )
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    checkout, folder = os.path.abspath(given.checkout), os.path.abspath(given.folder)
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "modules")):
        write_lines(os.path.join(folder, "modules"), FIRST_MODULES.split())
    for files in starts_of(checkout, files_of(checkout, given.paths or PATHS)):
        begin = time.monotonic()
        name = re.sub(r"\W+", "_", os.path.splitext(files[0])[0][len(UNIT_TESTS) + 1 :])
        results = os.path.join(folder, name, "results.json")
        if os.path.exists(results):
            continue
        start = Start(command, checkout, os.path.join(folder, name), given.ranks, given.longest, given.memory)
        known = run_start(start, files)
        with open(results, "w", encoding="utf-8") as file:
            json.dump(list(known.values()), file, indent=1)
        hows = [test["how"] for test in known.values()]
        counts = ", ".join(f"{hows.count(how)} {how}" for how in HOWS)
        print(f"{name} and {len(files) - 1} more: {counts}; {time.monotonic() - begin:.0f} s", flush=True)


def rows() -> List[List[str]]:
    """Returns the kinds, expressions and reasons of failures."""
    with open(os.path.join(HERE, "megatron_tests.tsv"), encoding="utf-8", newline="") as file:
        return [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row and row[0][:1] != "#"]


def reason_of(test: Dict[str, Any]) -> str:
    place = test["places"][-1] if test.get("places") else ["", 0, ""]
    marks = " ".join(test.get("marks", []))
    return f"{test['test']} | {test['kind']}: {test['text']} | {place[0]} in {place[2]} | marks: {marks}"


def kind_of(test: Dict[str, Any], known: List[List[str]]) -> Tuple[str, str]:
    said = reason_of(test)
    for kind, expression, reason in known:
        if re.search(expression, said):
            return kind, reason
    return "not explained", said[:300].replace("\n", " ")


def results_of(folder: str) -> List[Dict[str, Any]]:
    tests: Dict[str, Any] = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name, "results.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                tests.update({test["test"]: test for test in json.load(file)})
    return list(tests.values())


def row_of(name: str, tests: List[Dict[str, Any]], kinds: List[str]) -> str:
    """Returns a row of the table: the share that passed of those that passed or failed, and the kinds of failures."""
    passed, failed, *others = (sum(test["how"] == how for test in tests) for how in HOWS)
    share = f"{100 * passed / (passed + failed):.0f} %" if passed + failed else "-"
    counts = [len(tests), passed, failed, *others, share, *(kinds.count(kind) for kind in KINDS)]
    return f"| {name} | " + " | ".join(map(str, counts)) + " |"


def table(folder: str) -> int:
    """Prints the table, and returns how many failures are not explained."""
    known, tests = rows(), results_of(folder)
    explained = {test["test"]: kind_of(test, known) for test in tests if test["how"] == "failed"}
    print("| folder | tests | " + " | ".join(HOWS) + " | passed of the first two | " + " | ".join(KINDS) + " |")
    print("|---|" + "---|" * (2 + len(HOWS) + len(KINDS)))
    parts = sorted({part_of(test["test"]) for test in tests})
    for part in [*parts, "all"]:
        own = [test for test in tests if part in ("all", part_of(test["test"]))]
        print(row_of(part, own, [explained[test["test"]][0] for test in own if test["how"] == "failed"]))
    print()
    counts: Dict[Tuple[str, str], int] = {}
    for why in explained.values():
        counts[why] = counts.get(why, 0) + 1
    for (kind, reason), count in sorted(counts.items(), key=lambda item: (KINDS.index(item[0][0]), -item[1])):
        print(f"{count:5}  {kind}: {reason}")
    return sum(count for (kind, _), count in counts.items() if kind == "not explained")


def main() -> int:
    if sys.argv[1] != "--table":
        parser = argparse.ArgumentParser()
        parser.add_argument("--ranks", type=int, default=8)
        parser.add_argument("--longest", type=int, default=600)
        parser.add_argument("--memory", type=float, default=4.0)
        for name in ("shardproof", "python", "checkout", "folder"):
            parser.add_argument(name)
        parser.add_argument("paths", nargs="*")
        given = parser.parse_args()
        run_all(given)
        return 1 if table(given.folder) else 0
    return 1 if table(sys.argv[2]) else 0


if __name__ == "__main__":
    sys.exit(main())
