"""Tests on layouts: functions that pytest runs as the ranks of layouts, and whose values are those of one rank.

Calls   pytest is asked for nothing but the failure. The interpreter that tests runs the ranks, too.
Errors  TypeError and ValueError when the function is marked: a function of a class or of another function, an argument
        that is no `layout`, a layout that does not divide the ranks. A test fails with what `shardproof run` finds.
"""

import functools
import importlib
import inspect
import json
import math
import os
import re
import shutil
import subprocess
import sys
from typing import Any, Callable, Dict, List, NoReturn

from . import installed, sentences

_Test = Callable[..., None]


def _with_ranks(words: str, ranks: int) -> str:
    """Returns a layout with as many replicas as give it so many ranks."""
    every = words.split()
    own = every[: next((at for at, word in enumerate(every) if word.startswith("--")), len(every))]
    sizes = {found[1]: int(found[2]) for found in (re.fullmatch(r"(tp|pp|cp|dp)(\d+)", word) for word in own) if found}
    divisor = math.prod(sizes.values())
    if divisor == 0 or ranks % divisor != 0 or ("dp" in sizes and divisor != ranks):
        raise ValueError(f"the layout '{words.strip()}' does not divide {ranks} ranks")
    replicas = [] if "dp" in sizes else [f"dp{ranks // divisor}"]
    return " ".join([*own, *replicas, *every[len(own) :]])


def _require_function(test: _Test) -> None:
    """Refuses what a rank cannot call by the name of a file and a function."""
    if "." in test.__qualname__:
        raise TypeError(f"{test.__qualname__}: a test on layouts is a function of its module")
    if inspect.iscoroutinefunction(test):
        raise TypeError(f"{test.__name__}: a test on layouts is no coroutine")
    if "layout" not in inspect.signature(test).parameters:
        raise TypeError(f"{test.__name__}: a test on layouts takes the argument 'layout'")


def _program() -> str:
    """Returns the path of the program: as SHARDPROOF says, of the installed package, or on PATH."""
    found = os.environ.get("SHARDPROOF") or installed.program() or shutil.which("shardproof")
    return found or _fail("the program 'shardproof' is not found: not on PATH, and SHARDPROOF does not name it")


def _fail(text: str) -> NoReturn:
    """Fails the test that runs, without a traceback if pytest runs it."""
    if "pytest" in sys.modules:
        importlib.import_module("pytest").fail(text, pytrace=False)
    raise AssertionError(text)


def _words_of(arguments: Dict[str, Any]) -> List[str]:
    """Returns arguments as the word from which a rank reads them."""
    for name, value in arguments.items():
        try:
            is_kept = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            is_kept = False
        if not is_kept:
            _fail(f"ranks do not get the argument '{name}', a {type(value).__name__}, but what JSON can write")
    return [json.dumps(arguments)] if arguments else []


def _run(test: _Test, layouts: str, arguments: Dict[str, Any]) -> None:
    """Runs a test on its layouts, and fails where one does not hold."""
    path = os.path.relpath(test.__code__.co_filename)
    target = f"{test.__code__.co_filename if path.startswith(os.pardir) else path}::{test.__name__}"
    of_rank = [sys.executable, "-m", "shardproof.rank_of_test", target, *_words_of(arguments)]
    done = subprocess.run(
        [_program(), "run", "--layouts", layouts, "--format", "json", "--", *of_rank],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "SHARDPROOF_TEST_PATH": os.pathsep.join(sys.path)},
    )
    print(done.stderr, end="")
    if done.returncode != 0:
        _fail(sentences.of_failure(done.returncode, done.stdout, done.stderr))
    print("\n".join(sentences.of_layouts(json.loads(done.stdout))))


def layouts(words: str, ranks: int = 0) -> Callable[[_Test], _Test]:
    """Marks a test that runs as the ranks of layouts, and compares each with one rank.

        @shardproof.layouts("tp2; pp2; tp2 pp2", ranks=4)
        def test_mlp(layout): ...

    Each rank imports the test's file, has torch.distributed initialised, and calls the function. `layout` has the
    sizes (layout.py); on the one rank of the reference all are 1. Compared are the values that the function gives to
    shardproof.publish(), and parameters, gradients and states at each step of an optimizer. A run that compares
    nothing fails.

    With `ranks`, each layout gets as many replicas as give it so many ranks. Other arguments of the function are
    pytest's: parameters, and fixtures whose values JSON can write. Further fixtures fail the test by their names. A
    conftest.py is pytest's, and not imported by ranks. Marks such as skip and parametrize stand above or below.
    """
    every = words if ranks == 0 else "; ".join(_with_ranks(layout, ranks) for layout in words.split(";"))

    def mark(test: _Test) -> _Test:
        _require_function(test)
        signature = inspect.signature(test)

        @functools.wraps(test)
        def on_layouts(**arguments: Any) -> None:
            _run(test, every, arguments)

        others = [other for name, other in signature.parameters.items() if name != "layout"]
        setattr(on_layouts, "__signature__", signature.replace(parameters=others))
        setattr(on_layouts, "on_layout", test)
        return on_layouts

    return mark
