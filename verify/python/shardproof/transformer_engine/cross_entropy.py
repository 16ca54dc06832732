"""Cross entropy of logits that are divided over ranks by columns.

Shapes  logits [..., vocabulary / size]; target [...]; the losses have the shape of the target.
Calls   one gather, of three numbers for each row: the rank's largest logit, its sum of exponentials, and the logit of
        the target or -inf.
Exact   computed in f32, or f64 for f64. Rows whose target is `ignore_idx` have the loss 0.
"""

from typing import Any, Optional, Tuple

import torch
import torch.distributed as dist

from .parallel import Tensor, gathered, refuse, size_of, wide


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, group: Any, ignored: int) -> Tensor:
        rows, columns = wide(logits).reshape(-1, logits.shape[-1]), target.reshape(-1, 1)
        first = 0 if group is None else dist.get_rank(group) * rows.shape[1]
        is_own = (columns >= first) & (columns < first + rows.shape[1])
        own = (columns - first).clamp(0, rows.shape[1] - 1)
        largest = rows.max(1, keepdim=True).values
        found = rows.gather(1, own).masked_fill(~is_own, float("-inf"))
        numbers = torch.cat([largest, (rows - largest).exp().sum(1, keepdim=True), found], 1)
        of_ranks = (gathered(numbers, group) if size_of(group) > 1 else numbers).reshape(size_of(group), -1, 3)
        sums = (of_ranks[..., 0] + of_ranks[..., 1].log()).logsumexp(0).unsqueeze(1)
        counts = columns != ignored
        ctx.save_for_backward(rows, sums, own, is_own & counts, counts)
        ctx.like = logits
        losses = (sums - of_ranks[..., 2].max(0).values.unsqueeze(1)).masked_fill(~counts, 0.0)
        return losses.reshape(target.shape)

    @staticmethod
    def backward(ctx: Any, d_losses: Tensor) -> Tuple[Optional[Tensor], ...]:
        rows, sums, own, is_own, counts = ctx.saved_tensors
        d_rows = (rows - sums).exp().scatter_add(1, own, -is_own.to(rows.dtype)) * counts
        d_rows = d_rows * d_losses.reshape(-1, 1)
        return d_rows.reshape(ctx.like.shape).to(ctx.like.dtype), None, None, None


def parallel_cross_entropy(
    inp: Tensor,
    target: Tensor,
    label_smoothing: float = 0.0,
    reduce_loss: bool = False,
    dist_process_group: Any = None,
    ignore_idx: int = -100,
    is_cg_capturable: bool = False,
) -> Tensor:
    """Returns the loss of each row, or their mean."""
    refuse("parallel_cross_entropy", label_smoothing=label_smoothing or None)
    losses: Tensor = _CrossEntropy.apply(inp, target, dist_process_group, ignore_idx)
    return losses.sum() / (target != ignore_idx).sum() if reduce_loss else losses
