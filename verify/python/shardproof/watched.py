"""What modules take and give in the first steps of a training, and the gradients of these, told to the rank.

Calls   install() once in a rank's process, before the program runs. Modules get hooks when a program asks for their
        parameters. A step ends when an optimizer of torch has stepped.
Shapes  patterns are shell patterns over names, which are those in the outermost module without wrappers. A layer that
        knows its number in the whole model (`layer_number` of Megatron) has that number less 1 in a list of layers.
        A value is published with the shape that the rank has. Its name has parts with tabs between them: the number
        of the forward in the step, "takes" or "gives" with the argument, the module, its class, and the numbers of
        the layers in it.
Exact   counted are forwards of modules in training mode, and no recomputation. A gradient is that of the tensor, from
        all that uses it. In recomputed layers none is seen. A parameter that a module gives has none, and one that it
        takes is not published. A rank publishes at most 2^28 elements.
"""

import difflib
import fnmatch
import functools
import importlib
import weakref
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple

import torch

from . import values
from .torch_training import plain_name
from .values import Block, Keep

_MOST_ELEMENTS = 1 << 28  # of all values of a rank, chosen
_OF_EXPERTS = "tokens are sent to its experts"
_TOO_MANY = "a rank has more than 2^28 elements of watched values"


class _Named(NamedTuple):
    name: str
    kind: str  # the name of its class
    layers: str  # numbers of the layers in it
    is_of_experts: bool  # all its parameters are marked so by Megatron


_Found = Tuple[torch.nn.Module, _Named]


def _names_in(module: torch.nn.Module, path: Sequence[str], found: List[_Found]) -> Tuple[Set[int], List[bool]]:
    """Finds the names of all modules in a module. Returns the numbers of layers in it, and the marks of parameters."""
    layers: Set[int] = set()
    own = [parameter for parameter in module._parameters.values() if parameter is not None]
    shared = [bool(getattr(parameter, "allreduce", True)) for parameter in own]
    for key, child in module.named_children():
        number = getattr(child, "layer_number", None)
        if isinstance(module, torch.nn.ModuleList) and isinstance(number, int):
            key = str(number - 1)
            layers.add(number - 1)
        layers_below, shared_below = _names_in(child, [*path, key], found)
        layers |= layers_below
        shared += shared_below
    kinds = (kind for kind in type(module).__mro__ if not kind.__module__.startswith("torch.distributed."))  # of FSDP2
    name, numbers = plain_name(".".join(path)), ",".join(map(str, sorted(layers)))
    found.append((module, _Named(name, next(kinds).__name__, numbers, bool(shared) and not any(shared))))
    return layers, shared


_COMPARED = (torch.int32, torch.int64)  # beside floats: tokens and their positions


def _tensors(role: str, value: Any) -> Iterator[Tuple[str, torch.Tensor]]:
    """Returns the tensors of numbers in arguments or results, each with its role: "takes", "gives [1]", "takes mask"."""
    whole: Any = enumerate(value) if isinstance(value, (list, tuple)) else [(0, value)]
    for key, tensor in value.items() if isinstance(value, dict) else whole:
        is_weight = role == "takes" and isinstance(tensor, torch.nn.Parameter)
        is_tensor = isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.dtype in _COMPARED)
        if is_tensor and not is_weight:
            yield role if key == 0 else f"{role} {key if isinstance(key, str) else [key]}", tensor


def _is_in_backward() -> bool:
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != -1


