"""Takes f64 for every float that a program names, so that what rounding leaves is far smaller than a mistake.

Calls   install() once in a rank's process, before the program runs.
Exact   `torch.float32`, `torch.bfloat16`, `torch.half` and their like are `torch.float64`, as are tensors made without
        a dtype. `type()` goes on to say "FloatTensor", which programs ask for. Floats of 8 bits stay as they are.
"""

from typing import Any

import torch

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


def install() -> None:
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
