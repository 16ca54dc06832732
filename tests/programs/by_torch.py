"""Calls that torch makes by itself: those of Join, of a mesh that begins the groups, of checkpoints and coalescing."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


def with_join() -> None:
    """Join drops works of its own."""
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    with Join([model]):
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()


def with_async_save(rank: int) -> None:
    if not hasattr(checkpoint, "async_save"):
        return
    folder = [tempfile.mkdtemp() if rank == 0 else ""]
    dist.broadcast_object_list(folder)
    weight = torch.full((2,), 7.0)
    checkpoint.async_save({"weight": weight}, checkpoint_id=folder[0]).result()
    dist.barrier()
    read = {"weight": torch.zeros(2)}
    checkpoint.load(read, checkpoint_id=folder[0])
    assert read["weight"].tolist() == [7.0, 7.0]


def with_coalescing(size: int) -> None:
    a, b = torch.ones(2), torch.ones(4)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as works:
        dist.all_reduce(a)
        dist.all_reduce(b)
    works.wait()
    assert a.tolist() + b.tolist() == [float(size)] * 6
    parts = [[torch.zeros(2), torch.zeros(4)] for _ in range(size)]
    dist.all_gather_coalesced(parts, [a, b])
    assert parts[0][1].tolist() == [float(size)] * 4


def main() -> None:
    mesh = dist.init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    rank, size = dist.get_rank(), dist.get_world_size()
    assert mesh.size() == size
    with_join()
    with_async_save(rank)
    with_coalescing(size)
    group = dist.new_group(list(range(size)), group_desc="world")
    dist.barrier(group)
    dist.destroy_process_group()
    print("by_torch: ok", flush=True)


if __name__ == "__main__":
    main()
