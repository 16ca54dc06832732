"""What a training over torch.distributed alone computes, by the names of modules: the parameters that a step begins with,
their gradients, and what the optimizer keeps after it (states.py).

Calls   install() once in a rank's process, before the program runs. A step begins when an optimizer of torch steps.
Shapes  a plain tensor is whole on every rank. A DTensor (FSDP2, tensor parallelism) says where its part lies. Flat
        parameters of FSDP 1 and sums that are still partial are left out.
"""

import importlib
import weakref
from typing import Any, Callable, Iterator, NamedTuple, Optional, Tuple

import torch

from . import states, values
from .values import Block, Keep

_WRAPPERS = ("module", "_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module")
_UTILS = ("torch.distributed.tensor._utils", "torch.distributed._tensor._utils")  # of which the second is older


class _Part(NamedTuple):
    elements: torch.Tensor
    offset: Any


def _part_of_mesh(tensor: Any) -> Optional[_Part]:
    """Returns this rank's part of a DTensor; none where it is not the block that its placements say."""
    if any(placement.is_partial() for placement in tensor.placements):
        return None
    for name in _UTILS:
        try:
            place = importlib.import_module(name).compute_local_shape_and_global_offset
        except (ImportError, AttributeError):
            continue
        shape, offset = place(tensor.shape, tensor.device_mesh, tensor.placements)
        local = tensor.to_local()
        return _Part(local, offset) if tuple(local.shape) == tuple(shape) else None
    return None


def part_of(tensor: torch.Tensor) -> Optional[_Part]:
    """Returns this rank's part of a tensor; none where its place in the whole one is not known."""
    if hasattr(tensor, "device_mesh"):
        return _part_of_mesh(tensor)
    return None if hasattr(tensor, "_is_flat_param") else _Part(tensor, [0] * tensor.dim())


def plain_name(name: str) -> str:
    """Returns the name of a parameter or a module without those of wrappers."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


class _Training:
    """The names of parameters, and the steps of each optimizer."""

    def __init__(self, keep: Keep, is_others: Callable[[], bool]) -> None:
        self._keep = keep
        self._is_others = is_others
        self._names: Any = importlib.import_module("torch.utils.weak").WeakTensorKeyDictionary()
        self._steps: Any = weakref.WeakKeyDictionary()

    def name(self, parameter: torch.Tensor, name: str) -> None:
        """Remembers a name; that in the outermost module is the longest."""
        plain = plain_name(name)
        if len(plain) >= len(self._names.get(parameter, "")):
            self._names[parameter] = plain

    def _publish(self, kind: str, step: int, name: str, tensor: torch.Tensor) -> None:
        part = part_of(tensor.detach())
        if part is None:
            values.publish(self._keep, "left out", step, Block(name, [0], [0], [0]), torch.empty(0))
        elif part.elements.numel() > 0:
            block = Block(name, tensor.shape, part.offset, part.elements.shape)
            values.publish(self._keep, kind, step, block, part.elements)

    def _parameters_of(self, optimizer: Any) -> Iterator[Tuple[str, torch.Tensor]]:
        for number, group in enumerate(optimizer.param_groups):
            for place, parameter in enumerate(group["params"]):
                yield self._names.get(parameter, f"parameter {place} of group {number}"), parameter

    def begin_step(self, optimizer: Any, *_: Any) -> None:
        step = self._steps.get(optimizer, 0)
        self._steps[optimizer] = step + 1
        if step >= values.STEPS or self._is_others():
            return
        with torch.no_grad():
            for name, parameter in self._parameters_of(optimizer):
                self._publish("parameter", step, name, parameter)
                if parameter.grad is not None:
                    self._publish("gradient", step, name, parameter.grad)

    def end_step(self, optimizer: Any, *_: Any) -> None:
        """Publishes the states of an optimizer. Those of parameters that are left out are left out with them."""
        step = self._steps.get(optimizer, 0) - 1
        if not 0 <= step < values.STEPS or self._is_others():
            return
        for name, parameter in self._parameters_of(optimizer):
            for of_state, state in states.of(optimizer, parameter) if part_of(parameter.detach()) is not None else ():
                if state is not None:
                    self._publish("state", step, states.name_of(of_state, name), state)
                else:
                    values.publish(self._keep, "left out", step, states.left_out(of_state, optimizer), torch.empty(0))


def _naming(named_parameters: Any, training: _Training) -> Any:
    def named(self: Any, *arguments: Any, **words: Any) -> Iterator[Any]:
        for name, parameter in named_parameters(self, *arguments, **words):
            training.name(parameter, name)
            yield name, parameter

    return named


def install(keep: Keep, is_others: Callable[[], bool]) -> None:
    """Has what a training computes told, unless `is_others` says that it is told already."""
    training = _Training(keep, is_others)
    setattr(torch.nn.Module, "named_parameters", _naming(torch.nn.Module.named_parameters, training))
    of_torch = importlib.import_module("torch.optim.optimizer")
    of_torch.register_optimizer_step_pre_hook(training.begin_step)
    of_torch.register_optimizer_step_post_hook(training.end_step)
