#!/usr/bin/env python3
"""Changes the sources one place at a time, and says which changes `check` does not notice.

    tests/mutants/mutate.py --count 100 --seed 1            # in a clean checkout with a current build/
    tests/mutants/mutate.py --only sim/parallel --count 20
    tests/mutants/mutate.py --mutant sim/layout/layout.cpp:32:plus

Each mutant is one change of an operator, a constant, a flag or a call in sim/. The program is built with it
and `check` is run; the source is put back afterwards. What check does not notice is tried on the tests of sim
and on what Megatron computes (tests/oracle). A mutant is

    caught      check fails, stops with an error, or takes too long
    refused     the compiler refuses it; it counts as no mutant
    tested      check passes, and a test fails
    survived    check and the tests pass: it is equivalent, or a property is missing

The mutants are drawn with the seed, so that a run can be repeated. A line per mutant is written as it ends,
and the score at the end.
"""

import argparse
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ["sim/parallel", "sim/optimizer", "sim/pipeline", "sim/model", "sim/layout", "sim/experts", "sim/context"]

# What is found, what it becomes, and the name of the change. Operators have blanks around them (clang-format
# puts them there), so that brackets of templates, pointers and references are none.
CHANGES = [
    (r" \+ ", " - ", "plus"),
    (r" - ", " + ", "minus"),
    (r" \* ", " / ", "times"),
    (r" / ", " * ", "divided"),
    (r" % ", " / ", "remainder"),
    (r" < ", " <= ", "less"),
    (r" <= ", " < ", "at most"),
    (r" > ", " >= ", "more"),
    (r" >= ", " > ", "at least"),
    (r" == ", " != ", "equal"),
    (r" != ", " == ", "unequal"),
    (r" && ", " || ", "and"),
    (r" \|\| ", " && ", "or"),
    (r" \+= ", " -= ", "adds"),
    (r"\btrue\b", "false", "true"),
    (r"\bfalse\b", "true", "false"),
    (r"(?<![\w.\"])0(?![\w.])", "1", "zero"),
    (r"(?<![\w.\"])1(?![\w.])", "2", "one"),
    (r"(?<![\w.\"])2(?![\w.])", "3", "two"),
    (r"\bReduceOp::sum\b", "ReduceOp::max", "sum"),
    (r"\bif \((?!const|auto)", "if (!(", "condition"),
]
# A call that stands alone on its line, and whose result nobody takes.
CALL = re.compile(r"^\s+(?!return\b|refuse|require|throw\b|using\b)[\w:.>\-]+\([^;{}]*\);\s*$")
# The tests that a mutant of sim meets after check.
TESTS = [("sim_tests", "*"), ("reader_tests", "*Oracle*")]
# What is no arithmetic of a step: messages, refusals, and what is said of a number.
LEFT_OUT = re.compile(r"refuse|require_|throw |\.numbers|\.rule|\.hint|\.code|\.option|fmt::|counted\(|static_assert|"
                      r"^\s*//|^\s*#|operator|reserve\(|^\s*case ")


