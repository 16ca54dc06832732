"""Programs that hang on a cluster, one for each kind, and their healthy twins.

    hangs.py KIND
    hangs.py --healthy              the healthy twins of all kinds

Each kind has its mistake on the line with the comment "here", or on the rank that does not come to that line.
"""

import os
import signal
import sys

import torch
import torch.distributed as dist


def early_end_of_loop(healthy: bool) -> None:
    x = torch.ones(4)
    for i in range(4):
        if dist.get_rank() == 1 and i == 3 and not healthy:
            break
        dist.all_reduce(x)  # here


def crossed_groups(healthy: bool) -> None:
    pair = dist.new_group([0, 1])
    x = torch.ones(4)
    if dist.get_rank() == 0 or healthy:
        dist.all_reduce(x)
        if dist.get_rank() < 2:
            dist.all_reduce(x, group=pair)
    elif dist.get_rank() == 1:
        dist.all_reduce(x, group=pair)  # here
        dist.all_reduce(x)
    else:
        dist.all_reduce(x)


def forgotten_wait(healthy: bool) -> None:
    x = torch.ones(4)
    work = dist.all_reduce(x, async_op=True)  # here
    if dist.get_rank() != 1 or healthy:
        work.wait()


def branch_of_rank_0(healthy: bool) -> None:
    x = torch.ones(1)
    if dist.get_rank() == 0 or healthy:
        dist.broadcast(x, 0)  # here


def other_sizes(healthy: bool) -> None:
    x = torch.ones(4 if healthy else 4 + dist.get_rank() % 2)
    dist.all_reduce(x)  # here


def other_dtype(healthy: bool) -> None:
    x = torch.ones(4, dtype=torch.float16 if healthy or dist.get_rank() == 0 else torch.bfloat16)
    dist.all_reduce(x)  # here


def send_without_recv(healthy: bool) -> None:
    x = torch.ones(4)
    if dist.get_rank() == 0:
        dist.send(x, 1)  # here
    elif dist.get_rank() == 1 and healthy:
        dist.recv(x, 0)


def exception_in_one_rank(healthy: bool) -> None:
    x = torch.ones(4)
    if dist.get_rank() == 1 and not healthy:
        raise ValueError("the loss is not finite")  # here
    dist.all_reduce(x)


def group_not_by_all(healthy: bool) -> None:
    if dist.get_rank() < 2 or healthy:
        dist.new_group([0, 1])  # here


def rank_that_ends(healthy: bool) -> None:
    x = torch.ones(4)
    dist.all_reduce(x)
    if dist.get_rank() == 1 and not healthy:
        sys.exit(0)
    dist.all_reduce(x)  # here


def other_order(healthy: bool) -> None:
    x, y = torch.ones(4), torch.zeros(4)
    if dist.get_rank() == 0 or healthy:
        dist.all_reduce(x)
        dist.all_reduce(y)
    else:
        dist.all_reduce(y)  # here
        dist.all_reduce(x)


def killed_process(healthy: bool) -> None:
    x = torch.ones(4)
    dist.all_reduce(x)
    if dist.get_rank() == 1 and not healthy:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)  # here


KINDS = (
    early_end_of_loop, crossed_groups, forgotten_wait, branch_of_rank_0, other_sizes, other_dtype, send_without_recv,
    exception_in_one_rank, group_not_by_all, rank_that_ends, other_order, killed_process,
)  # fmt: skip

if __name__ == "__main__":
    dist.init_process_group("nccl")
    for kind in KINDS:
        if sys.argv[1] in (kind.__name__, "--healthy"):
            kind(sys.argv[1] == "--healthy")
    dist.barrier()
    dist.destroy_process_group()
