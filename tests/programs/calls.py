"""Calls of torch.distributed in its many forms. Each rank checks what it gets."""

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable


def objects(rank: int, size: int) -> None:
    all_of_them: Any = [None] * size
    dist.all_gather_object(all_of_them, {"rank": rank})
    assert all_of_them == [{"rank": r} for r in range(size)]
    at_root: Any = [None] * size if rank == 1 else None
    dist.gather_object("x" * rank, at_root, dst=1)
    assert rank != 1 or at_root == ["x" * r for r in range(size)]
    told = ["a", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(told, 0)
    assert told == ["a", 0]
    mine: Any = [None]
    dist.scatter_object_list(mine, [("part", r) for r in range(size)] if rank == 0 else None, 0)
    assert mine == [("part", rank)]
    if rank == 0 and hasattr(dist, "send_object_list"):
        dist.send_object_list([3.5], 1)
    elif rank == 1 and hasattr(dist, "send_object_list"):
        dist.recv_object_list(mine, 0)
        assert mine == [3.5]


def started(rank: int, size: int) -> None:
    x, y = torch.full((3,), float(rank)), torch.zeros(3)
    after, before = (rank + 1) % size, (rank - 1) % size
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.irecv, y, before, tag=7), dist.P2POp(dist.isend, x, after, tag=7)]
    )
    for work in works:
        work.wait()
    assert y.tolist() == [float(before)] * 3
    total = size * (size - 1) / 2
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert doubled.wait().tolist() == [2 * total] * 3 and work.is_completed()
    parts = [torch.full((2,), float(rank)), torch.full((1,), float(rank))]
    wholes = [torch.zeros(2 * size), torch.zeros(size)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for whole, part in zip(wholes, parts):
            dist.all_gather_into_tensor(whole, part)
    manager.wait()
    assert wholes[1].tolist() == list(range(size)) and wholes[0][::2].tolist() == list(range(size))
    with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.all_reduce(parts[0])
        dist.all_reduce(parts[1])
    manager.wait()
    assert parts[1].item() == total and parts[0].tolist() == [total] * 2


def functions(rank: int, size: int) -> None:
    group = dist.group.WORLD
    x = torch.arange(2.0 * size).reshape(size, 2) + rank
    assert torch.equal(functional.all_reduce(x, "sum", group) + 0, sum(x - rank + r for r in range(size)))
    assert (functional.all_gather_tensor(x, 0, group) + 0).shape == (size * size, 2)
    assert torch.equal(functional.reduce_scatter_tensor(x, "avg", 0, group)[0], (x - rank)[rank] + (size - 1) / 2)
    given = functional.all_to_all_single(x, [1] * size, [1] * size, group)
    assert torch.equal(given + 0, (x - rank)[rank] + torch.arange(float(size)).reshape(size, 1))
    y = torch.full((2,), float(rank), requires_grad=True)
    (differentiable.all_reduce(y) * (rank + 1)).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [size * (size + 1) / 2] * 2


if __name__ == "__main__":
    dist.init_process_group("nccl")
    for check in (objects, started, functions):
        check(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
    print("calls: ok", flush=True)
