"""Starts the ranks of a program: imports what the program will import, forks once for each rank, and runs the
program in each of them.

    python begin.py [-m MODULE | -c CODE | PROGRAM] ARGUMENTS...

Shapes  SHARDPROOF_GUESTS has a JSON object: `sockets` and `segments`, the file descriptors of each rank; `outputs`,
        those that its output goes to; `status`, the one to which "begun" is written when all ranks run, and then
        a line at the end of each rank: its number and its exit code, or minus the signal that has ended it;
        `store`, a file that the ranks share; `ranks_of_node`, how many ranks a node has; `gives_local_rank`,
        whether the program's first argument is --local-rank=K, as torch.distributed.launch gives it; `no_gpu`,
        whether what goes to a GPU stays on the CPU also where there is a GPU; `publishes` and `draws_weights`,
        whether the ranks tell what they compute (megatron.py), and whether weights are drawn first; `exact`, whether they
        compute in f64 then.
Calls   the signal SIGRTMAX has the ranks write the lines at which they stand.
Errors  a program that raises writes its traceback to its standard error, and says so to its rank (ends.py).
"""

import faulthandler
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import traceback
from types import FrameType
from typing import Any, Dict, List, NoReturn, Optional

import shardproof

from . import ends, preload
from .link import Link, LinkError, WorldEnded

# The signal at which a rank writes where it stands. The keeper (verify/run/keeper.h) sends it to the starter.
_WHERE = signal.SIGRTMAX
_exit_at_once = os._exit  # a rank's program gets another one


def _has_gpu() -> bool:
    """Whether there is a GPU, asked in a process of its own, because a process that has used CUDA cannot fork."""
    if not os.path.exists("/dev/nvidiactl"):
        return False
    child = os.fork()
    if child == 0:
        _exit_at_once(0 if importlib.import_module("torch").cuda.is_available() else 1)
    return os.waitpid(child, 0)[1] == 0


def _die_with_parent(parent: int) -> None:
    """Has the system end this process when the one that has forked it ends, or does so if it has ended."""
    import ctypes

    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != parent:
        _exit_at_once(1)


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


def _say_where_it_stands() -> None:
    """Has a rank write the lines at which it stands when it is asked to, and when it crashes."""
    faulthandler.enable(file=2)
    faulthandler.register(_WHERE, file=2)


def _ask_where(ranks: Dict[int, int]) -> None:
    """Passes on to all ranks the question where they stand."""

    def ask(number: int, _: Optional[FrameType]) -> None:
        for process in list(ranks):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    signal.signal(_WHERE, ask)


def _free_port() -> int:
    """Returns a port of this machine that is free."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _be_rank(rank: int, settings: Dict[str, Any], words: List[str], has_torch: bool) -> int:
    """Runs one rank in this process."""
    _die_with_parent(settings["starter"])
    size = len(settings["sockets"])
    for other in range(size):
        if other != rank:
            os.close(settings["sockets"][other])
            os.close(settings["segments"][other])
    os.close(settings["status"])
    output, errors = settings["outputs"][rank]
    os.dup2(output, 1)
    os.dup2(errors, 2)
    _say_where_it_stands()
    for descriptor in (settings["sockets"][rank], settings["segments"][rank]):
        os.set_inheritable(descriptor, False)  # link.py lets go of the link in forked processes
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
        from . import compiled, takeover, transformer_engine

        transformer_engine.install(uses_gpu=settings["has_gpu"] and not settings["no_gpu"])
        compiled.install()
        takeover.install(link, settings["store"])
        if settings["publishes"]:
            from . import exact, values

            exact.drop_nothing()
            if settings["exact"]:
                exact.install()
            shardproof._keep_values(values.told(link), settings["draws_weights"])
    try:
        return ends.run_to_end(link, lambda: _run_program(words))
    except (LinkError, WorldEnded):
        ends.flush()
        return 3


def main() -> NoReturn:
    """Forks the ranks, waits for them, and ends this process, which has nothing to tidy up: the exit code is 0, and the
    report of the run has the verdict."""
    settings = json.loads(os.environ.pop("SHARDPROOF_GUESTS"))
    words = sys.argv[1:]
    has_torch = preload.torch()
    settings["starter"] = os.getpid()
    settings["has_gpu"] = has_torch and _has_gpu()
    if has_torch and not settings["has_gpu"]:
        preload.parts_of_torch()
    os.environ.setdefault("MASTER_PORT", str(_free_port()))
    ranks: Dict[int, int] = {}
    for rank in range(len(settings["sockets"])):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = _be_rank(rank, settings, words, has_torch)
            except BaseException:
                traceback.print_exc()
            finally:
                _exit_at_once(code)
        ranks[child] = rank
    for descriptor in settings["sockets"] + settings["segments"] + [d for pair in settings["outputs"] for d in pair]:
        os.close(descriptor)
    _ask_where(ranks)
    os.write(settings["status"], b"begun\n")
    while ranks:
        child, status = os.wait()
        if child in ranks:
            os.write(settings["status"], f"{ranks.pop(child)} {os.waitstatus_to_exitcode(status)}\n".encode())
    ends.flush()
    _exit_at_once(0)
