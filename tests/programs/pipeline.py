"""Pipelines of torch.distributed.pipelining, one stage per rank: 1F1B and GPipe. Losses and gradients equal those of
one rank that has all stages."""

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

MICROBATCHES = 4


def stages() -> list:
    torch.manual_seed(1)
    return [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()).double() for _ in range(dist.get_world_size())]


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).square().mean()


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    data, target = torch.randn(2, 2 * MICROBATCHES, 8, generator=torch.Generator().manual_seed(3)).double()
    whole = stages()
    expected = [
        loss_of(torch.nn.Sequential(*whole)(x), y) for x, y in zip(data.chunk(MICROBATCHES), target.chunk(MICROBATCHES))
    ]
    (sum(expected) / MICROBATCHES).backward()
    for schedule_of in (ScheduleGPipe, Schedule1F1B):
        mine = stages()[rank]
        stage = PipelineStage(mine, rank, size, torch.device("cpu"))
        schedule = schedule_of(stage, MICROBATCHES, loss_fn=loss_of)
        losses: Any = []
        given = {"target": target, "losses": losses} if rank == size - 1 else {}
        schedule.step(*([data] if rank == 0 else []), **given)
        for found, wanted in zip(losses, expected):
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
        for found, wanted in zip(mine.parameters(), whole[rank].parameters()):
            torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-9, atol=1e-12)
    if rank == size - 1:
        print(f"pipeline: loss {float(sum(losses).detach()) / MICROBATCHES:.8f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
