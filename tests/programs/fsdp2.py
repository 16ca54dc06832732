"""Sharded data parallelism: two steps of fully_shard, flat and with replicas. Losses and parameters equal those of one
rank that has all samples."""

import torch
import torch.distributed as dist

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # before torch 2.6
    from torch.distributed._composable.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 12), torch.nn.Tanh(), torch.nn.Linear(12, 4)]
    return torch.nn.Sequential(*layers).double()


def train(net: torch.nn.Module, first: int, ranks: int) -> torch.Tensor:
    """Returns the loss of the last step."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(3)
    loss = torch.zeros(())
    for _ in range(2):
        data = torch.randn(dist.get_world_size(), 3, 8, generator=generator).double()
        optimizer.zero_grad()
        loss = net(data[first : first + ranks].flatten(0, 1)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.detach()


def main() -> None:
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    expected = model()
    expected_loss = train(expected, 0, size)
    shapes = [((size,), ("dp",))]
    if size > 2:
        shapes.append(((size // 2, 2), ("replicate", "shard")))
    for shape, names in shapes:
        mesh = init_device_mesh("cuda", shape, mesh_dim_names=names)
        net = model()
        for layer in net:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(net, mesh=mesh)
        loss = train(net, rank, 1)
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        torch.testing.assert_close(loss, expected_loss, rtol=1e-12, atol=0)
        for mine, theirs in zip(net.parameters(), expected.parameters()):
            torch.testing.assert_close(mine.full_tensor(), theirs, rtol=1e-9, atol=1e-12)
    if rank == 0:
        print(f"fsdp2: loss {float(loss):.8f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
