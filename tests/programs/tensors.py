"""Tensors of many kinds: what a backend refuses, by its words, and what it takes. Each rank checks the values."""

from typing import Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def refused(call: Callable[[], object], words: str) -> None:
    try:
        call()
    except (NotImplementedError, TypeError, ValueError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


def over_nccl(rank: int, size: int) -> None:
    """What ProcessGroupNCCL refuses, and what it takes beside that."""
    turned = torch.arange(6.0).reshape(2, 3).t()
    refused(lambda: dist.all_reduce(turned), "Tensors must be contiguous")
    refused(lambda: dist.broadcast(turned, 0), "Tensors must be contiguous")
    refused(lambda: dist.broadcast(torch.ones(2, dtype=torch.int16), 0), "NCCL process group: Short")
    refused(lambda: dist.all_reduce(torch.eye(2).to_sparse()), "dense")
    last = torch.ones(1, 2, 3, 3).to(memory_format=torch.channels_last)
    column = torch.ones(3, 2)[:, 0]  # a copy of it to a GPU is contiguous
    for x in (last, column):
        dist.all_reduce(x)
        assert x.flatten().tolist() == [float(size)] * x.numel()
    for factor in (0.5 + rank, torch.tensor([0.5 + rank])):  # each rank has its own
        op, expected = dist._make_nccl_premul_sum(factor), size * size / 2
        x, part = torch.ones(2), torch.empty(1)
        dist.all_reduce(x, op)
        assert x.tolist() == [expected] * 2, x
        dist.reduce_scatter_tensor(part, torch.ones(size), op)
        assert part.item() == expected, part


def over_gloo(rank: int, size: int) -> None:
    turned = torch.arange(6.0).reshape(2, 3).t()
    dist.all_reduce(turned)
    assert turned.tolist() == (size * torch.arange(6.0).reshape(2, 3).t()).tolist()
    small = torch.tensor([rank, -1], dtype=torch.int8)
    dist.all_reduce(small)
    assert small.tolist() == [size * (size - 1) // 2, -size]
    pair = torch.tensor([complex(rank, 1)])
    dist.all_reduce(pair)
    assert pair.tolist() == [complex(size * (size - 1) / 2, size)]
    short = torch.tensor([rank], dtype=torch.int16)
    dist.broadcast(short, 1)
    assert short.item() == 1
    refused(lambda: dist.group.WORLD.allreduce([torch.ones(1, dtype=torch.bool)], dist.ReduceOp.AVG), "by AVG of")
    refused(lambda: dist.broadcast(torch.eye(2).to_sparse(), 0), "torch.sparse_coo")
    sparse = torch.sparse_coo_tensor([[rank, 3 + rank]], [[1.0, 2.0], [3.0, 4.0]], (3 + size, 2))
    dist.all_reduce(sparse)
    assert sparse.to_dense().sum().item() == 10.0 * size


def with_sparse_gradients(rank: int, size: int) -> None:
    """DDP over an embedding whose gradient is sparse: each row's gradient is its mean over the ranks."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Embedding(10, 4, sparse=True))
    for _ in range(2):
        model.zero_grad()
        model(torch.tensor([rank, 9])).sum().backward()
        rows = model.module.weight.grad.to_dense().sum(1).tolist()
        assert rows == [4.0 / size] * size + [0.0] * (9 - size) + [4.0], rows


def main() -> None:
    for backend, checks in (("nccl", (over_nccl,)), ("gloo", (over_gloo, with_sparse_gradients))):
        dist.init_process_group(backend)
        for check in checks:
            check(dist.get_rank(), dist.get_world_size())
        dist.destroy_process_group()
    print("tensors: ok", flush=True)


if __name__ == "__main__":
    main()
