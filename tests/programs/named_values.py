"""Publishes values as blocks, as DTensors and whole, on as many replicas as there are ranks. The options are those of a
layout, of which it needs none; with the word `own_names` each rank publishes a value under a name of its own, too.
"""

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import shardproof

ROWS, COLUMNS = 5, 12


def refused(why: str, *arguments: Any, **place: Any) -> None:
    try:
        shardproof.publish("bad", *arguments, **place)
    except ValueError as error:
        assert "shardproof.publish('bad')" in str(error) and why in str(error), error
    else:
        raise AssertionError(f"not refused: {why}")


def main() -> None:
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    whole = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1))
    width = COLUMNS // mesh.size()
    first = dist.get_rank() * width
    own = whole[:, first : first + width]
    for step in range(5):
        shardproof.publish("block", (step + 1) * own, whole=[ROWS, COLUMNS], offset=[0, first])
    shardproof.publish("rows", distribute_tensor(whole, mesh, [Shard(0)]))  # not as many on each rank
    shardproof.publish("columns", DTensor.from_local(own, mesh, [Shard(1)]).requires_grad_())
    shardproof.publish("whole", distribute_tensor(whole, mesh, [Replicate()]))
    shardproof.publish("number", 2.5)
    shardproof.publish("ids", torch.arange(ROWS))
    refused("given together", own, whole=[ROWS, COLUMNS])
    refused("does not lie", own, whole=[ROWS, COLUMNS], offset=[1, first])
    refused("2 dimensions", own, whole=[ROWS], offset=[0])
    refused("Partial(sum)", DTensor.from_local(own, mesh, [Partial()]))
    refused("has its own place", DTensor.from_local(own, mesh, [Shard(1)]), whole=[ROWS, COLUMNS], offset=[0, first])
    refused("complex", own + 1j)
    if "own_names" in sys.argv:
        shardproof.publish(f"rank {dist.get_rank()}", whole.sum())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
