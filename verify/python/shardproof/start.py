"""Starts the ranks of programs, one run after another: imports what the programs will import, forks once for each rank of
a run, and runs the program in each of them.

    python begin.py [-m MODULE | -c CODE | PROGRAM] ARGUMENTS...

Shapes  SHARDPROOF_RUNS has the number of a socket, from which the descriptors of runs come: a file with the settings
        and the words of the program; the pipe to which "begun" is written when all ranks run, and then a line at the
        end of each rank: its number and its exit code, or minus the signal that has ended it; a file that the ranks
        share; and of each rank a socket, a segment of memory, and the pipes for its output and its errors.
        The settings are a JSON object: `ranks_of_node`, how many ranks a node has; `gives_local_rank`,
        whether the program's first argument is --local-rank=K, as torch.distributed.launch gives it; `no_gpu`,
        whether what goes to a GPU stays on the CPU also where there is a GPU; `publishes` and `draws_weights`,
        whether the ranks tell what they compute (megatron.py), and whether weights are drawn first; `exact`, whether
        they compute in f64 then; `watched`, patterns of modules whose values are told, too (watched.py).
Calls   the signal SIGRTMAX has the ranks write the lines at which they stand.
Errors  a program that raises writes its traceback to its standard error, and says so to its rank (ends.py).
"""

import faulthandler
import importlib
import json
import os
import random
import runpy
import signal
import socket
import sys
import traceback
from types import FrameType
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional

import shardproof

from . import ends, preload
from .link import Link, LinkError, WorldEnded

# The signal at which a rank writes where it stands. The keeper (verify/run/keeper.h) sends it to the starter.
_WHERE = signal.SIGRTMAX
_exit_at_once = os._exit  # a rank's program gets another one
_MOST_DESCRIPTORS = 253  # in a message


class _Ends(NamedTuple):
    """The descriptors of a rank."""

    socket: int
    segment: int
    output: int
    errors: int


class _Run(NamedTuple):
    """A run of a program as ranks."""

    settings: Dict[str, Any]
    words: List[str]
    status: int
    store: int
    ranks: List[_Ends]

    def close_all_but(self, kept: Optional[_Ends]) -> None:
        """Closes what the ranks have, but for one of them."""
        for rank in self.ranks:
            for descriptor in rank if rank is not kept else ():
                os.close(descriptor)


def _next_run(control: socket.socket) -> Optional[_Run]:
    """Receives a run; none where there is no further one."""
    found: List[int] = []
    more = b"+"
    while more == b"+":
        more, descriptors, _, _ = socket.recv_fds(control, 1, _MOST_DESCRIPTORS)
        found += descriptors
    if not more:
        return None
    settings, status, store, *ends_of_ranks = found
    with open(settings, "rb") as file:
        text, *words = file.read().split(b"\0")
    ranks = [_Ends(*ends_of_ranks[first : first + 4]) for first in range(0, len(ends_of_ranks), 4)]
    return _Run(json.loads(text), [os.fsdecode(word) for word in words], status, store, ranks)


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


class _Starter:
    """This process: what it has imported, and the ranks that it has forked."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.process = os.getpid()
        self.has_torch = preload.torch()
        self.has_gpu = self.has_torch and _has_gpu()
        if self.has_torch and not self.has_gpu:
            preload.parts_of_torch()
        self.learned = preload.Learned()
        self.uses_gpu = False
        self._is_prepared = False
        self.port = os.environ.get("MASTER_PORT", "")  # where the user sets it
        self.ranks: Dict[int, int] = {}  # by process

    def prepare(self, settings: Dict[str, Any]) -> None:
        """Puts stand-ins into torch before the first run, and imports what the program will import."""
        if self._is_prepared or not self.has_torch:
            return
        self._is_prepared = True
        self.uses_gpu = self.has_gpu and not settings["no_gpu"]
        if not self.uses_gpu:
            from . import cuda

            preload.interpret_triton()
            cuda.install()
        from . import compiled, transformer_engine

        transformer_engine.install(self.uses_gpu)
        compiled.install()
        if not settings["publishes"]:  # then ranks change torch further
            preload.parts_of_program()


def _seed(rank: int, has_torch: bool) -> None:
    """Gives a rank's generators a state of their own, which a fork has from its parent: a process that seeds nothing draws
    other numbers than the others, but the same in every run."""
    random.seed(rank)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(rank)
    if has_torch:
        sys.modules["torch"].manual_seed(rank)


def _be_rank(rank: int, run: _Run, starter: _Starter) -> int:
    """Runs one rank in this process."""
    _die_with_parent(starter.process)
    os.setsid()  # as torchrun does, so that a program may send a signal to its own group
    _seed(rank, starter.has_torch)
    settings, own, size = run.settings, run.ranks[rank], len(run.ranks)
    run.close_all_but(own)
    os.close(run.status)
    os.dup2(own.output, 1)
    os.dup2(own.errors, 2)
    _say_where_it_stands()
    for descriptor in (own.socket, own.segment):
        os.set_inheritable(descriptor, False)  # link.py lets go of the link in forked processes
    of_node = settings["ranks_of_node"]
    os.environ.update(_variables(rank, size, of_node))
    words = run.words
    if settings["gives_local_rank"]:
        words = _with_first_argument(words, f"--local-rank={rank % of_node}")
    link = Link(own.socket, own.segment)
    shardproof._link = link
    if starter.has_torch:
        if not starter.uses_gpu:
            from . import cuda

            cuda.be(rank % of_node, of_node)
        from . import takeover

        takeover.install(link, f"/proc/self/fd/{run.store}")
        if settings["publishes"]:
            from . import exact, values

            exact.drop_nothing()
            if settings["exact"]:
                exact.install()
            shardproof._keep_values(values.told(link), settings["draws_weights"], settings["watched"])
    try:
        return ends.run_to_end(link, lambda: _run_program(words))
    except (LinkError, WorldEnded):
        ends.flush()
        return 3


def _fork_rank(rank: int, run: _Run, starter: _Starter) -> int:
    """Returns the process of a rank."""
    child = os.fork()
    if child != 0:
        return child
    code = 1
    try:
        starter.control.close()
        code = _be_rank(rank, run, starter)
        if rank == 0:
            starter.learned.tell()
    except BaseException:
        traceback.print_exc()
    finally:
        _exit_at_once(code)


def _start(run: _Run, starter: _Starter) -> None:
    """Forks the ranks of a run, and waits for them."""
    os.environ["MASTER_PORT"] = starter.port or str(_free_port())
    starter.prepare(run.settings)
    for rank in range(len(run.ranks)):
        starter.ranks[_fork_rank(rank, run, starter)] = rank
    run.close_all_but(None)
    os.write(run.status, b"begun\n")
    while starter.ranks:
        child, status = os.wait()
        if child in starter.ranks:
            line = f"{starter.ranks.pop(child)} {os.waitstatus_to_exitcode(status)}\n"
            os.write(run.status, line.encode())
    os.close(run.status)
    os.close(run.store)


def main() -> NoReturn:
    """Starts runs until there is no further one. The exit code is 0, and the reports of the runs have the verdicts."""
    starter = _Starter(socket.socket(fileno=int(os.environ.pop("SHARDPROOF_RUNS"))))
    _ask_where(starter.ranks)
    run = _next_run(starter.control)
    while run is not None:
        _start(run, starter)
        run = _next_run(starter.control)
        starter.learned.imports()
    ends.flush()
    _exit_at_once(0)
