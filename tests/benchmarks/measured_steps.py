"""Holds estimates of the time of a step against steps that others measured, and fits the factor of each machine.

    measured_steps.py SHARDPROOF [MACHINE...]

Each row of measured_steps.tsv is estimated with the rates of its machine alone. The factor of a machine is the
median of measured / estimated of its rows. The error of a row is that of an estimate whose factor comes from the
other rows of the machine; the median of these errors is what a machine file says of its estimates. The last lines
are those of the machine files.
"""

import csv
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from typing import Dict, List, NamedTuple, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MEASURED = ("measured-factor", "measured-steps", "measured-error")


class Step(NamedTuple):
    """A measured step: its row of the table, and what is estimated with the rates of its machine."""

    name: str
    measured: float  # seconds
    estimated: float


def rates_of(machine: str) -> str:
    """Returns the text of a machine file without what was measured."""
    with open(os.path.join(ROOT, "scenarios", "machines", machine + ".ini"), encoding="utf-8") as file:
        return "".join(line for line in file if not line.startswith(MEASURED))


def estimated(shardproof: str, command: str, machine: str) -> Optional[float]:
    """Returns the estimated seconds of a step; nothing where it is refused."""
    words = shlex.split(command)
    asked = [shardproof, "memory", "--machine", machine, "--format", "json"]
    if words[0].endswith(".ini"):
        asked += words
    else:
        at = words.index("--world-size")
        asked += [*words[at : at + 2], "--", "pretrain_gpt.py", *words[:at], *words[at + 2 :]]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    try:
        return float(json.loads(done.stdout)["estimate"]["seconds"])
    except (ValueError, KeyError):
        return None


def steps_of(shardproof: str, machine: str, rows: List[Dict[str, str]]) -> List[Step]:
    """Returns the steps of a machine that are estimated."""
    steps = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, machine + ".ini")
        with open(path, "w", encoding="utf-8") as file:
            file.write(rates_of(machine))
        for row in rows:
            seconds = estimated(shardproof, row["command"], path)
            if seconds is None:
                print(f"{row['id']:16} refused")
            else:
                steps.append(Step(row["id"], float(row["seconds"]), seconds))
    return steps


def factor_of(steps: List[Step]) -> float:
    """Returns the median of measured / estimated."""
    return statistics.median(step.measured / step.estimated for step in steps)


def error_of(step: Step, steps: List[Step]) -> float:
    """Returns by which share an estimate with the factor of the other steps is too long; negative: too short."""
    others = [one for one in steps if one.name != step.name] or steps
    return factor_of(others) * step.estimated / step.measured - 1


def main() -> int:
    """Prints all steps, and the lines of the machine files."""
    shardproof = os.path.abspath(sys.argv[1])
    with open(os.path.join(HERE, "measured_steps.tsv"), encoding="utf-8") as file:
        table = list(csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t"))
    for machine in sys.argv[2:] or sorted({row["machine"] for row in table}):
        steps = steps_of(shardproof, machine, [row for row in table if row["machine"] == machine])
        errors = [error_of(step, steps) for step in steps]
        for step, error in zip(steps, errors):
            print(f"{step.name:16} measured {step.measured:8.3f} s   rates alone {step.estimated:8.3f} s   "
                  f"with the others' factor {100 * error:+6.1f} %")  # fmt: skip
        values = (f"{factor_of(steps):.3g}", str(len(steps)), f"{statistics.median(map(abs, errors)):.2g}")
        print(f"\n{machine}.ini\n" + "".join(f"{name} = {value}\n" for name, value in zip(MEASURED, values)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
