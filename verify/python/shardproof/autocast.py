"""Plays automatic mixed precision of the GPU with that of the CPU.

Calls   install() once in a rank's process, before the program runs.
Exact   "cuda" is "cpu" in torch.autocast and in what asks for its state. Its default dtype stays f16. Which functions
        run in which dtype is what the CPU's lists say: they differ from those of the GPU in some functions, for
        example softmax and layer_norm, which a GPU runs in f32.
"""

import functools
import importlib
from typing import Any, Callable, List

import torch

from .devices import is_gpu, replace

_default: List[torch.dtype] = [torch.float16]  # of autocast("cuda"), outside of a region


def _of_cpu(device_type: Any) -> Any:
    return "cpu" if is_gpu(device_type) else device_type


def _with_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of autocast's state, for which a device type "cuda", its default, is "cpu"."""

    @functools.wraps(function)
    def with_cpu(device_type: Any = "cuda", *arguments: Any) -> Any:
        if isinstance(device_type, bool):  # set_autocast_enabled(enabled)
            return function("cpu", device_type)
        return function(_of_cpu(device_type), *arguments)

    return with_cpu


def _getter(get_dtype: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(get_dtype)
    def get_autocast_dtype(device_type: Any = "cuda") -> Any:
        is_outside = is_gpu(device_type) and not torch.is_autocast_enabled("cpu")
        return _default[0] if is_outside else get_dtype(_of_cpu(device_type))

    return get_autocast_dtype


def _setter(set_dtype: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(set_dtype)
    def set_autocast_dtype(device_type: Any, dtype: torch.dtype) -> None:
        if is_gpu(device_type):
            _default[0] = dtype
        set_dtype(_of_cpu(device_type), dtype)

    return set_autocast_dtype


def _initializer(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def of_region(self: Any, device_type: Any, dtype: Any = None, *arguments: Any, **named: Any) -> None:
        if is_gpu(device_type) and dtype is None:
            dtype = torch.get_autocast_dtype("cuda")
        init(self, _of_cpu(device_type), dtype, *arguments, **named)

    return of_region


def _of_function(custom: Callable[..., Any]) -> Callable[..., Any]:
    """Returns custom_fwd or custom_bwd, for a function whose inputs are on the CPU."""

    @functools.wraps(custom)
    def with_cpu(function: Any = None, *, device_type: Any = "cuda", **named: Any) -> Any:
        if function is None:
            return functools.partial(with_cpu, device_type=device_type, **named)
        return custom(function, device_type=_of_cpu(device_type), **named)

    return with_cpu


def install() -> None:
    """Has autocast of the GPU be that of the CPU."""
    modes = importlib.import_module("torch.amp.autocast_mode")
    modes_of_cuda = importlib.import_module("torch.cuda.amp.autocast_mode")
    replace(torch, "get_autocast_dtype", _getter)
    replace(torch, "set_autocast_dtype", _setter)
    replace(torch, "is_autocast_enabled", _with_first)
    replace(torch, "set_autocast_enabled", _with_first)
    replace(torch, "get_autocast_gpu_dtype", lambda _: lambda: torch.get_autocast_dtype("cuda"))
    replace(torch, "set_autocast_gpu_dtype", lambda _: lambda dtype: torch.set_autocast_dtype("cuda", dtype))
    setattr(modes.autocast, "__init__", _initializer(modes.autocast.__init__))
    for name in ("custom_fwd", "custom_bwd"):
        made = _of_function(getattr(modes, name))
        for module in (modes, torch.amp, modes_of_cuda, torch.cuda.amp):
            setattr(module, name, made)