class _Watch:
    """The modules that are watched, and how often each was called in this step."""

    def __init__(self, keep: Keep, patterns: Sequence[str]) -> None:
        self._keep = keep
        self._patterns = patterns
        self._names: Any = weakref.WeakKeyDictionary()  # by module
        self._with_hooks: Any = weakref.WeakSet()
        self._forwards: Dict[str, int] = {}  # of this step, by name
        self._steps: Any = weakref.WeakKeyDictionary()  # by optimizer
        self._step = 0
        self._elements_left = _MOST_ELEMENTS
        self._told: Set[str] = set()

    def _matches(self, name: str) -> bool:
        return name != "" and any(fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns)

    def add(self, outer: torch.nn.Module) -> None:
        """Learns the names of the modules in a module. That in the outermost one is the longest."""
        if self._step >= values.STEPS:
            return
        found: List[_Found] = []
        _names_in(outer, [], found)
        for module, named in found:
            known = self._names.get(module)
            if known is None or len(named.name) >= len(known.name):
                self._names[module] = named
            if self._matches(named.name) and module not in self._with_hooks:
                self._with_hooks.add(module)
                module.register_forward_pre_hook(self._takes, with_kwargs=True)
                module.register_forward_hook(self._gives)

    def _tell(self, kind: str, name: str, why: str) -> None:
        text = f"{name}\t{why}"
        if text not in self._told:
            self._told.add(text)
            values.publish(self._keep, kind, 0, Block(text, [0], [0], [0]), torch.empty(0))

    def _counts(self, module: torch.nn.Module) -> bool:
        if self._step >= values.STEPS or not module.training or _is_in_backward():
            return False
        named = self._names[module]
        if self._matches(named.name) and named.is_of_experts:
            self._tell("unwatched", named.name, _OF_EXPERTS)
        return self._matches(named.name) and not named.is_of_experts

    def _takes(self, module: torch.nn.Module, arguments: Any, named: Any) -> None:
        if self._counts(module):
            name = self._names[module].name
            self._forwards[name] = self._forwards.get(name, 0) + 1
            for value in (arguments, named):
                self._watch(module, "takes", value)

    def _gives(self, module: torch.nn.Module, _: Any, result: Any) -> None:
        if self._counts(module):
            self._watch(module, "gives", result)

    def _watch(self, module: torch.nn.Module, role: str, value: Any) -> None:
        """Publishes tensors, and their gradients when they are known."""
        named, step = self._names[module], self._step
        for which, tensor in _tensors(role, value):
            name = "\t".join((str(self._forwards[named.name] - 1), which, named.name, named.kind, named.layers))
            publish = functools.partial(self._publish, step=step, named=named, name=name)
            publish("watched", tensor)
            if tensor.requires_grad and not isinstance(tensor, torch.nn.Parameter):
                tensor.register_hook(functools.partial(publish, "watched gradient"))

    def _publish(self, kind: str, tensor: Any, step: int, named: _Named, name: str) -> None:
        elements = (tensor.to_local() if hasattr(tensor, "device_mesh") else tensor).detach()
        if elements.numel() > self._elements_left:
            return self._tell("unwatched", named.name, _TOO_MANY)
        self._elements_left -= elements.numel()
        shape = list(elements.shape)
        values.publish(self._keep, kind, step, Block(name, shape, [0] * len(shape), shape), elements)

    def end_step(self, optimizer: Any, *_: Any) -> None:
        """Ends a step of one optimizer. A step of the training ends with the first of its optimizers."""
        self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if self._steps[optimizer] <= self._step:
            return
        if self._step == 0:
            self._tell_patterns()
        self._step += 1
        self._forwards.clear()

    def _tell_patterns(self) -> None:
        """Tells which patterns no module of this rank has, with the names that are most like it."""
        names = sorted({named.name for named in self._names.values()} - {""})
        for pattern in self._patterns:
            if not fnmatch.filter(names, pattern):
                self._tell("unmatched", pattern, ", ".join(difflib.get_close_matches(pattern, names, 3, 0)))


def install(keep: Keep, patterns: Sequence[str]) -> None:
    """Has what modules take and give told, for modules whose names have one of these patterns."""
    watch = _Watch(keep, patterns)
    of_torch = torch.nn.Module.named_parameters

    @functools.wraps(of_torch)
    def named_parameters(self: Any, *arguments: Any, **named: Any) -> Any:
        watch.add(self)
        return of_torch(self, *arguments, **named)

    setattr(torch.nn.Module, "named_parameters", named_parameters)
    importlib.import_module("torch.optim.optimizer").register_optimizer_step_post_hook(watch.end_step)
