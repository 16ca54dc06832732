"""Collectives of tensor parallelism, along the first dimension of a tensor.

Shapes  gathered() has size times as many rows as its input; reduce_scattered() has 1/size of them.
"""

from typing import Any

import torch
import torch.distributed as dist

from ..threads import NotServed

Tensor = torch.Tensor


def size_of(group: Any) -> int:
    return 1 if group is None else dist.get_world_size(group)


def gathered(x: Tensor, group: Any) -> Tensor:
    """Returns the rows of all ranks, in their order."""
    rows = x.new_empty([size_of(group) * x.shape[0], *x.shape[1:]])
    dist.all_gather_into_tensor(rows, x.contiguous(), group=group)
    return rows


def reduce_scattered(x: Tensor, group: Any) -> Tensor:
    """Returns this rank's rows of the sum over ranks."""
    if x.shape[0] % size_of(group) != 0:
        raise ValueError(f"{x.shape[0]} rows are not a multiple of {size_of(group)} ranks")
    rows = x.new_empty([x.shape[0] // size_of(group), *x.shape[1:]])
    dist.reduce_scatter_tensor(rows, x.contiguous(), group=group)
    return rows


def all_reduced(x: Tensor, group: Any) -> Tensor:
    total = x.contiguous().clone()
    dist.all_reduce(total, group=group)
    return total


def refuse(feature: str, **given: Any) -> None:
    """Raises NotServed if one of these arguments of a feature is given."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise NotServed(f"{feature} of Transformer Engine with {name}={value}")


def wide(x: Tensor) -> Tensor:
    """Returns a tensor in the dtype in which norms and softmax are computed."""
    return x if x.dtype == torch.float64 else x.float()
