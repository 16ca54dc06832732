"""Starts the ranks of a program: imports what the program will import, forks once for each rank, and runs the
program in each of them.

    python begin.py [-m MODULE | -c CODE | PROGRAM] ARGUMENTS...

Shapes  SHARDPROOF_GUESTS has a JSON object: `sockets` and `segments`, the file descriptors of each rank; `outputs`,
        those that its output goes to; `status`, the one to which "begun" is written when all ranks run, and then
        a line at the end of each rank: its number and its exit code, or minus the signal that has ended it;
        `store`, a file that the ranks share; `ranks_of_node`, how many ranks a node has; `gives_local_rank`,
        whether the program's first argument is --local-rank=K, as torch.distributed.launch gives it; `no_gpu`,
        whether what goes to a GPU stays on the CPU also where there is a GPU.
Errors  a program that raises writes its traceback to its standard error, and says so to its rank.
"""

import atexit
import importlib
import json
import os
import runpy
import sys
import threading
import traceback
from typing import Any, Dict, List

import shardproof

from .link import Link, LinkError, WorldEnded


_MOST_TEXT = 300  # characters of an exception


def _has_torch() -> bool:
    try:
        importlib.import_module("torch")
    except ImportError:
        return False
    return True


def _has_gpu() -> bool:
    """Whether there is a GPU, asked in a process of its own, because a process that has used CUDA cannot fork."""
    if not os.path.exists("/dev/nvidiactl"):
        return False
    child = os.fork()
    if child == 0:
        os._exit(0 if importlib.import_module("torch").cuda.is_available() else 1)
    return os.waitpid(child, 0)[1] == 0


def _die_with_parent(parent: int) -> None:
    """Has the system end this process when the one that has forked it ends, or does so if it has ended."""
    import ctypes

    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != parent:
        os._exit(1)


def _search_first(folder: str) -> None:
    """Has modules searched in a folder first, as the interpreter does without -I and -P."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):  # since Python 3.11
        sys.path.insert(0, folder)


def _run_program(words: List[str]) -> None:
    """Runs a program as the interpreter would, from its words."""
    if words[:1] == ["-m"]:
        sys.argv = words[1:]
        _search_first(os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[:1] == ["-c"]:
        sys.argv = ["-c", *words[2:]]
        _search_first("")
        main = sys.modules["__main__"].__dict__
        exec(compile(words[1], "<string>", "exec"), main)  # noqa: S102
    else:
        sys.argv = list(words)
        _search_first(os.path.dirname(os.path.abspath(words[0])))
        runpy.run_path(words[0], run_name="__main__")


def _text_of(error: BaseException) -> str:
    """One line that says what was raised, and where the program stood."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if os.sep + "shardproof" + os.sep not in frame.filename]
    from .sites import short_name

    where = f" ({short_name(own[-1].filename)}:{own[-1].lineno} in {own[-1].name})" if own else ""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    return text[:_MOST_TEXT] + where


def _code_of(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1


def _end_as_an_interpreter() -> None:
    """Waits for the program's threads and runs what it has left for its end."""
    threading._shutdown()
    atexit._run_exitfuncs()


def _play(link: Link, words: List[str]) -> int:
    """Runs the program on a rank, and tells the rank how it ended. Returns the exit code."""
    code = 0
    try:
        _run_program(words)
        _end_as_an_interpreter()
    except SystemExit as error:
        code = _code_of(error)
        if code != 0 and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        if code == 0:
            _end_as_an_interpreter()
    except WorldEnded:
        return 3
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        link.ask({"do": "raised", "text": _text_of(error)})
        return 1
    if code != 0:
        link.ask({"do": "raised", "text": f"the program has ended with exit code {code}"})
    else:
        link.finish_sends()
        link.ask({"do": "end"})
    return code


def _variables(rank: int, size: int, of_node: int) -> Dict[str, str]:
    """Returns the variables that torchrun sets for a rank, with so many ranks on a node."""
    numbers = {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": rank % of_node,
        "LOCAL_WORLD_SIZE": of_node,
        "GROUP_RANK": rank // of_node,
        "GROUP_WORLD_SIZE": size // of_node,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": size,
    }
    return {name: str(number) for name, number in numbers.items()}


def _with_first_argument(words: List[str], argument: str) -> List[str]:
    """Returns the words of a program with an argument in front of its own."""
    first = 2 if words[0] in ("-m", "-c") else 1
    return [*words[:first], argument, *words[first:]]


def _be_rank(rank: int, settings: Dict[str, Any], words: List[str], has_torch: bool) -> int:
    """Runs one rank in this process."""
    _die_with_parent(settings["starter"])
    atexit._clear()
    size = len(settings["sockets"])
    for other in range(size):
        if other != rank:
            os.close(settings["sockets"][other])
            os.close(settings["segments"][other])
    os.close(settings["status"])
    output, errors = settings["outputs"][rank]
    os.dup2(output, 1)
    os.dup2(errors, 2)
    of_node = settings["ranks_of_node"]
    os.environ.update(_variables(rank, size, of_node))
    if settings["gives_local_rank"]:
        words = _with_first_argument(words, f"--local-rank={rank % of_node}")
    link = Link(settings["sockets"][rank], settings["segments"][rank])
    shardproof._link = link
    if has_torch:
        if settings["no_gpu"] or not settings["has_gpu"]:
            from . import cuda

            cuda.install(rank % of_node, of_node)
        from . import takeover

        takeover.install(link, settings["store"])
    try:
        return _play(link, words)
    except (LinkError, WorldEnded):
        return 3


def main() -> int:
    """Forks the ranks, and waits for them. Returns 0; the report of the run has the verdict."""
    settings = json.loads(os.environ.pop("SHARDPROOF_GUESTS"))
    words = sys.argv[1:]
    has_torch = _has_torch()
    settings["starter"] = os.getpid()
    settings["has_gpu"] = has_torch and _has_gpu()
    ranks: Dict[int, int] = {}
    for rank in range(len(settings["sockets"])):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = _be_rank(rank, settings, words, has_torch)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        ranks[child] = rank
    for descriptor in settings["sockets"] + settings["segments"] + [d for pair in settings["outputs"] for d in pair]:
        os.close(descriptor)
    os.write(settings["status"], b"begun\n")
    while ranks:
        child, status = os.wait()
        if child in ranks:
            os.write(settings["status"], f"{ranks.pop(child)} {os.waitstatus_to_exitcode(status)}\n".encode())
    return 0