def without_texts(line):
    """The line, with texts and its comment replaced by as many '_'."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda m: "_" * len(m.group()), line)
    return re.sub(r"//.*", lambda m: "_" * len(m.group()), line)


def mutants_of(path):
    lines = path.read_text().splitlines(keepends=True)
    refusing = 0
    for number, line in enumerate(lines):
        if "refuse(" in line:
            refusing = 12
        if refusing and ("});" in line or ";" in line and "refuse" not in line):
            refusing = 0
            continue
        if refusing:
            refusing -= 1
            continue
        if LEFT_OUT.search(line):
            continue
        plain = without_texts(line)
        if CALL.match(plain):
            yield number, line, "\n", "call left out"
        for pattern, text, name in CHANGES:
            for found in re.finditer(pattern, plain):
                changed = line[: found.start()] + text + line[found.end() :]
                if name == "condition":
                    close = closing_bracket(plain, found.end())
                    if close is None:
                        continue
                    changed = line[: found.start()] + text + line[found.end() : close] + ")" + line[close:]
                yield number, line, changed, name


def closing_bracket(line, start):
    depth = 1
    for at in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if depth == 0:
            return at
    return None


def run(command, seconds):
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=seconds, check=False)
        return done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return None, ""


def failed_test():
    """The first test that fails, "too long", or None."""
    if run(["ninja", "-C", "build", *(program for program, _ in TESTS)], 3600)[0] != 0:
        sys.exit("the tests do not build")
    for program, tests in TESTS:
        options = ["--gtest_brief=1", "--gtest_fail_fast", f"--gtest_filter={tests}"]
        code, said = run([f"build/{program}", *options], 900)
        if code != 0:
            first = re.search(r"\[  FAILED  \] (\S+?),? ", said)
            return "too long" if code is None else first.group(1) if first else f"{program}: exit {code}"
    return None


def place_of(path, number, name):
    return f"{path.relative_to(ROOT)}:{number + 1}:{name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="a folder or a file, in place of all folders")
    parser.add_argument("--mutant", action="append", default=[], metavar="FILE:LINE:NAME",
                        help="only the mutants of this name there; may be repeated")
    parser.add_argument("--runs", type=int, default=30, help="--runs of check")
    parser.add_argument("--seconds", type=int, default=300, help="how long a check may take")
    arguments = parser.parse_args()

    folders = [arguments.only] if arguments.only else FOLDERS
    files = []
    for folder in folders:
        path = ROOT / folder
        files += [path] if path.is_file() else sorted(path.glob("**/*.cpp"))
    files = [path for path in files if "refusals" not in path.name]
    every = [(path, *mutant) for path in files for mutant in mutants_of(path)]
    chosen = random.Random(arguments.seed).sample(every, min(arguments.count, len(every)))
    if arguments.mutant:
        chosen = [one for one in every if place_of(one[0], one[1], one[4]) in arguments.mutant]
    build = ["ninja", "-C", "build", "shardproof"]
    check = ["build/shardproof", "check", "--runs", str(arguments.runs), "--seed", str(arguments.seed)]
    # Most mutants are caught by few runs in the field, which are quick.
    first_check = ["build/shardproof", "check", "--dtype", "field", "--runs", "5", "--seed", str(arguments.seed)]
    print(f"{len(chosen)} of {len(every)} mutants, seed {arguments.seed}", flush=True)
    if run(build, 3600)[0] != 0 or run(check, 3600)[0] != 0 or failed_test() is not None:
        sys.exit("the unchanged tree does not pass")

    counts = {"caught": 0, "tested": 0, "survived": 0, "refused": 0}
    for path, number, line, changed, name in chosen:
        source = path.read_text()
        lines = source.splitlines(keepends=True)
        assert lines[number] == line
        lines[number] = changed
        path.write_text("".join(lines))
        try:
            if run(build, 3600)[0] != 0:
                outcome, why = "refused", ""
            else:
                code, said = run(first_check, arguments.seconds)
                if code == 0:
                    code, said = run(check, arguments.seconds)
                first = re.search(r"^(\S+) +(\S+).* FALSIFIED$", said, re.MULTILINE)
                outcome = "caught"
                why = "too long" if code is None else " ".join(first.groups()) if first else f"exit {code}"
                if code == 0:
                    why = failed_test()
                    outcome = "survived" if why is None else "tested"
        finally:
            path.write_text(source)
        counts[outcome] += 1
        shown = f"  ({why})" if why else ""
        print(f"{outcome:<9} {place_of(path, number, name)}{shown}", flush=True)
        if outcome in ("tested", "survived"):
            print(f"    - {line.strip()}\n    + {changed.strip()}", flush=True)
    run(build, 3600)
    judged = counts["caught"] + counts["tested"] + counts["survived"]
    share = 100 * counts["caught"] / judged if judged else 0
    print(f"{counts['caught']} of {judged} caught by check, {share:.1f} %; {counts['tested']} more by tests; "
          f"{counts['survived']} survived; {counts['refused']} refused by the compiler")


if __name__ == "__main__":
    main()
