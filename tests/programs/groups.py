"""Groups and stores that programs make in many ways. Each rank checks who is in its groups."""

import datetime
import os
from typing import Any

import torch
import torch.distributed as dist


def members(group: Any) -> list:
    """Returns the global ranks of a group, found by a gather in it."""
    parts = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, torch.tensor([dist.get_rank()]), group=group)
    return [int(part) for part in parts]


def begin_in_many_ways(rank: int, size: int) -> None:
    """Each way of torch.distributed to begin, one after the other."""
    store = dist.TCPStore("127.0.0.1", 29517, size, rank == 0, timeout=datetime.timedelta(seconds=60))
    store.set(f"key{rank}", "value")
    assert store.get("key0") == b"value"
    ways = (
        {"backend": "nccl", "init_method": "env://"},
        {"backend": "gloo", "init_method": "tcp://127.0.0.1:29518", "rank": rank, "world_size": size},
        {"backend": "gloo", "store": store, "rank": rank, "world_size": size},
        {"backend": "cpu:gloo,cuda:nccl", "timeout": datetime.timedelta(seconds=9)},
        {"backend": "nccl", "device_id": torch.device("cuda", rank)},
    )
    for way in ways:
        dist.init_process_group(**way)
        assert dist.get_backend() == way["backend"] and members(None) == list(range(size))
        dist.barrier(device_ids=[rank])
        dist.destroy_process_group()


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    begin_in_many_ways(rank, size)
    dist.init_process_group("nccl")
    evens, odds = list(range(0, size, 2)), list(range(1, size, 2))
    mine = evens if rank % 2 == 0 else odds
    gloo = [dist.new_group(ranks, backend="gloo") for ranks in (evens, odds)][rank % 2]
    assert dist.get_backend(gloo) == "gloo" and dist.get_backend() == "nccl" and members(gloo) == mine
    dist.monitored_barrier(gloo)
    by_number, _ = dist.new_subgroups_by_enumeration([evens, odds])
    assert members(by_number) == mine
    pairs, _ = dist.new_subgroups(2)
    assert members(pairs) == [rank - rank % 2, rank - rank % 2 + 1]
    if hasattr(dist, "split_group"):
        split = dist.split_group(split_ranks=[evens, odds])
        assert members(split) == mine and dist.get_group_rank(split, rank) == mine.index(rank)
    everyone = dist.new_group(use_local_synchronization=True)
    assert members(everyone) == list(range(size))
    dist.destroy_process_group(gloo)
    mesh = dist.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    assert members(mesh["tp"].get_group()) == [rank - rank % 2, rank - rank % 2 + 1]
    assert members(mesh["dp"].get_group()) == mine
    dist.destroy_process_group()
    print("groups: ok", flush=True)


if __name__ == "__main__":
    main()
