"""LayerNorm and RMSNorm, computed in f32, or f64 for f64.

Shapes  x [..., hidden]; weight and bias [hidden]. With `zero_centered_gamma` the factor is 1 + weight.
"""

from typing import Any, List, Optional, Tuple, Union

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


def made_norm(features: int, has_bias: bool, is_zero_centered: bool, made: Any) -> Tuple[Any, Any]:
    """Returns the weight and the bias of a norm that does nothing but norm."""
    weight = torch.nn.Parameter(torch.empty(features, **made))
    bias = torch.nn.Parameter(torch.empty(features, **made)) if has_bias else None
    reset_norm(weight, bias, is_zero_centered)
    return weight, bias


def give_norm(layer: Any, has_bias: bool, is_zero_centered: bool, features: int, made: Any) -> None:
    """Gives a layer with weights a norm before them: its parameters are its first ones."""
    later = [name for name in layer._parameters]
    layer.layer_norm_weight, layer.layer_norm_bias = made_norm(features, has_bias, is_zero_centered, made)
    for name in later:
        layer._parameters[name] = layer._parameters.pop(name)
    for parameter in (layer.layer_norm_weight, layer.layer_norm_bias):
        if parameter is not None:
            setattr(parameter, "sequence_parallel", layer.sequence_parallel)


def known_norm(normalization: str) -> bool:
    """Returns whether a norm has a bias, by its name."""
    if normalization not in ("LayerNorm", "RMSNorm"):
        raise ValueError(f"normalization is {normalization}: it has to be 'LayerNorm' or 'RMSNorm'")
    return normalization == "LayerNorm"


def reset_norm(weight: Tensor, bias: Optional[Tensor], is_zero_centered: bool) -> None:
    torch.nn.init.constant_(weight, 0.0 if is_zero_centered else 1.0)
    if bias is not None:
        torch.nn.init.zeros_(bias)


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
        self.weight, self.bias = made_norm(sizes[0], self.has_bias, zero_centered_gamma, made)
        if sequence_parallel is not None:
            self.sequence_parallel = sequence_parallel
            for parameter in self.parameters():
                setattr(parameter, "sequence_parallel", sequence_parallel)

    def reset_parameters(self, defer_init: bool = False) -> None:
        if not defer_init:
            reset_norm(self.weight, self.bias, self.zero_centered_gamma)

    def forward(self, x: Tensor) -> Tensor:
        return normalized(x, self.weight, self.bias, self.eps, self.zero_centered_gamma)


class LayerNorm(_Norm):
    has_bias = True


class RMSNorm(_Norm):
    pass
