"""Changes modules of packages right after they are imported, before the program sees them.

Calls   after_import(name, change) before the module is imported: `change` gets the module, once.
"""

import importlib.abc
import importlib.util
import sys
from typing import Any, Callable, Dict, Optional, Sequence

Change = Callable[[Any], None]


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds modules as others do, and has them changed after they are executed."""

    def __init__(self) -> None:
        self.changes: Dict[str, Change] = {}

    def find_spec(self, fullname: str, path: Optional[Sequence[str]], target: Any = None) -> Any:
        change = self.changes.pop(fullname, None)
        spec = importlib.util.find_spec(fullname) if change is not None else None
        if change is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            change(module)

        setattr(spec.loader, "exec_module", execute_and_change)
        return spec


_finder = _AfterImport()


def after_import(name: str, change: Change) -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.changes[name] = change
