"""Runs Megatron's own unit tests, which are made for 8 GPUs, as virtual ranks without one, and prints a table.

    megatron_tests.py SHARDPROOF PYTHON CHECKOUT FOLDER [PATH...]
    megatron_tests.py --table FOLDER

PYTHON is an interpreter with what environment.py installs for tests. CHECKOUT is a checkout of Megatron-LM, and a PATH
is a file or a folder of its tests/unit_tests; without one, those of PATHS are run. FOLDER gets a file of results for
each start, and --table makes the table of what is there.

A start has one interpreter, which forks the ranks, and MOST_LINES lines of tests. A test has passed if it has passed on
all ranks. After a test in which ranks cannot go on, or that takes longer than LONGEST_TEST seconds, the ranks are
started again with the tests that follow. A test that fails behind one that fails on some ranks only is run again.

Failures are sorted into kinds by the rows of megatron_tests.tsv: the first whose expression is found in the test and
its reason. A failure that no row explains is "not explained", and the exit code is 1.
"""

import csv
import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 8
PATHS = "tensor_parallel pipeline_parallel distributed dist_checkpointing transformer optimizer resharding models".split()
MOST_LINES = 4000  # of tests, of one start; chosen
LONGEST_TEST = 600  # seconds; chosen
LONGEST_START = 3600  # seconds; chosen
FIRST_MODULES = "pytest megatron.core.parallel_state megatron.training.argument_utils megatron.core.models.gpt"
MOST_TEXT = 1000  # characters of a reason; chosen
UNIT_TESTS = os.path.join("tests", "unit_tests")
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


def events(folder: str) -> Events:
    found = Events([], {}, {}, [], [])
    for rank in range(RANKS):
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


