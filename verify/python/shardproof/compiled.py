"""torch.compile without its compiler: it returns what it is given, as it does in torch where TORCHDYNAMO_DISABLE is 1.

Exact   the functions are run as they are written. torch would import its compiler first, which takes 2 s.
"""

import os
from typing import Any

import torch


def _as_it_is(model: Any = None, **_: Any) -> Any:
    """Returns a function or module, or a decorator that does."""
    return _as_it_is if model is None else model


def install() -> None:
    """Replaces torch.compile in this process, unless the user has set the variable to something else."""
    if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        setattr(torch, "compile", _as_it_is)
