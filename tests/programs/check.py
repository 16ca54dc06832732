"""Runs the programs of this folder as virtual ranks, and holds what is said of them: tiny_gpt.py on layouts, whose
losses and norms are those of one rank, and hangs.py, whose mistakes are named with their lines.

    check.py SHARDPROOF PYTHON [WORD...]

PYTHON is an interpreter with torch, megatron-core and packaging. Only the checks whose name has one of the words
are run, if some are given.
"""

import os
import re
import subprocess
import sys
from typing import Dict, List, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
TINY, HANGS = os.path.join(HERE, "tiny_gpt.py"), os.path.join(HERE, "hangs.py")
DENSE = (
    (2, "--tp 2"),
    (2, "--tp 2 --sp"),
    (2, "--pp 2"),
    (2, "--zero"),
    (4, "--tp 2 --sp --pp 2"),
    (2, "--pp 2 --vpp 2"),
    (16, "--tp 2 --sp --pp 4 --zero"),
)
EXPERTS = (
    (2, "--ep 2"),
    (2, "--ep 2 --dispatcher alltoall --zero"),
    (4, "--tp 2 --sp --ep 2 --etp 1 --dispatcher alltoall --zero"),
    (8, "--tp 2 --sp --pp 2 --ep 2 --etp 1 --dispatcher alltoall --zero"),
)
TOLERANCE = 2e-5  # of f32 over two steps; chosen


def run(ranks: int, program: str, words: str) -> Tuple[int, str]:
    """Runs a program, and returns the exit code and what was written."""
    shardproof, python = sys.argv[1:3]
    done = subprocess.run(
        [shardproof, "run", "--ranks", str(ranks), "--", python, program, *words.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def numbers(output: str) -> List[float]:
    """Returns the losses and norms of all steps."""
    return [float(x) for line in re.findall(r"step \d+: loss (\S+), norm (\S+)", output) for x in line]


def layout(ranks: int, words: str, expected: List[float]) -> str:
    """Returns what is wrong with a layout; nothing if it trains as one rank does."""
    code, output = run(ranks, TINY, words)
    found = numbers(output)
    if code != 0:
        return f"exit code {code}\n{output[-2000:]}"
    if len(found) != len(expected):
        return f"{len(found)} numbers in place of {len(expected)}"
    differing = [(x, y) for x, y in zip(found, expected) if abs(x - y) > TOLERANCE * abs(y)]
    return f"{differing[0][0]} in place of {differing[0][1]}" if differing else ""


def lines_of_mistakes() -> Dict[str, int]:
    """Returns the line of each kind's mistake."""
    kind, lines = "", {}
    with open(HANGS, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("def "):
                kind = line[4 : line.index("(")]
            if "# here" in line:
                lines[kind] = number
    return lines


def hang(kind: str, line: int) -> str:
    """Returns what is wrong with what is said of a kind of mistake, and of its healthy twin."""
    code, output = run(3, HANGS, kind)
    is_warning = kind == "other_order"
    if code != (0 if is_warning else 3):
        return f"exit code {code}\n{output[-2000:]}"
    if f"hangs.py:{line}" not in output and kind != "killed_process":
        return f"line {line} is not named\n{output}"
    if is_warning and "warning other_lines" not in output:
        return "no warning"
    code, output = run(3, HANGS, kind + " --healthy")
    return "" if code == 0 and "warning" not in output else f"the healthy twin: exit code {code}\n{output}"


def main() -> int:
    words, failed = sys.argv[3:], 0
    one_rank = {"": numbers(run(1, TINY, "")[1]), "--experts 4 ": numbers(run(1, TINY, "--experts 4")[1])}
    checks = [(f"tiny_gpt {w}", lambda r=r, w=w: layout(r, w, one_rank[""])) for r, w in DENSE]
    checks += [
        (f"tiny_gpt --experts 4 {w}", lambda r=r, w=w: layout(r, "--experts 4 " + w, one_rank["--experts 4 "]))
        for r, w in EXPERTS
    ]
    checks += [(f"hangs {kind}", lambda k=kind, n=n: hang(k, n)) for kind, n in lines_of_mistakes().items()]
    for name, check in checks:
        if words and not any(word in name for word in words):
            continue
        wrong = check()
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok':8}{name}" + (f": {wrong}" if wrong else ""), flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
