"""A plugin of pytest for tests that virtual ranks run together (megatron_tests.py): it writes how each test ends on
this rank, and has all ranks begin each test together.

    shardproof run --ranks 8 -- python -m pytest -p tests_of_rank FILE...

Shapes  TESTS_OF_RANK is a folder. rank-K.jsonl there gets a line for each event: {"begun": test}, or {"test", "how",
        "kind", "text", "places", "marks"} when it has ended: how it ended ("passed", "failed", "skipped"), the name of
        the exception, its text, the lines [file, number, function] where it was raised, the innermost last, and the
        names of the test's marks.
        `left_out` there, a test a line, has the tests that are not run. LONGEST_TEST has the most seconds of one test.
        MEMORY_OF_RANK has the bytes of its own that a rank may write; more is an error of the test.
        {"parted": test} follows if it has ended in other ways on other ranks, and {"late"} if it has taken too long.
Calls   after each test, one gather of the group of all ranks.
"""

import json
import os
import resource
import signal
import sys
from typing import Any, Dict, List, Optional

import pytest
import torch

import shardproof
from shardproof.calls import Calls

_HOWS = ("passed", "skipped", "failed")
_MOST_TEXT, _MOST_PLACES = 2000, 60
_exit = os._exit


class _Report:
    """The file of this rank."""

    def __init__(self) -> None:
        self.folder = os.environ["TESTS_OF_RANK"]
        self.rank = int(os.environ.get("RANK", "0"))
        self._file = open(os.path.join(self.folder, f"rank-{self.rank}.jsonl"), "a", encoding="utf-8")
        self.ended: Dict[str, Any] = {}  # what is known of the test that runs

    def write(self, **line: Any) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def left_out(self) -> "set[str]":
        path = os.path.join(self.folder, "left_out")
        if not os.path.exists(path):
            return set()
        with open(path, encoding="utf-8") as file:
            return set(file.read().splitlines())


_report = _Report()


def _places(error: Any) -> List[Any]:
    places = [[str(entry.path), entry.lineno + 1, entry.name] for entry in error.traceback]
    return places[-_MOST_PLACES:]


def _said_of(error: Optional[Any]) -> Dict[str, Any]:
    """Says what an exception is."""
    if error is None:
        return {"kind": "", "text": "", "places": []}
    return {"kind": error.typename, "text": str(error.value)[:_MOST_TEXT], "places": _places(error)}


def pytest_configure(config: Any) -> None:
    """Bounds the memory of this rank, and has no test data downloaded."""
    most = int(os.environ.get("MEMORY_OF_RANK", "0"))
    if most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        from tests.test_utils.python_scripts import download_unit_tests_dataset as data

        data.download_and_extract_asset = lambda *arguments, **named: False
    except ImportError:
        pass


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        text = str(report.longrepr)[-_MOST_TEXT:]
        _report.write(test=report.nodeid, how="failed", kind="Collect", text=text, places=[])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: List[Any]) -> None:
    _report.write(collected=[item.nodeid for item in items])
    left_out = _report.left_out()
    items[:] = [item for item in items if item.nodeid not in left_out]


def _looks_at_no_rank(module: Any) -> bool:
    """Whether a module is Megatron's or of a package, and not of the tests, which read RANK when they are imported."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or module.__name__.split(".")[0] in ("shardproof", "tests_of_rank", "__main__"):
        return False
    checkout = os.getcwd() + os.sep
    return not file.startswith(checkout) or file.startswith(os.path.join(checkout, "megatron", ""))


def pytest_collection_finish(session: Any) -> None:
    """Has the next start import once for all ranks what the tests import (preload.py)."""
    path = os.environ.get("SHARDPROOF_PRELOAD")
    if path and _report.rank == 0:
        with open(path, "r+", encoding="utf-8") as names:
            known = set(names.read().split())
            found = [name for name, module in list(sys.modules.items()) if _looks_at_no_rank(module)]
            names.writelines(name + "\n" for name in found if name not in known)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    result = (yield).get_result()
    before = _report.ended
    if before and _HOWS.index(before["how"]) >= _HOWS.index(result.outcome):
        return
    error = call.excinfo if result.outcome != "passed" else None
    _report.ended = {"test": item.nodeid, "how": result.outcome, **_said_of(error)}


def _too_long(*_: Any) -> None:
    frames, frame = [], sys._getframe(1)
    while frame is not None:
        frames.append([frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name])
        frame = frame.f_back  # type: ignore[assignment]
    _report.write(late=True, places=frames[::-1][-_MOST_PLACES:])
    _exit(1)


def _hows_of_ranks() -> List[int]:
    """Gathers how the test has ended on each rank."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    own = torch.tensor([_HOWS.index(_report.ended["how"])], dtype=torch.int64)
    of_all = torch.zeros(size, dtype=torch.int64)
    if shardproof._link is not None:
        Calls(shardproof.link(), 0).start("all_gather", own, of_all)()
    return of_all.tolist()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: Any) -> Any:
    _report.ended = {}
    _report.write(begun=item.nodeid)
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, float(os.environ.get("LONGEST_TEST", "300")))
    yield
    if _report.ended:
        _report.write(**_report.ended, marks=sorted({mark.name for mark in item.iter_markers()}))
        if len(set(_hows_of_ranks())) > 1:
            _report.write(parted=item.nodeid)
    signal.setitimer(signal.ITIMER_REAL, 0)
