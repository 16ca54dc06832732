"""Plays what torch.nn.SyncBatchNorm needs of a GPU.

Calls   install() once in a rank's process, before the program runs.
Shapes  those of torch's own functions: an input has its channels in dimension 1, and statistics have one element per
        channel, in f32, or f64 for an input in f64.
"""

from typing import Any, Optional, Tuple

import torch
import torch.distributed as dist

_Tensor = torch.Tensor


def _wide(x: _Tensor) -> _Tensor:
    """Returns a tensor in the dtype that statistics have."""
    return x if x.dtype == torch.float64 else x.float()


def _over(x: _Tensor) -> Tuple[int, ...]:
    """Returns the dimensions that a channel's statistics are over."""
    return tuple(dim for dim in range(x.dim()) if dim != 1)


def _per_channel(statistic: _Tensor, x: _Tensor) -> _Tensor:
    """Returns a statistic in a shape that broadcasts over an input."""
    return statistic.reshape([-1 if dim == 1 else 1 for dim in range(x.dim())])


def batch_norm_stats(input: _Tensor, eps: float) -> Tuple[_Tensor, _Tensor]:
    """Returns the mean and the inverse deviation of each channel."""
    wide = _wide(input)
    mean = wide.mean(_over(input))
    variance = (wide - _per_channel(mean, input)).square().mean(_over(input))
    return mean, (variance + eps).rsqrt()


def batch_norm_gather_stats_with_counts(
    input: _Tensor,
    mean: _Tensor,
    invstd: _Tensor,
    running_mean: Optional[_Tensor],
    running_var: Optional[_Tensor],
    momentum: float,
    eps: float,
    counts: _Tensor,
) -> Tuple[_Tensor, _Tensor]:
    """Returns the statistics of all ranks from those of each, and moves the running ones towards them."""
    shares = counts.double().unsqueeze(1)
    total, wide = shares.sum(), mean.double()
    mean_of_all = (wide * shares).sum(0) / total
    variances = invstd.double().square().reciprocal() - eps
    variance = ((variances + (wide - mean_of_all).square()) * shares).sum(0) / total
    for running, value in ((running_mean, mean_of_all), (running_var, variance * total / (total - 1))):
        if running is not None:
            running.mul_(1 - momentum).add_((momentum * value).to(running.dtype))
    return mean_of_all.to(mean.dtype), (variance + eps).rsqrt().to(mean.dtype)


def batch_norm_elemt(
    input: _Tensor, weight: Optional[_Tensor], bias: Optional[_Tensor], mean: _Tensor, invstd: _Tensor, eps: float
) -> _Tensor:
    """Returns the normalized input."""
    result = (_wide(input) - _per_channel(mean, input)) * _per_channel(invstd, input)
    if weight is not None:
        result = result * _per_channel(weight, input)
    if bias is not None:
        result = result + _per_channel(bias, input)
    return result.to(input.dtype)


def batch_norm_backward_reduce(
    grad_out: _Tensor,
    input: _Tensor,
    mean: _Tensor,
    invstd: _Tensor,
    weight: Optional[_Tensor],
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> Tuple[_Tensor, _Tensor, _Tensor, _Tensor]:
    """Returns the sums that the gradients need: of dy, of dy (x - mean), and the gradients of weight and bias."""
    wide = _wide(grad_out)
    sum_dy = wide.sum(_over(input))
    sum_dy_xmu = (wide * (_wide(input) - _per_channel(mean, input))).sum(_over(input))
    dtype = sum_dy.dtype if weight is None else weight.dtype
    return sum_dy, sum_dy_xmu, (sum_dy_xmu * invstd).to(dtype), sum_dy.to(dtype)


def batch_norm_backward_elemt(
    grad_out: _Tensor,
    input: _Tensor,
    mean: _Tensor,
    invstd: _Tensor,
    weight: Optional[_Tensor],
    sum_dy: _Tensor,
    sum_dy_xmu: _Tensor,
    count: _Tensor,
) -> _Tensor:
    """Returns the gradient of the input."""
    total = count.sum()
    centred = _wide(input) - _per_channel(mean, input)
    slope = _per_channel(sum_dy_xmu / total * invstd.square(), input)
    scale = invstd if weight is None else invstd * weight
    result = (_wide(grad_out) - _per_channel(sum_dy / total, input) - centred * slope) * _per_channel(scale, input)
    return result.to(input.dtype)


_FUNCTIONS = (
    batch_norm_stats,
    batch_norm_gather_stats_with_counts,
    batch_norm_elemt,
    batch_norm_backward_reduce,
    batch_norm_backward_elemt,
)


def _factor(layer: Any) -> float:
    """Counts a batch, and returns how far the running statistics move towards it."""
    if layer.track_running_stats:
        layer.num_batches_tracked.add_(1)
        if layer.momentum is None:
            return 1.0 / float(layer.num_batches_tracked.item())
    return layer.momentum or 0.0


def _synchronized(of_torch: Any) -> Any:
    """Returns SyncBatchNorm.forward, whose own one refuses an input on the CPU where ranks are to be synchronized."""
    from torch.nn.modules._functions import SyncBatchNorm as Function

    def forward(self: Any, input: _Tensor) -> _Tensor:
        if not self.training or not dist.is_initialized():
            return of_torch(self, input)
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        group = self.process_group or dist.group.WORLD
        running = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        factor, size = _factor(self), dist.get_world_size(group)
        if size == 1:
            return torch.nn.functional.batch_norm(input, *running, self.weight, self.bias, True, factor, self.eps)
        return Function.apply(input, self.weight, self.bias, *running, self.eps, factor, group, size)

    return forward


def install() -> None:
    """Has SyncBatchNorm work on the CPU."""
    for function in _FUNCTIONS:
        setattr(torch, function.__name__, function)
    layer = torch.nn.SyncBatchNorm
    setattr(layer, "forward", _synchronized(layer.forward))
