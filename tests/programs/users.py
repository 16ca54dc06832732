"""What PyTorch builds on process groups, as programs for GPUs use it. Each part makes a step or moves some data."""

import sys
import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def wrapped() -> DistributedDataParallel:
    torch.manual_seed(1)
    layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)]
    return DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), device_ids=[dist.get_rank()])


def step(net: torch.nn.Module) -> None:
    net(torch.randn(2, 8, device="cuda")).float().sum().backward()


def of_fsdp1() -> None:
    net = FullyShardedDataParallel(wrapped().module, device_id=torch.cuda.current_device())
    optimizer = torch.optim.Adam(net.parameters())
    step(net)
    assert net.clip_grad_norm_(1.0) > 0
    optimizer.step()


def of_hooks() -> None:
    net = wrapped()
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.5)
    net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for _ in range(4):
        step(net)


def of_sharded_optimizer() -> None:
    net = wrapped()
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.1)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        step(net)
    optimizer.step()
    optimizer.consolidate_state_dict(0)


def of_checkpoints() -> None:
    folder: Any = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, 0)
    state = {"weight": torch.full((3,), 5.0)}
    checkpoint.save(state, checkpoint_id=folder[0])
    state["weight"].zero_()
    checkpoint.load(state, checkpoint_id=folder[0])
    assert state["weight"].tolist() == [5.0] * 3


def of_compilers() -> None:
    @torch.compile(fullgraph=True)
    def doubled(x: Any) -> Any:
        return 2 * x

    net = torch.nn.Linear(8, 4)
    assert torch.compile(net) is net and torch.compile(mode="max-autotune")(net) is net
    net.compile()
    assert torch.equal(net(doubled(torch.ones(8))), net.forward(torch.full((8,), 2.0)))
    assert "torch._inductor.compile_fx" not in sys.modules, "the compiler is imported"


def of_loaders() -> None:
    data = TensorDataset(torch.arange(16.0))
    for (x,) in DataLoader(data, 2, sampler=DistributedSampler(data), pin_memory=True):
        dist.all_reduce(x.cuda(non_blocking=True))


if __name__ == "__main__":
    dist.init_process_group("nccl")
    for part in (of_fsdp1, of_hooks, of_sharded_optimizer, of_checkpoints, of_compilers, of_loaders):
        part()
    dist.destroy_process_group()
    print("users: ok", flush=True)
