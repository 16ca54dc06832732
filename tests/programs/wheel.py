"""Builds the wheel, installs it into a fresh environment without torch, and asks what is installed there for verdicts.

    wheel.py SHARDPROOF PYTHON

PYTHON has setuptools, with which the wheel is built; nothing is downloaded. The last line has the seconds.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from typing import Dict

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CLIENT = os.path.join(CHECKOUT, "verify", "python")
PROGRAM = """
import os, shardproof
if {same} or os.environ["RANK"] == "0":
    shardproof.link().ask({{"do": "call", "operation": "barrier", "site": ["main", "train.py", 4]}})
print("the client is", shardproof.__file__)
"""
LONGEST = 300  # seconds of one command; chosen


def said(words: "list[str]", folder: str, code: int, **variables: str) -> str:
    """Runs a command in a folder, and returns what it writes. It has to end with this exit code."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SHARDPROOF"))}
    done = subprocess.run(
        words,
        cwd=folder,
        env={**inherited, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    assert done.returncode == code, f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def version() -> str:
    with open(os.path.join(CHECKOUT, "CMakeLists.txt"), encoding="utf-8") as file:
        found = re.search(r"VERSION (\d+\.\d+\.\d+)", file.read())
    assert found is not None
    return found[1]


def built(folder: str, shardproof: str, python: str) -> str:
    """Builds the wheel, and returns its path."""
    words = [python, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", folder, CLIENT]
    assert "no program: " in said(words, folder, 1, SHARDPROOF_PROGRAM=os.path.join(folder, "none"))
    said(words, folder, 0, SHARDPROOF_PROGRAM=os.path.abspath(shardproof))
    (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
    assert re.fullmatch(rf"shardproof-{re.escape(version())}-py3-none-linux_\w+\.whl", os.path.basename(wheel)), wheel
    files = zipfile.ZipFile(wheel).namelist()
    for source in glob.glob(os.path.join(CLIENT, "shardproof", "**", "*.py"), recursive=True):
        name = os.path.relpath(source, CLIENT)
        assert name in files and f"shardproof/program/share/shardproof/python/{name}" in files, name
    return wheel


def verdicts(fresh: str, folder: str) -> Dict[str, float]:
    """Asks for verdicts, and returns the seconds of each."""
    python, shardproof = (os.path.join(fresh, "bin", name) for name in ("python", "shardproof"))
    assert said([shardproof, "--version"], folder, 0).startswith(f"shardproof {version()} ")
    assert "ModuleNotFoundError" in said([python, "-c", "import torch"], folder, 1)
    scenarios = said([shardproof, "list"], folder, 0)
    found = re.search(r"^\S*fresh/\S*/diagnosis-crossed-groups\.ini", scenarios, re.M)
    assert found is not None, scenarios
    for name, same in (("right.py", True), ("wrong.py", False)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(PROGRAM.format(same=same))
    seconds = {}
    for what, words, code, text in (
        ("replay", ["replay", found[0]], 0, "deadlock"),
        ("run", ["run", "--ranks", "2", "--", python, "right.py"], 0, f"the client is {os.path.realpath(fresh)}"),
        ("wrong run", ["run", "--ranks", "2", "--", python, "wrong.py"], 3, "for rank 1, which has ended"),
    ):
        begin = time.monotonic()
        output = said([shardproof, *words], folder, code)
        seconds[what] = time.monotonic() - begin
        assert text in output, output
    return seconds


def main() -> None:
    shardproof, python = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        wheel, fresh = built(folder, shardproof, python), os.path.join(folder, "fresh")
        begin = time.monotonic()
        said([python, "-m", "venv", fresh], folder, 0)
        said([os.path.join(fresh, "bin", "python"), "-m", "pip", "install", "--no-index", wheel], folder, 0)
        installed = time.monotonic() - begin
        seconds = verdicts(fresh, folder)
    size = ", ".join(f"{what} {spent:.1f} s" for what, spent in seconds.items())
    print(f"wheel: ok; environment and installation {installed:.1f} s, {size}", flush=True)


if __name__ == "__main__":
    main()
