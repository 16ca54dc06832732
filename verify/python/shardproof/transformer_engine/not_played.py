"""What the stand-in has only by name. FP8 and its like are off, and turning them on is refused.

Errors  NotServed, with the name.
"""

import contextlib
import enum
from typing import Any, Iterator

import torch

from ..threads import NotServed


def refused(name: str) -> Any:
    """Returns a function that raises NotServed."""

    def refuse(*arguments: Any, **named: Any) -> Any:
        raise NotServed(f"{name} of Transformer Engine")

    return refuse


def refused_class(name: str) -> type:
    """Returns a class of which no object can be made."""
    return type(name, (), {"__init__": refused(name)})


def quantized(name: str) -> Any:
    """Returns a context in which layers would compute in FP8: as long as it is not enabled, it does nothing."""

    @contextlib.contextmanager
    def context(enabled: bool = True, *arguments: Any, **named: Any) -> Iterator[None]:
        if enabled:
            raise NotServed(f"{name} of Transformer Engine: its layers do not compute in FP8 or FP4 here")
        yield

    return context


@contextlib.contextmanager
def activation_recompute_forward(activation_recompute: bool = False, recompute_phase: bool = False) -> Iterator[None]:
    yield


class FP8GlobalStateManager:
    """Says that FP8 is off."""

    @staticmethod
    def is_fp8_enabled() -> bool:
        return False

    is_fp8_calibration = is_first_fp8_module = fp8_graph_capturing = is_fp8_enabled

    @staticmethod
    def get_fp8_recipe() -> None:
        return None

    get_fp8_group = reset = get_fp8_recipe

    @staticmethod
    def is_fp8_available() -> Any:
        return has_no_fp8()


def has_no_fp8() -> Any:
    """Says that layers cannot compute in FP8, and why."""
    return False, "the stand-in of shardproof does not compute in FP8 or FP4"


def is_not_available(return_reason: bool = False) -> Any:
    return has_no_fp8() if return_reason else False


class Format(enum.Enum):
    """The formats of FP8, which recipes ask for."""

    E4M3 = "e4m3"
    E5M2 = "e5m2"
    HYBRID = "hybrid"


class QuantizedTensor(torch.Tensor):
    """A tensor of FP8 or FP4: there is none."""


def get_dummy_wgrad(shape: Any, dtype: Any, zero: bool = False) -> torch.Tensor:
    """Returns what autograd gets in the place of a gradient that is in `main_grad` already."""
    return torch.zeros(shape, dtype=dtype, device="cuda")
