"""A program that starts its ranks itself, by torch.multiprocessing. Each virtual rank is the process of its place."""

import os
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank: int, size: int, port: int) -> None:
    """The usual function of such a program."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    x = torch.tensor([float(rank)])
    dist.all_reduce(x)
    assert x.item() == size * (size - 1) / 2 and rank == dist.get_rank()
    dist.destroy_process_group()


def started(function: Any, *arguments: Any) -> Any:
    """Starts processes without waiting for them at once."""
    context = mp.start_processes(function, arguments, nprocs=arguments[0], join=False, start_method="fork")
    while not context.join():
        pass
    return context


if __name__ == "__main__":
    ranks = int(os.environ["WORLD_SIZE"])
    mp.spawn(main, args=(ranks, 29531), nprocs=ranks, join=True)
    started(main, ranks, 29532)
    try:
        mp.spawn(main, args=(ranks + 1, 29533), nprocs=ranks + 1)
    except NotImplementedError as error:
        assert f"starts {ranks + 1} processes of its own" in str(error) and f"--ranks {ranks + 1}" in str(error), error
    else:
        raise AssertionError("another number of processes is not refused")
    print("own_ranks: ok", flush=True)
