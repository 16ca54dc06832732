"""Tensor parallelism by DTensor beside data parallelism: a mesh of two dimensions, a column-wise and a row-wise layer
and a norm with sequence parallelism. Losses and parameters equal those of one rank that has all samples."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.norm = torch.nn.LayerNorm(8)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(self.norm(x))))


def train(net: torch.nn.Module, first: int, replicas: int, of: int) -> torch.Tensor:
    """Returns the loss of the last step."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, foreach=False)
    generator = torch.Generator().manual_seed(3)
    loss = torch.zeros(())
    for _ in range(2):
        data = torch.randn(of, 4, 8, generator=generator).double()
        optimizer.zero_grad()
        loss = net(data[first : first + replicas]).square().mean()
        loss.backward()
        optimizer.step()
    return loss.detach()


def main() -> None:
    dist.init_process_group("nccl")
    size = dist.get_world_size()
    mesh = init_device_mesh("cuda", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    expected = Block()
    expected_loss = train(expected, 0, size // 2, size // 2)
    net = Block()
    plan = {"norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel()}
    parallelize_module(net, mesh["tp"], plan)
    fully_shard(net, mesh=mesh["dp"])
    loss = train(net, mesh.get_local_rank("dp"), 1, size // 2)
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-12, atol=0)
    for mine, theirs in zip(net.parameters(), expected.parameters()):
        assert isinstance(mine, DTensor)
        torch.testing.assert_close(mine.full_tensor(), theirs, rtol=1e-9, atol=1e-12)
    if dist.get_rank() == 0:
        print(f"dtensor: loss {float(loss):.8f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
