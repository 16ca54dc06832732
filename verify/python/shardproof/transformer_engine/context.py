"""Attention over ranks that have different tokens: a ring of messages ("p2p"), gathered keys ("all_gather"), or an
exchange of tokens for heads ("a2a"), which may stand in front of a ring ("a2a+p2p").

Shapes  q, k, v as in blocks.py. In an exchange [s, b, h, d] becomes [size * s, b, h / size, d], by ranks.
Calls   the ring sends k and v in one message to the next rank. The backward pass sends them back, with the gradient
        of the block before in the same message. Gathered keys are gathered again in the backward pass, and their
        gradients are reduced and scattered.
"""

from typing import Any, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from .blocks import Weighing, attended, gradients, merged
from .parallel import Tensor, gathered, reduce_scattered, refuse, size_of, wide


class Groups(NamedTuple):
    """The groups of a kind of context parallelism."""

    exchange: Any  # of "a2a"
    ring: Any  # of "p2p"
    gather: Any  # of "all_gather"

    @property
    def exchanged(self) -> int:
        return size_of(self.exchange)

    @property
    def size(self) -> int:
        return self.exchanged * size_of(self.ring) * size_of(self.gather)

    def ranks_of_sources(self) -> List[List[int]]:
        """Returns, for each block of keys by its place in the ring, the ranks whose tokens it has."""
        inner, outer = self.exchanged, size_of(self.ring)
        if self.gather is not None:
            return [list(range(self.size))]
        return [[a + inner * p for a in range(inner)] for p in range(outer)]

    def own_ranks(self) -> List[int]:
        """Returns the ranks whose tokens the queries are, after the exchange."""
        if self.gather is not None:
            return [dist.get_rank(self.gather)]
        return self.ranks_of_sources()[0 if self.ring is None else dist.get_rank(self.ring)]


def groups_of(kind: str, group: Any) -> Groups:
    """Returns the groups of a kind; `group` is a list of two for "a2a+p2p"."""
    if kind == "a2a+p2p":
        if not isinstance(group, (list, tuple)) or len(group) != 2:
            refuse("context parallelism", cp_comm_type=f"{kind} over other than two groups")
        return Groups(group[0], group[1], None)
    if isinstance(group, (list, tuple)):
        refuse("context parallelism", cp_comm_type=f"{kind} over several groups")
    if kind not in ("p2p", "all_gather", "a2a"):
        refuse("context parallelism", cp_comm_type=kind)
    return Groups(*(group if kind == name else None for name in ("a2a", "p2p", "all_gather")))


class _Exchanged(torch.autograd.Function):
    """Exchanges tokens for heads, or back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, is_back: bool) -> Tensor:
        ctx.group, ctx.is_back = group, is_back
        return _to_tokens(x, group) if is_back else _to_heads(x, group)

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> Tuple[Optional[Tensor], ...]:
        return (_to_heads if ctx.is_back else _to_tokens)(dx, ctx.group), None, None


def _exchange(parts: Tensor, group: Any) -> Tensor:
    """Sends part i of the first dimension to rank i, and returns what all ranks have sent."""
    received = torch.empty_like(parts)
    dist.all_to_all_single(received, parts, group=group)
    return received


def _to_heads(x: Tensor, group: Any) -> Tensor:
    s, b, h, d = x.shape
    size = size_of(group)
    parts = x.reshape(s, b, size, h // size, d).permute(2, 0, 1, 3, 4).contiguous()
    return _exchange(parts, group).reshape(size * s, b, h // size, d)


def _to_tokens(x: Tensor, group: Any) -> Tensor:
    s, b, h, d = x.shape
    size = size_of(group)
    parts = _exchange(x.reshape(size, s // size, b, h, d).contiguous(), group)
    return parts.permute(1, 2, 0, 3, 4).reshape(s // size, b, size * h, d)


def to_heads(x: Tensor, group: Any) -> Tensor:
    """Returns all ranks' tokens of this rank's heads."""
    if x.shape[2] % size_of(group) != 0:
        raise ValueError(f"{x.shape[2]} heads are not a multiple of {size_of(group)} ranks of an exchange")
    return x if group is None else _Exchanged.apply(x, group, False)


def to_tokens(x: Tensor, group: Any) -> Tensor:
    """Returns this rank's tokens of all heads."""
    return x if group is None else _Exchanged.apply(x, group, True)


class _Passing(NamedTuple):
    """A message that is under way to the next rank of a ring, and the one that comes."""

    comes: Tensor
    works: List[Any]
    sent: Tensor  # is kept until it has left

    def received(self) -> Tensor:
        for work in self.works:
            work.wait()
        return self.comes


