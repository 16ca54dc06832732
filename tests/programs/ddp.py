"""Data parallelism: two steps of DistributedDataParallel with accumulation, and with a communication hook. Losses and
parameters equal those of one rank that has all samples."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

STEPS, MICROBATCHES = 2, 2


def hook_that_waits(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Waits for one call in the backward pass, and chains to the other."""
    dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda future: future.value()).wait()
    work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)]
    return torch.nn.Sequential(*layers).double()


def samples(step: int, microbatch: int, ranks: range) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + microbatch)
    return torch.randn(dist.get_world_size(), 3, 8, generator=generator).double()[list(ranks)].flatten(0, 1)


def train(net: torch.nn.Module, ranks: range) -> torch.Tensor:
    """Returns the loss of the last step."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    loss = torch.zeros(())
    for step in range(STEPS):
        optimizer.zero_grad()
        for microbatch in range(MICROBATCHES):
            data = samples(step, microbatch, ranks)
            if isinstance(net, DistributedDataParallel) and microbatch + 1 < MICROBATCHES:
                with net.no_sync():
                    net(data).square().mean().backward()
            else:
                loss = net(data).square().mean()
                loss.backward()
        optimizer.step()
    return loss.detach()


def main() -> None:
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    expected = model()
    expected_loss = train(expected, range(size))
    for hook in (None, default_hooks.allreduce_hook, hook_that_waits):
        net = DistributedDataParallel(model().cuda(), device_ids=[rank], bucket_cap_mb=0.001, gradient_as_bucket_view=True)
        if hook is not None:
            net.register_comm_hook(None, hook)
        loss = train(net, range(rank, rank + 1))
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        torch.testing.assert_close(loss, expected_loss, rtol=1e-12, atol=0)
        for mine, theirs in zip(net.module.parameters(), expected.parameters()):
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)
    if rank == 0:
        print(f"ddp: loss {float(loss):.8f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
