"""Has a program draw in f64 the numbers that it would draw in f32, so that both computations begin with the same.

Calls   install() once in a rank's process, before f64 takes the names of other floats (exact.py).
Exact   a number is drawn in f32, and is f64 then. Programs that draw floats of 16 bits would draw others.
"""

import functools
from typing import Any, Callable

import torch

_MAKE = ("rand", "randn", "rand_like", "randn_like")
_FILL = ("normal_", "uniform_", "exponential_", "cauchy_", "log_normal_")


def _making(make: Callable[..., torch.Tensor], f32: torch.dtype) -> Callable[..., torch.Tensor]:
    @functools.wraps(make)
    def made(*arguments: Any, dtype: Any = None, requires_grad: bool = False, **named: Any) -> torch.Tensor:
        if named.get("out") is not None or dtype not in (None, torch.float64):
            return make(*arguments, dtype=dtype, requires_grad=requires_grad, **named)
        return make(*arguments, dtype=f32, **named).double().requires_grad_(requires_grad)

    return made


def _filling(fill: Callable[..., torch.Tensor], f32: torch.dtype) -> Callable[..., torch.Tensor]:
    @functools.wraps(fill)
    def filled(self: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        if self.dtype != torch.float64:
            return fill(self, *arguments, **named)
        drawn = torch.empty_like(self, dtype=f32, requires_grad=False)
        return self.copy_(fill(drawn, *arguments, **named))

    return filled


def install() -> None:
    f32 = torch.float32
    for name in _MAKE:
        setattr(torch, name, _making(getattr(torch, name), f32))
    for name in _FILL:
        setattr(torch.Tensor, name, _filling(getattr(torch.Tensor, name), f32))