def _pass_on(x: Tensor, group: Any, is_back: bool = False) -> _Passing:
    """Begins to send a tensor to the next rank and to receive that of the rank before, or the other way."""
    ranks, rank = dist.get_process_group_ranks(group), dist.get_rank(group)
    comes, way = torch.empty_like(x), -1 if is_back else 1
    calls = [
        dist.P2POp(dist.isend, x, ranks[(rank + way) % len(ranks)], group),
        dist.P2POp(dist.irecv, comes, ranks[(rank - way) % len(ranks)], group),
    ]
    return _Passing(comes, dist.batch_isend_irecv(calls), x)


def _together(k: Tensor, v: Tensor) -> Tensor:
    return torch.cat([k.reshape(-1), v.reshape(-1)])


def _apart(both: Tensor, shapes: Any) -> Tuple[Tensor, Tensor]:
    """Returns the two tensors of a message."""
    size = shapes[0].numel()
    return both[:size].view(shapes[0]), both[size:].view(shapes[1])


class Ring(torch.autograd.Function):
    """Attention to the blocks of all ranks of a ring; without one, to one block.

    At a step of the forward pass a rank has the block of the rank before the one that it had. The backward pass
    begins with the last one, and goes back. The gradient of a block follows it, and comes home at the last step.
    A sink [1, g, r, 1, 1] is the score of one more key, whose value is 0.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, sink: Optional[Tensor], ring: Any, blocks: List[Weighing]
    ) -> Tensor:
        size, rank = len(blocks), 0 if ring is None else dist.get_rank(ring)
        queries, block, shapes = wide(q), _together(k, v), (k.shape, v.shape)
        result: Any = None
        sums: Any = None
        for step in range(size):
            passing = _pass_on(block, ring) if step + 1 < size else None
            keys, values = (wide(x) for x in _apart(block, shapes))
            found = attended(queries, keys, values, blocks[(rank - step) % size])
            result, sums = found if result is None else merged(result, sums, *found)
            block = block if passing is None else passing.received()
        if sink is not None:
            result, sums = merged(result, sums, torch.zeros_like(result), sink)
        narrow: Tensor = result.to(q.dtype)
        ctx.save_for_backward(q, block, narrow, sums, sink)
        ctx.ring, ctx.blocks, ctx.shapes = ring, blocks, shapes
        return narrow

    @staticmethod
    def backward(ctx: Any, d_result: Tensor) -> Tuple[Optional[Tensor], ...]:
        q, block, result, sums, sink = ctx.saved_tensors
        size, rank = len(ctx.blocks), 0 if ctx.ring is None else dist.get_rank(ctx.ring)
        queries, d_wide, dtype, elements = wide(q), wide(d_result), block.dtype, block.numel()
        dot = (wide(result) * d_wide).sum(-1, keepdim=True)
        dq, done = torch.zeros_like(queries), block.new_empty(0)
        for step in range(size):
            message = torch.cat([block if step + 1 < size else block.new_empty(0), done])
            passing = _pass_on(message, ctx.ring, is_back=True) if size > 1 else None
            keys, values = (wide(x) for x in _apart(block, ctx.shapes))
            found = gradients(queries, keys, values, ctx.blocks[(rank + 1 + step) % size], sums, d_wide, dot)
            dq += found[0]
            own = _together(*found[1:])
            if passing is not None:
                received = passing.received()
                own = own + received[-elements:] if step > 0 else own  # what other ranks have added
                block = received[:elements]
            done = own.to(dtype)
        d_sink = None if sink is None else -((sink - sums).exp() * dot).sum((0, 3), keepdim=True)
        return dq.to(q.dtype), *_apart(done, ctx.shapes), d_sink, None, None


class Gathered(torch.autograd.Function):
    """Attention to the keys of all ranks, which are gathered. Here k and v have tokens first: [s, b, g, d]."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, group: Any, how: Weighing) -> Tensor:
        keys, values = (by_group(gathered(x, group)) for x in (k, v))
        result, sums = attended(wide(q), wide(keys), wide(values), how)
        result = result.to(q.dtype)
        ctx.save_for_backward(q, k, v, result, sums)
        ctx.group, ctx.how = group, how
        return result

    @staticmethod
    def backward(ctx: Any, d_result: Tensor) -> Tuple[Optional[Tensor], ...]:
        q, k, v, result, sums = ctx.saved_tensors
        keys, values = (wide(by_group(gathered(x, ctx.group))) for x in (k, v))
        dot = (wide(result) * wide(d_result)).sum(-1, keepdim=True)
        dq, dk, dv = gradients(wide(q), keys, values, ctx.how, sums, wide(d_result), dot)
        dk, dv = (reduce_scattered(x.squeeze(2).permute(2, 0, 1, 3).to(k.dtype), ctx.group) for x in (dk, dv))
        return dq.to(q.dtype), dk, dv, None, None


def by_group(x: Tensor) -> Tensor:
    """Returns keys or values [s, b, g, d] in the shape of a block. [b, g, 1, s, d]"""
    return x.permute(1, 2, 0, 3).unsqueeze(2)