def outcome(test: str, of_ranks: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Returns how a test has ended: failed if it has on a rank; skipped if it has on all."""
    failed = [line for line in of_ranks if line["how"] == "failed"]
    own = [line for line in failed if line["kind"] not in ("WorldEnded", "LinkError")] or failed
    if own:
        return {**own[0], "ranks": [line["rank"] for line in failed]}
    skipped = [line for line in of_ranks if line["how"] == "skipped"]
    return skipped[0] if len(skipped) == len(of_ranks) else {"test": test, "how": "passed"}


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


def write_lines(path: str, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def started(start: Start, files: List[str], left_out: Iterable[str]) -> Tuple[Events, str]:
    """Runs files without some tests, and returns what the ranks have written and what was found."""
    os.makedirs(start.folder, exist_ok=True)
    for rank in range(RANKS):
        path = os.path.join(start.folder, f"rank-{rank}.jsonl")
        if os.path.exists(path):
            os.remove(path)
    write_lines(os.path.join(start.folder, "left_out"), left_out)
    paths = os.pathsep.join([HERE, start.checkout, os.environ.get("PYTHONPATH", "")])
    named = {"TESTS_OF_RANK": os.path.abspath(start.folder), "LONGEST_TEST": str(LONGEST_TEST), "PYTHONPATH": paths}
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
        return events(start.folder), finding(output.read())


def ended_here(found: Events, known: Dict[str, Any], what: str) -> str:
    """Keeps how tests have ended, and returns the one at which the ranks did not go on; nothing if there is none."""
    for test in [*found.collected, *(other for other in found.ended if other not in found.collected)]:
        lines = found.ended.get(test, [])
        if test in known or (not lines and test not in found.begun):
            continue
        if len(lines) == RANKS or test not in found.begun:
            known[test] = outcome(test, lines)
            continue
        own = outcome(test, lines)
        late = [line for line in found.late if line["rank"] not in [x["rank"] for x in lines]]
        if own["how"] != "failed":
            kind = "TooLong" if late else "Stopped"
            own = {"test": test, "how": "failed", "kind": kind, "text": what, "places": late[0]["places"] if late else []}
        known[test] = own
        return test
    return ""


def doubtful(found: Events, known: Dict[str, Any]) -> List[str]:
    """Returns tests that have failed behind one that has left the ranks in several states."""
    first = min((found.collected.index(test) for test in found.parted if test in found.collected), default=None)
    behind = [] if first is None else found.collected[first + 1 :]
    return [test for test in behind if test in found.ended and known[test]["how"] == "failed"]


def run_start(start: Start, files: List[str]) -> Dict[str, Any]:
    """Runs the tests of files, and returns how each has ended. Doubtful ones are run again on their own."""
    known, again = run_once(start, files, {})
    if again:
        print(f"  {len(again)} tests are run again, behind others that fail on some ranks", flush=True)
        others = {test: known[test] for test in known if test not in again}
        known = run_once(start, sorted({test.split("::")[0] for test in again}, key=files.index), others)[0]
    return known


def run_once(start: Start, files: List[str], known: Dict[str, Any]) -> Tuple[Dict[str, Any], List[str]]:
    """Runs the tests of files that are not known, and returns how each has ended, and which are doubtful."""
    left, again = list(files), []
    while left:
        found, what = started(start, left, known)
        before = len(known)
        guilty = ended_here(found, known, what)
        again += doubtful(found, known)
        waiting = [test for test in found.collected if test not in known]
        if guilty:
            print(f"  started again after {guilty}", flush=True)
        if not found.collected or len(known) == before:
            if waiting or not found.collected:
                for file in left:
                    known[file] = {"test": file, "how": "failed", "kind": "NotStarted", "text": what, "places": []}
            break
        left = [file for file in left if any(test.startswith(file + "::") for test in waiting)]
    return known, again


def run_all(shardproof: str, python: str, checkout: str, folder: str, paths: List[str]) -> None:
    command = (
        *(os.path.abspath(shardproof), "run", "--no-gpu", "--ranks", str(RANKS), "--format", "json", "--"),
        *(os.path.abspath(python), "-m", "pytest", "-p", "tests_of_rank", "-p", "no:cacheprovider", "-q", "--tb=no"),
    )
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "modules")):
        write_lines(os.path.join(folder, "modules"), FIRST_MODULES.split())
    for files in starts_of(checkout, files_of(checkout, paths or PATHS)):
        begin = time.monotonic()
        name = re.sub(r"\W+", "_", os.path.splitext(files[0])[0][len(UNIT_TESTS) + 1 :])
        known = run_start(Start(command, os.path.abspath(checkout), os.path.join(folder, name)), files)
        with open(os.path.join(folder, name, "results.json"), "w", encoding="utf-8") as file:
            json.dump(list(known.values()), file, indent=1)
        hows = [test["how"] for test in known.values()]
        counts = ", ".join(f"{hows.count(how)} {how}" for how in ("passed", "failed", "skipped"))
        print(f"{name} and {len(files) - 1} more: {counts}; {time.monotonic() - begin:.0f} s", flush=True)


def rows() -> List[List[str]]:
    """Returns the kinds, expressions and reasons of failures."""
    with open(os.path.join(HERE, "megatron_tests.tsv"), encoding="utf-8", newline="") as file:
        return [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row and row[0][:1] != "#"]


def reason_of(test: Dict[str, Any]) -> str:
    place = test["places"][-1] if test.get("places") else ["", 0, ""]
    return f"{test['test']} | {test['kind']}: {test['text']} | {place[0]} in {place[2]}"


def kind_of(test: Dict[str, Any], known: List[List[str]]) -> Tuple[str, str]:
    said = reason_of(test)
    for kind, expression, reason in known:
        if re.search(expression, said):
            return kind, reason
    return "not explained", said[:300].replace("\n", " ")


def table(folder: str) -> int:
    """Prints the table, and returns how many failures are not explained."""
    known, tests = rows(), {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name, "results.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                tests.update({test["test"]: test for test in json.load(file)})
    print(f"| {'folder':20} | passed | failed | skipped | " + " | ".join(KINDS) + " |")
    print("|---|---|---|---|" + "---|" * len(KINDS))
    reasons: Dict[Tuple[str, str], int] = {}
    for part in [*PATHS, ""]:
        own = [test for test in tests.values() if not part or part_of(test["test"]) == part]
        kinds = [kind_of(test, known) for test in own if test["how"] == "failed"]
        for kind in kinds if part else []:
            reasons[kind] = reasons.get(kind, 0) + 1
        counts = [sum(test["how"] == how for test in own) for how in ("passed", "failed", "skipped")]
        counts += [sum(kind[0] == name for kind in kinds) for name in KINDS]
        print(f"| {part or 'all':20} | " + " | ".join(map(str, counts)) + " |")
    print()
    for (kind, reason), count in sorted(reasons.items(), key=lambda item: (KINDS.index(item[0][0]), -item[1])):
        print(f"{count:5}  {kind}: {reason}")
    return sum(count for (kind, _), count in reasons.items() if kind == "not explained")


def main() -> int:
    if sys.argv[1] != "--table":
        shardproof, python, checkout, folder, *paths = sys.argv[1:]
        run_all(shardproof, python, checkout, os.path.abspath(folder), paths)
        return 1 if table(folder) else 0
    return 1 if table(sys.argv[2]) else 0


if __name__ == "__main__":
    sys.exit(main())
