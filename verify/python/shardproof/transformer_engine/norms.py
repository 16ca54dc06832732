"""LayerNorm and RMSNorm, computed in f32, or f64 for f64.

Shapes  x [..., hidden]; weight and bias [hidden]. With `zero_centered_gamma` the factor is 1 + weight.
"""

from typing import Any, List, Optional, Union

import torch

from .layer import Layer
from .parallel import Tensor, refuse, wide


def normalized(x: Tensor, weight: Tensor, bias: Optional[Tensor], eps: float, is_zero_centered: bool) -> Tensor:
    """Returns the layer norm of x, or its RMS norm if there is no bias."""
    rows = wide(x)
    if bias is not None:
        rows = rows - rows.mean(-1, keepdim=True)
    rows = rows * (rows.square().mean(-1, keepdim=True) + eps).rsqrt()
    rows = rows * (wide(weight) + 1 if is_zero_centered else wide(weight))
    return (rows if bias is None else rows + wide(bias)).to(x.dtype)


class _Norm(Layer):
    """A norm over the last dimension, marked as Megatron needs it for sequence parallelism."""

    has_bias = False

    def __init__(
        self,
        normalized_shape: Union[int, List[int], None] = None,
        eps: float = 1e-5,
        sequence_parallel: Optional[bool] = None,
        params_dtype: Optional[torch.dtype] = None,
        zero_centered_gamma: bool = False,
        hidden_size: Optional[int] = None,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
        **named: Any,
    ) -> None:
        super().__init__()
        refuse(type(self).__name__, **named)
        shape = hidden_size if normalized_shape is None else normalized_shape
        sizes = [shape] if isinstance(shape, int) else list(shape or [])
        if len(sizes) != 1:
            refuse(type(self).__name__, normalized_shape=sizes)
        made = {"dtype": dtype or params_dtype or torch.get_default_dtype(), "device": device}
        self.eps, self.zero_centered_gamma = eps, zero_centered_gamma
        self.weight = torch.nn.Parameter(
            torch.zeros(sizes, **made) if zero_centered_gamma else torch.ones(sizes, **made)
        )
        self.bias = torch.nn.Parameter(torch.zeros(sizes, **made)) if self.has_bias else None
        if sequence_parallel is not None:
            self.sequence_parallel = sequence_parallel
            for parameter in self.parameters():
                setattr(parameter, "sequence_parallel", sequence_parallel)

    def forward(self, x: Tensor) -> Tensor:
        return normalized(x, self.weight, self.bias, self.eps, self.zero_centered_gamma)


class LayerNorm(_Norm):
    has_bias = True


class RMSNorm(_Norm):
    pass
