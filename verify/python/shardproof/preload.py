"""Imports modules before the ranks are forked, so that not each rank imports them: torch, and those parts of torch that
take longest and that packages over it import, such as Megatron. Modules of the program itself are left to the ranks,
because they may read RANK when they are imported.
"""

import ast
import importlib
import importlib.util
import sysconfig
from typing import List, Set

_OF_PACKAGES = ("torch.distributed.tensor", "torch.distributed.fsdp", "torch._dynamo", "torch._inductor.compile_fx")
_WITHOUT = ("torch", "numpy")  # packages that import none of these


def torch() -> bool:
    """Imports torch. Returns whether it is there."""
    try:
        importlib.import_module("torch")
    except ImportError:
        return False
    return True


def parts_of_torch(words: List[str]) -> None:
    """Imports those parts of torch if the program of these words imports a package that may."""
    if _imports_packages(words):
        for name in _OF_PACKAGES:
            try:
                importlib.import_module(name)
            except Exception:  # this release has none of the name, or not for this Python; the ranks go on without it
                pass


def _imports_packages(words: List[str]) -> bool:
    if words[0] == "-m":
        return True
    try:
        return any(_is_package(root) for root in _imported_roots(words))
    except (OSError, SyntaxError, ValueError):  # which the ranks will tell
        return False


def _imported_roots(words: List[str]) -> Set[str]:
    """Returns the first names of the modules that the program's text imports."""
    if words[0] == "-c":
        text = words[1].encode()
    else:
        with open(words[0], "rb") as file:
            text = file.read()
    roots = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            roots.update(name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            roots.add(node.module.split(".")[0])
    return roots


def _is_package(root: str) -> bool:
    """Whether a module is neither of the standard library nor one of `_WITHOUT`."""
    spec = importlib.util.find_spec(root)
    origin = spec.origin if spec is not None else None
    is_of_library = origin in ("built-in", "frozen") or str(origin).startswith(sysconfig.get_paths()["stdlib"])
    return root not in _WITHOUT and (not is_of_library or "site-packages" in str(origin))
