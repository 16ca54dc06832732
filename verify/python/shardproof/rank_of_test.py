"""Runs a test on layouts as one rank: what `shardproof run` starts for a test under @shardproof.layouts (marked.py).

    python -m shardproof.rank_of_test FILE::FUNCTION [ARGUMENTS] OPTION...

Shapes  ARGUMENTS is a JSON object: the function's arguments beside `layout`. The options are Megatron's (layout.py).
        SHARDPROOF_TEST_PATH has the folders in which the process that tests searches modules.
Calls   the group of all ranks, over NCCL, is there when the function is called.
"""

import importlib
import json
import os
import sys
from typing import Any, Callable, Dict

import torch.distributed as dist

import shardproof

from . import layout


def _module_of(file: str) -> Any:
    """Imports a file as pytest does: by its name in the outermost package."""
    folder, name = os.path.dirname(os.path.abspath(file)), os.path.splitext(os.path.basename(file))[0]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    searched = [folder, *filter(None, os.environ.get("SHARDPROOF_TEST_PATH", "").split(os.pathsep))]
    sys.path[:] = [*searched, *(other for other in sys.path if other not in searched)]
    module = importlib.import_module(name)
    if not os.path.samefile(str(module.__file__), file):
        raise ImportError(f"the module {name} is {module.__file__}, and not {file}")
    return module


def _arguments(words: "list[str]") -> Dict[str, Any]:
    """Takes the arguments of the function from the words, if they are given."""
    return dict(json.loads(words.pop(0))) if words[:1] and words[0].startswith("{") else {}


def main() -> None:
    if shardproof._link is None:
        sys.exit("shardproof.rank_of_test: this runs a rank of 'shardproof run'; start the test by pytest")
    target, *words = sys.argv[1:]
    file, _, name = target.rpartition("::")
    arguments = _arguments(words)
    test: Callable[..., None] = getattr(_module_of(file), name).on_layout
    dist.init_process_group("nccl")
    test(layout=layout.of(words, dist.get_world_size()), **arguments)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
