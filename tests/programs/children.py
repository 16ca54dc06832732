"""Processes that a rank starts beside its calls, which are no ranks. With the word `call`, one of them makes a call."""

import multiprocessing
import os
import subprocess
import sys
from typing import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

GLOO = "import torch.distributed as d; d.init_process_group('gloo', store=d.HashStore(), rank=0, world_size=1)"


def code_of(child: Callable[[], object]) -> int:
    """Returns the exit code of a forked process, which goes on as the rank would."""
    process = os.fork()
    if process == 0:
        child()
        sys.exit(0)
    return os.WEXITSTATUS(os.waitpid(process, 0)[1])


def helps(number: int, text: str) -> None:
    print(text, number)


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except NotImplementedError as error:
        assert "has forked makes a call" in str(error), error
    else:
        raise AssertionError("the call is not refused")


def main() -> None:
    dist.init_process_group("gloo")
    x = torch.ones(1)
    work = dist.all_reduce(x, async_op=True)
    assert code_of(lambda: None) == 0
    assert code_of(lambda: sys.exit(3)) == 3
    helper = multiprocessing.get_context("fork").Process(target=print, args=("a helper of the program",))
    helper.start()
    helper.join()
    assert helper.exitcode == 0
    mp.start_processes(helps, ("a helper of torch",), nprocs=1, start_method="fork")
    work.wait()
    assert x.item() == dist.get_world_size()
    other = subprocess.run([sys.executable, "-c", GLOO], capture_output=True, text=True, check=False)
    assert other.returncode != 0 and "shardproof_run_serves_no_process" in other.stderr, other.stderr
    if sys.argv[1:] == ["call"]:
        assert code_of(lambda: refused(lambda: dist.all_reduce(x))) == 0
    dist.barrier()
    dist.destroy_process_group()
    print("children: ok", flush=True)


if __name__ == "__main__":
    main()
