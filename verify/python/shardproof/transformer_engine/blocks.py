"""Attention of a block of queries to a block of keys. Results of several blocks of keys are merged by their sums of
exponentials.

Shapes  q [b, g, r, sq, d]: g groups of r heads each; k [b, g, 1, sk, d], v [b, g, 1, sk, dv]; result [b, g, r, sq, dv];
        sums [b, g, r, sq, 1], the logarithm of the sum of exponentials. A mask is true where a key is hidden; it and
        the factors of dropout broadcast to [b, g, r, sq, sk].
Exact   a query that sees no key has the result 0 and the sum -inf.
"""

from typing import NamedTuple, Optional, Tuple

import torch

from .parallel import Tensor


class Weighing(NamedTuple):
    """How scores become weights."""

    scale: float
    mask: Optional[Tensor]
    kept: Optional[Tensor]  # factors of dropout


def _finite(sums: Tensor) -> Tensor:
    return sums.masked_fill(sums == float("-inf"), 0.0)


def _scores(q: Tensor, k: Tensor, how: Weighing) -> Tensor:
    scores = q @ k.transpose(-1, -2) * how.scale
    return scores if how.mask is None else scores.masked_fill(how.mask, float("-inf"))


def attended(q: Tensor, k: Tensor, v: Tensor, how: Weighing) -> Tuple[Tensor, Tensor]:
    """Returns the result for one block of keys, and the sums."""
    scores = _scores(q, k, how)
    sums = scores.logsumexp(-1, keepdim=True)
    weights = (scores - _finite(sums)).exp()
    return (weights if how.kept is None else weights * how.kept) @ v, sums


def merged(result: Tensor, sums: Tensor, other: Tensor, other_sums: Tensor) -> Tuple[Tensor, Tensor]:
    """Returns the result for the keys of two blocks, and their sums."""
    both = torch.logaddexp(sums, other_sums)
    base = _finite(both)
    return result * (sums - base).exp() + other * (other_sums - base).exp(), both


def gradients(
    q: Tensor, k: Tensor, v: Tensor, how: Weighing, sums: Tensor, d_result: Tensor, dot: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    """Returns what a block of keys adds to the gradient of q, and its own gradients.

    `sums` are those of all blocks, and `dot` is the sum of result * d_result over the last dimension.
    """
    weights = (_scores(q, k, how) - _finite(sums)).exp()
    d_weights = d_result @ v.transpose(-1, -2)
    used = weights
    if how.kept is not None:
        used, d_weights = weights * how.kept, d_weights * how.kept
    d_scores = weights * (d_weights - dot) * how.scale
    dk = (d_scores.transpose(-1, -2) @ q).sum(2, keepdim=True)
    dv = (used.transpose(-1, -2) @ d_result).sum(2, keepdim=True)
    return d_scores @ k, dk, dv
