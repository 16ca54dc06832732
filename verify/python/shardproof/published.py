"""Values that a program names itself, by shardproof.publish(), told to its rank with their place in the whole tensor.

Shapes  a plain tensor is whole on each rank that publishes it, unless its place is given. A DTensor has its own place.
        A number is a tensor of one element.
Errors  ValueError, with the name of the value: a block that does not lie in the whole, or a sum that is still partial.
"""

from typing import Any, Dict, NoReturn, Optional, Sequence

import torch

from . import torch_training, values
from .values import Block, Keep


def _refuse(name: str, why: str) -> NoReturn:
    raise ValueError(f"shardproof.publish({name!r}): {why}")


def _require_block(block: Block) -> None:
    """Refuses a block that does not lie in the whole tensor."""
    dimensions = len(block.shape)
    if len(block.whole) != dimensions or len(block.offset) != dimensions:
        _refuse(block.name, f"whole={block.whole} and offset={block.offset} of a tensor of {dimensions} dimensions")
    for whole, offset, size in zip(block.whole, block.offset, block.shape):
        if offset < 0 or offset + size > whole:
            _refuse(block.name, f"a block of {block.shape} at {block.offset} does not lie in a tensor of {block.whole}")


class Published:
    """What a rank's program has published so far: how often each name."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._steps: Dict[str, int] = {}  # by name, the step of its next value

    def publish(self, name: str, value: Any, whole: Optional[Sequence[int]], offset: Optional[Sequence[int]]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"shardproof.publish({name!r}): a name is a str")
        name.encode()  # UnicodeEncodeError: a file could not hold it
        tensor = torch.as_tensor(value)
        if (whole is None) != (offset is None):
            _refuse(name, "whole= and offset= are given together")
        if whole is None or offset is None:
            block, elements = self._placed_by_itself(name, tensor)
        else:
            if hasattr(tensor, "device_mesh"):
                _refuse(name, "a DTensor has its own place, so whole= and offset= are not given")
            block, elements = Block(name, list(whole), list(offset), list(tensor.shape)), tensor
        if block.shape == []:
            block = Block(name, [1], [0], [1])
        _require_block(block)
        if elements.is_complex():
            _refuse(name, "it is complex; publish its real and its imaginary part")
        step = self._steps.get(name, 0)
        self._steps[name] = step + 1
        if step < values.STEPS and elements.numel() > 0:
            values.publish(self._keep, "value", step, block, elements)

    def _placed_by_itself(self, name: str, tensor: torch.Tensor) -> "tuple[Block, torch.Tensor]":
        part = torch_training.part_of(tensor)
        if part is None and hasattr(tensor, "device_mesh"):
            _refuse(name, f"its placements {tensor.placements} leave a sum partial; redistribute it first")
        if part is None:
            _refuse(name, "its place in the whole tensor is not known; give whole= and offset=")
        return Block(name, list(tensor.shape), list(part.offset), list(part.elements.shape)), part.elements
