"""Values that a program computes, told to its rank with their place in the whole tensor, so that runs of other layouts
can be compared with them.

Shapes  a piece is elements `begin` to `begin + n`, row by row, of a block. The block has the shape `shape`, and lies at
        `offset` in the whole tensor of the shape `whole`.
"""

import hashlib
import math
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import torch

from .link import Link
from .tensors import Part

STEPS = 3  # of a program that are compared
_MOST_ELEMENTS = 1 << 28  # of a value that is put together (sim/guest/guest_request.cpp)
_MIX = ((30, 34, -0x40A7B892E31B1A47), (27, 37, -0x6B2FB644ECCEEE15), (31, 33, 1))  # of splitmix64


class Block(NamedTuple):
    """Where a part of a tensor lies in the whole one."""

    name: str
    whole: Sequence[int]
    offset: Sequence[int]
    shape: Sequence[int]


# Takes the name of a value, elements of it, and their place.
Keep = Callable[[str, torch.Tensor, Dict[str, Any]], None]


def told(link: Link) -> Keep:
    """Returns what tells values to a rank."""

    def tell(name: str, elements: torch.Tensor, place: Dict[str, Any]) -> None:
        part = Part(link, elements.detach().double().reshape(-1))
        part.put()
        link.ask({"do": "publish", "name": name, "tensor": part.description(), "place": place})
        part.release()

    return tell


def publish(keep: Keep, kind: str, step: int, block: Block, elements: torch.Tensor, begin: int = 0) -> None:
    """Has a rank's piece of a value kept. One that is too large to be put together is left out, and told as such."""
    if math.prod(block.whole) > _MOST_ELEMENTS:
        kind, block, elements, begin = "left out", Block(block.name, [0], [0], [0]), elements.new_empty(0), 0
    whole, offset, shape = (list(map(int, numbers)) for numbers in (block.whole, block.offset, block.shape))
    place = {"kind": kind, "step": step, "whole": whole, "offset": offset, "shape": shape, "begin": begin}
    keep(block.name, elements, place)


def _places(block: Block) -> torch.Tensor:
    """Returns the place of each element of a block in the whole tensor, row by row. [shape]"""
    places, stride = torch.zeros([], dtype=torch.int64), 1
    for whole, offset, size in reversed(list(zip(block.whole, block.offset, block.shape))):
        steps = (offset + torch.arange(size)) * stride
        places = steps.reshape([-1] + [1] * places.dim()) + places
        stride *= whole
    return places


def _uniform(name: str, places: torch.Tensor) -> torch.Tensor:
    """Returns a number from -1 to 1 for each place, the same in any program that asks for this name and place."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little", signed=True)
    x = places * -0x61C8864680B583EB + seed
    for shift, bits, factor in _MIX:
        x = (x ^ ((x >> shift) & ((1 << bits) - 1))) * factor
    return ((x >> 11) & ((1 << 53) - 1)).double() / (1 << 52) - 1


def drawn(block: Block, initial: torch.Tensor, axes: int) -> torch.Tensor:
    """Returns weights for a block from its name alone. `axes` is the number of the parameter's own axes.

    Weights of two axes and more have the variance 1 over the last of them. Others stay near 1 if they are 1, and
    near 0 if not.
    """
    noise = _uniform(block.name, _places(block)).reshape(initial.shape)
    if axes > 1:
        return noise * (3.0 / block.whole[-1]) ** 0.5
    return 0.1 * noise + float(bool((initial == 1).all()))


def sums(losses: Sequence[Any]) -> "dict[str, List[float]]":
    """Returns the losses of microbatches by name: their sum, and the number that it is to be divided by."""
    found: "dict[str, List[float]]" = {}
    for loss in losses:
        for name, value in loss.items() if isinstance(loss, dict) else ():
            parts = [float(x) for x in _flat(value)]
            if len(parts) in (1, 2):
                of_name = found.setdefault(str(name), [0.0, 0.0])
                of_name[0] += parts[0]
                of_name[1] += parts[1] if len(parts) == 2 else 1.0
    return found


def _flat(value: Any) -> List[Any]:
    if isinstance(value, torch.Tensor):
        return list(value.detach().reshape(-1))
    return list(value) if isinstance(value, (list, tuple)) else [value]
