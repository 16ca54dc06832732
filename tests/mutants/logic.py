#!/usr/bin/env python3
"""Plants mistakes of logic in the sources, and says of each whether `check` explains it.

    tests/mutants/logic.py                     # with a current build folder
    tests/mutants/logic.py --name capacity     # only mistakes whose names contain this

logic.tsv has the mistakes: an edit of one source, the case and property that have to notice it, and words by
which an explanation names it. The sources stay as they are: each edit is compiled from a copy, and linked
into a program of its own. An explanation is

    right     it names a line within LINES of the edit, or says one of the words
    wrong     it names a cause or a line, and neither is the mistake's
    vague     it says no more than where something differs
    missed    the property holds

The judgement reads words, as a reader would: a sentence that it calls wrong is to be looked at. The script
fails where an edit no longer fits its source, or a program does not build.
"""

import argparse
import csv
import pathlib
import re
import subprocess
import sys
import time
from typing import Dict, List, Optional, Tuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROOMS = ["sim/parallel", "sim/experts", "sim/context", "sim/model", "sim/optimizer"]
LINES = 6
# What names a cause, and so is wrong where the mistake is another one.
CLAIMS = [
    r"the first step whose result",
    r"rounding, precision or order is not",
    r"has the input of the call before it",
    r"all is right if",
    r"is used on no rank",
    r"is not used on rank",
    r"every result of",
    r"is zero on",
    r"it is what \w+ \d+ gives",
    r"counted? twice",
    r"had no part in it",
    r"in place of .* it has",
    r"is missing",
    r"another mask",
    r"ids? .* (is|are|were)",
]


def run(command: List[str], seconds: int = 600) -> Tuple[int, str]:
    try:
        done = subprocess.run(command, cwd=ROOT / "build", capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


class Builder:
    """Compiles sources of the rooms one by one, and links them in front of the libraries."""

    def __init__(self) -> None:
        commands = run(["ninja", "-t", "commands", "shardproof"])[1].splitlines()
        self.link = next(line for line in commands if " -o shardproof " in line).split(" && ")[1]
        compiles = next(line for line in commands if " -c " in line and "sim.dir" in line and "parallel" in line)
        self.flags = [word for word in compiles.split(" -MD ")[0].split() if word not in ("-O2", "-O3")] + ["-O0"]
        self.folder = ROOT / "build" / "logic"
        self.folder.mkdir(exist_ok=True)
        self.objects: Dict[str, pathlib.Path] = {}

    def compiled(self, source: pathlib.Path, to: pathlib.Path) -> str:
        """Compiles a source; returns what the compiler says against it."""
        prefix = f"-fmacro-prefix-map={self.folder}/edited/="
        code, said = run([*self.flags, prefix, "-c", str(source), "-o", str(to)])
        return said if code != 0 else ""

    def compile_rooms(self) -> None:
        for room in ROOMS:
            for source in sorted((ROOT / room).glob("*.cpp")):
                name = str(source.relative_to(ROOT))
                to = self.folder / (name.replace("/", "_") + ".o")
                self.objects[name] = to
                said = self.compiled(source, to)
                if said:
                    sys.exit(said)

    def program(self, file: str, text: str) -> Optional[pathlib.Path]:
        """Returns the program with another text of one source; None if the compiler refuses it."""
        edited = self.folder / "edited" / file
        edited.parent.mkdir(parents=True, exist_ok=True)
        edited.write_text(text)
        to = self.folder / "edited.o"
        if self.compiled(edited, to):
            return None
        objects = [str(to if name == file else of) for name, of in self.objects.items()]
        program = self.folder / "shardproof"
        words = self.link.split()
        at = words.index("-o")
        words[at : at + 2] = [*objects, "-o", str(program)]
        code, said = run(words)
        if code != 0:
            sys.exit(said)
        return program


def edited_text(row: Dict[str, str]) -> Tuple[str, int, int]:
    """Returns the source with the edit, and the first and last line of what it changes."""
    text = (ROOT / row["file"]).read_text()
    find = row["find"].replace("\\n", "\n")
    if text.count(find) != 1:
        sys.exit(f"{row['name']}: '{row['find']}' stands {text.count(find)} times in {row['file']}")
    first = text[: text.index(find)].count("\n") + 1
    return text.replace(find, row["replace"].replace("\\n", "\n")), first, first + find.count("\n")


def reason(said: str) -> str:
    found = re.search(r"^  why +(.*?)\n  with ", said, re.MULTILINE | re.DOTALL)
    return " ".join(found.group(1).split()) if found else ""


def judged(row: Dict[str, str], said: str, lines: Tuple[int, int]) -> str:
    if "FALSIFIED" not in said:
        return "missed"
    why = reason(said)
    for line in re.findall(re.escape(row["file"]) + r":(\d+)", why):
        if lines[0] - LINES <= int(line) <= lines[1] + LINES:
            return "right"
    words = [word for word in row["words"].split("|") if word]
    if any(word in why for word in words):
        return "right"
    return "wrong" if any(re.search(claim, why) for claim in CLAIMS) else "vague"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--name", default="", help="only mistakes whose names contain this")
    parser.add_argument("--seed", default="0", help="of check")
    arguments = parser.parse_args()
    with open(ROOT / "tests/mutants/logic.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for row in rows if arguments.name in row["name"]]
    builder = Builder()
    builder.compile_rooms()
    counts: Dict[str, int] = {}
    for row in rows:
        text, *lines = edited_text(row)
        program = builder.program(row["file"], text)
        verdict, why = "refused", ""
        begin = time.monotonic()
        if program is not None:
            what = ["--case", row["case"], "--property", row["property"], "--seed", arguments.seed]
            said = run([str(program), "check", *what])[1]
            verdict, why = judged(row, said, (lines[0], lines[1])), reason(said) or said
        counts[verdict] = counts.get(verdict, 0) + 1
        print(f"{verdict:<8} {row['name']}  ({row['file']}:{lines[0]}, {time.monotonic() - begin:.0f} s)", flush=True)
        if verdict != "right":
            print(f"    {why}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) + f", of {len(rows)}")


if __name__ == "__main__":
    main()
