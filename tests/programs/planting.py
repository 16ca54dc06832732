"""How a mistake is put into the installed Megatron while a program runs, and what is known of each.

Shapes  a mistake is wrong in a place or in several: functions, or methods of classes. Each rank writes how often its
        places were reached: "planted NAME: PLACE: 12 calls".
Calls   plant() before the program imports what it names.
Errors  AttributeError where Megatron does not have the place.
"""

import functools
import importlib
import inspect
from typing import Any, Callable, Dict, NamedTuple

import torch

BY_VALUES, BY_CALLS, BY_GROUPS, NOT_FOUND = "values", "calls", "groups", "not found"


class Mistake(NamedTuple):
    layout: str
    value: str  # that is wrong first; of BY_CALLS the rule that is broken
    what: str  # that is said of it and names the cause; "" where only the value is expected
    make: Callable[[], None]
    source: str = ""  # where a mistake of this kind was published
    kind: str = ""  # what such a mistake does, in a few words
    by: str = BY_VALUES
    why: str = ""  # it is not found
    relation: str = ""  # that is said of it and is so, but does not name the cause
    program: str = ""  # options of the layout and of the reference
    options: str = ""  # of the comparison


_NOT_OF_CORE = ("shardproof", "tiny_gpt", "pretrain")
_calls: Dict[str, int] = {}  # by place
_is_right = False  # places are counted and left as they are


def _holder_of(module: str, outer: str) -> Any:
    holder: Any = importlib.import_module(module if module.split(".")[0] in _NOT_OF_CORE else "megatron.core." + module)
    for part in outer.split(".") if outer else ():
        holder = getattr(holder, part)
    return holder


def replace(module: str, name: str, make: Callable[[Any], Any]) -> None:
    """Puts what `make` makes of a function, or of a method of a class, in its place."""
    outer, _, last = name.rpartition(".")
    holder, place = _holder_of(module, outer), f"{module}.{name}"
    right = getattr(holder, last)
    chosen = right if _is_right else make(right)
    _calls.setdefault(place, 0)

    @functools.wraps(right)
    def counted(*arguments: Any, **named: Any) -> Any:
        _calls[place] += 1
        return chosen(*arguments, **named)

    is_static = isinstance(inspect.getattr_static(holder, last), staticmethod)
    setattr(holder, last, staticmethod(counted) if is_static else counted)


def on(module: str, name: str, make: Callable[[Any], Any]) -> Callable[[], None]:
    return lambda: replace(module, name, make)


def all_of(*makes: Callable[[], None]) -> Callable[[], None]:
    def make_all() -> None:
        for make in makes:
            make()

    return make_all


def plant(mistake: Mistake, is_right: bool) -> None:
    """Puts a mistake into Megatron, or its right twin, which counts the calls of the same places."""
    global _is_right
    _is_right = is_right
    mistake.make()


def report() -> None:
    """Writes how often the places of this rank were reached."""
    for place, calls in _calls.items():
        print(f"planted {place}: {calls} calls", flush=True)


def nothing(_: Any) -> Any:
    return lambda *arguments, **named: None


def unmarked(mark: str) -> Callable[[Any], Any]:
    """Leaves out a mark of a module's parameters, by which Megatron tells how their gradients are summed or counted."""

    def make(function: Any) -> Any:
        def without_mark(self: Any, *arguments: Any, **named: Any) -> None:
            function(self, *arguments, **named)
            for parameter in self.parameters():
                setattr(parameter, mark, False)

        return without_mark

    return make


def inside(name: str, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Has a function of torch.distributed be another one while a function of Megatron runs."""

    def make_caller(function: Any) -> Any:
        def with_other_call(*arguments: Any, **named: Any) -> Any:
            kept = getattr(torch.distributed, name)
            setattr(torch.distributed, name, make(kept))
            try:
                return function(*arguments, **named)
            finally:
                setattr(torch.distributed, name, kept)

        return with_other_call

    return make_caller
