"""A stand-in for Transformer Engine, in plain torch: its layers, attention with context parallelism, cross entropy,
rotary embeddings and Adam, under the names by which Megatron asks for them.

Calls   install() once in a rank's process, before the program runs. Modules are made when the program imports them.
Exact   computes in the dtype of the weights; norms, softmax and cross entropy in f32, or f64 for f64. What is not
        served raises NotServed, with its name.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Optional, Sequence

_NAME = "transformer_engine"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and makes the modules of the stand-in."""

    def find_spec(self, fullname: str, path: Optional[Sequence[str]], target: Any = None) -> Any:
        if fullname.partition(".")[0] != _NAME:
            return None
        found = importlib.import_module(__name__ + ".modules").MODULES
        if fullname not in found:
            return None
        is_package = any(name.startswith(fullname + ".") for name in found)
        return importlib.machinery.ModuleSpec(fullname, self, origin="shardproof", is_package=is_package)

    def exec_module(self, module: types.ModuleType) -> None:
        found = importlib.import_module(__name__ + ".modules").MODULES
        for name, value in found[module.__name__].items():
            setattr(module, name, value)
        for name in found:  # Megatron asks for te.pytorch.ops and its like without importing them
            if name.rpartition(".")[0] == module.__name__:
                importlib.import_module(name)


def install(uses_gpu: bool) -> None:
    """Puts the stand-in in the place of Transformer Engine, unless a program that uses a GPU has the real one."""
    if not (uses_gpu and importlib.util.find_spec(_NAME)):
        sys.meta_path.insert(0, _Finder())
