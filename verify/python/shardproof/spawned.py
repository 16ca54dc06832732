"""What a program under the ranks starts as its own ranks: torch.multiprocessing.spawn and start_processes.

A program that starts one process for each rank is itself run once for each rank. So each rank calls the function for
its own place, in its own process. Once a rank has its process group, what it starts are helpers, which are started.

Errors  NotServed: the program starts another number of processes than the run has ranks.
"""

import os
from typing import Any, Callable, List, Sequence

import torch.distributed as dist
import torch.multiprocessing as mp

from .threads import NotServed

# A process that a rank starts is no rank. It finds no interface if it begins a process group of its own.
_NO_INTERFACE = "shardproof_run_serves_no_process_that_a_rank_starts"
FOR_CHILDREN = {"GLOO_SOCKET_IFNAME": _NO_INTERFACE, "NCCL_SOCKET_IFNAME": "=" + _NO_INTERFACE}
_start_helpers = mp.start_processes


class _Done:
    """What start_processes returns without join: the function has already returned."""

    processes: List[Any] = []

    def join(self, timeout: Any = None, grace_period: Any = None) -> bool:
        return True

    def pids(self) -> List[int]:
        return [os.getpid()]


def _place(processes: int) -> int:
    """Returns which of the processes this rank is."""
    for rank, size in (("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("RANK", "WORLD_SIZE")):
        if processes == int(os.environ[size]):
            return int(os.environ[rank])
    raise NotServed(
        f"the program starts {processes} processes of its own, and run has {os.environ['WORLD_SIZE']} ranks: "
        f"give --ranks {processes}"
    )


def _start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    **named: Any,
) -> Any:
    """Calls the function for this rank."""
    if dist.is_initialized():
        return _start_helpers(fn, args, nprocs, join, daemon, start_method, **named)
    try:
        fn(_place(nprocs), *args)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    return None if join else _Done()


# What torch.multiprocessing.spawn is to hold, by name. Both of its functions take the same arguments.
FUNCTIONS = (("start_processes", _start_processes), ("spawn", _start_processes))
