"""Makes a virtual environment with what the programs of this folder import: torch and megatron-core from PyPI.

    environment.py FOLDER [tests]        with the word, also what Megatron's own tests import (megatron_tests.py)

The folder is made anew, unless it has what is wanted. Its size is 5.4 GB, because torch for Linux brings the
libraries of its GPU, without which it is not imported.
Errors  exit code 1: there is no Python of 3.12 or later, which megatron-core asks for, or PyPI does not answer.
"""

import glob
import os
import shutil
import subprocess
import sys
from typing import List, Optional

WANTED = ("torch==2.15.0", "numpy", "packaging", "psutil", "setuptools", "pytest")
ALONE = ("megatron-core==0.19.2",)  # without what it depends on
FOR_TESTS = (
    *("click", "einops", "griffe", "mock", "ninja", "omegaconf", "pydantic", "pytest-mock", "pyyaml", "requests"),
    *("tqdm", "transformers", "wrapt"),
)
NEWEST_FIRST = ("python3.13", "python3.12")


def interpreters() -> List[str]:
    """Returns the interpreters that may be there: those of the system, and those of pyenv."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    kept = [path for name in NEWEST_FIRST for path in sorted(glob.glob(f"{root}/versions/*/bin/{name}"))]
    return [*NEWEST_FIRST, "python3", *kept]


def is_new_enough(python: str) -> bool:
    """Whether an interpreter starts, can make environments, and is of 3.12 or later."""
    code = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 12))"
    if shutil.which(python) is None:
        return False
    return subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode == 0


def interpreter() -> Optional[str]:
    return next((python for python in interpreters() if is_new_enough(python)), None)


def main() -> int:
    folder = sys.argv[1]
    wanted = WANTED + (FOR_TESTS if sys.argv[2:] == ["tests"] else ())
    done = os.path.join(folder, "has " + " ".join(wanted + ALONE).replace("/", "_"))
    if os.path.exists(done):
        return 0
    python = interpreter()
    if python is None:
        print(f"no interpreter of 3.12 or later among {', '.join(interpreters())}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-compile", "--retries", "3"]
    steps = ([python, "-m", "venv", folder], [*pip, *wanted], [*pip, "--no-deps", *ALONE])
    for step in steps:
        if subprocess.run(step, check=False).returncode != 0:
            print(f"failed: {' '.join(step)}", file=sys.stderr)
            return 1
    with open(done, "w", encoding="utf-8"):
        return 0


if __name__ == "__main__":
    sys.exit(main())
