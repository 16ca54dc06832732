"""Has a program compute what can be compared: no dropout, which would depend on the layout, and f64 for every float that
it names, so that what rounding leaves is far smaller than a mistake.

Calls   drop_nothing() and install() once in a rank's process, before the program runs.
Exact   `torch.float32`, `torch.bfloat16`, `torch.half` and their like are `torch.float64`, as are tensors made without
        a dtype. `type()` goes on to say "FloatTensor", which programs ask for. Floats of 8 bits stay as they are.
"""

import functools
from typing import Any

import torch

from . import random_floats

_FLOATS = ("float", "float32", "half", "float16", "bfloat16")
_METHODS = ("float", "half", "bfloat16")
_TENSORS = ("FloatTensor", "HalfTensor", "BFloat16Tensor")


def _named_as_float(type_of: Any) -> Any:
    """Returns Tensor.type(), by which a tensor of f64 is one of f32."""

    def type_or_cast(self: torch.Tensor, dtype: Any = None, *arguments: Any, **named: Any) -> Any:
        if dtype is None:
            return type_of(self).replace("DoubleTensor", "FloatTensor")
        if isinstance(dtype, str):
            for name in _TENSORS:
                dtype = dtype.replace("." + name, ".DoubleTensor")
        return type_of(self, dtype, *arguments, **named)

    return type_or_cast


def _kept(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """A dropout that drops nothing, in words that torch.jit.script reads."""
    return input


def drop_nothing() -> None:
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        for module in (torch, torch.nn.functional):
            if hasattr(module, name):
                setattr(module, name, _kept)
    attention = torch.nn.functional.scaled_dot_product_attention

    @functools.wraps(attention)
    def without_dropout(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, **named: Any) -> Any:
        return attention(query, key, value, attn_mask, 0.0, **named)

    setattr(torch.nn.functional, "scaled_dot_product_attention", without_dropout)


def _unscaled(gradients: Any, found_inf: torch.Tensor, inverse_scale: torch.Tensor) -> None:
    """Plays the kernel of loss scales, which takes scales of f32 alone."""
    for gradient in gradients:
        if not bool(torch.isfinite(gradient).all()):
            found_inf.fill_(1.0)
        gradient.mul_(inverse_scale)


def _learn_storages() -> None:
    """Has torch.load know what floats files hold: it keeps the names of their kinds when it is first asked."""
    for name in ("_dtype_to_storage_type_map", "_storage_type_to_dtype_map"):
        getattr(torch.storage, name, lambda: None)()


def install() -> None:
    _learn_storages()
    random_floats.install()
    setattr(torch, "_amp_foreach_non_finite_check_and_unscale_", _unscaled)
    for name in _FLOATS:
        setattr(torch, name, torch.float64)
    for kind in (torch.Tensor, torch.nn.Module):
        for name in _METHODS:
            setattr(kind, name, kind.double)
    for module in (torch, torch.cuda):
        for name in _TENSORS:
            setattr(module, name, torch.DoubleTensor)
    setattr(torch.Tensor, "type", _named_as_float(torch.Tensor.type))
    torch.set_default_dtype(torch.float64)
