"""Two steps of a small model on four samples, whole or divided: `shardproof run --against '--how whole'` compares them.

    trained.py --how whole|ddp|fsdp2|dtensor [--mistake twice|other_samples|no_mean|other_beta]
                 [--optimizer AdamW|SGD|...]
"""

import argparse
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

SAMPLES = 4


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.norm = torch.nn.LayerNorm(8)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(self.norm(x))))


def divided(how: str, is_averaged: bool) -> Any:
    net = Net()
    if how == "ddp" and is_averaged:
        return DistributedDataParallel(net)
    if how == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        return fully_shard(net, mesh=init_device_mesh("cuda", (dist.get_world_size(),)))
    if how == "dtensor":
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cuda", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(net, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        return fully_shard(net, mesh=mesh["dp"])
    return net


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", default="whole")
    parser.add_argument("--mistake", default="")
    parser.add_argument("--optimizer", default="AdamW")
    given = parser.parse_args()
    dist.init_process_group("nccl")
    size = {"whole": 1, "dtensor": dist.get_world_size() // 2}.get(given.how, dist.get_world_size())
    replica = dist.get_rank() // (2 if given.how == "dtensor" else 1) if size > 1 else 0
    net = divided(given.how, given.mistake != "no_mean")
    momentum = {"momentum": 0.9} if given.optimizer in ("SGD", "RMSprop") else {}
    optimizer = getattr(torch.optim, given.optimizer)(net.parameters(), lr=0.01, **momentum)
    if given.mistake == "other_beta" and given.how != "whole" and dist.get_rank() > 0:
        optimizer.param_groups[0]["betas"] = (0.9, 0.99)
    generator = torch.Generator().manual_seed(3)
    for _ in range(2):
        data = torch.randn(SAMPLES, 3, 8, generator=generator)
        samples = data[0::size] if given.mistake == "other_samples" and given.how != "whole" else data[replica::size]
        optimizer.zero_grad()
        net(samples).square().mean().backward()
        if given.mistake == "twice" and given.how != "whole":
            for parameter in net.parameters():
                parameter.grad.mul_(2)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
