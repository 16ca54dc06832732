"""What an optimizer of torch, or like one, keeps for a parameter between steps: its moments.

Calls   of(optimizer, tensor) after a step, with the tensor that the optimizer updates.
Shapes  a state has an element for each of the tensor. Others, such as factors of a matrix, have no place in the whole.
Exact   nor does a state count that divides by gradients: where one is zero but for rounding, it may be anything.
"""

from typing import Any, Iterator, Optional, Tuple

import torch

from .values import Block

_DIVIDED = ("step_size", "acc_delta")  # of Rprop and Adadelta


def _is_divided(name: str, kept: Any) -> bool:
    return name in _DIVIDED or (name == "momentum_buffer" and "square_avg" in kept)  # of RMSprop


def of(optimizer: Any, tensor: torch.Tensor) -> Iterator[Tuple[str, Optional[torch.Tensor]]]:
    """Yields the names of states and their elements; none for a state that cannot be compared."""
    states = getattr(optimizer, "state", None)
    kept = states.get(tensor) if hasattr(states, "get") else None
    unscaled = getattr(optimizer, "get_unscaled_state", None)  # of Transformer Engine, whose states may have scales
    for name, state in kept.items() if isinstance(kept, dict) else ():
        if not isinstance(state, torch.Tensor) or (state.dim() == 0 and tensor.dim() > 0):
            continue  # such as the number of steps
        is_whole = state.numel() == tensor.numel() and not _is_divided(name, kept)
        if is_whole and unscaled is not None:
            state = unscaled(tensor, name)
        yield str(name), state if is_whole and state.is_floating_point() else None


def name_of(state: str, parameter: str) -> str:
    """Returns the name of a parameter's state, as those who compare it read it (verify/run/global_values.h)."""
    return f"{state} of {parameter}"


def left_out(name: str, optimizer: Any) -> Block:
    """Returns the name under which states of an optimizer are told as left out."""
    return Block(f"{name} of {type(optimizer).__name__}", [0], [0], [0])
