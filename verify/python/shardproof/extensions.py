"""Extensions for CUDA, which a program builds with torch.utils.cpp_extension. Without a GPU there is nothing to build
them for, also where there is a toolkit.

Calls   install() once in a rank's process, before the program runs.
Errors  what builds one ends in torch's own OSError, as on a machine without a toolkit. Programs go on after that.
"""

import sys
from typing import Any

from .after_import import after_import

_MODULE = "torch.utils.cpp_extension"


def _has_no_toolkit(module: Any) -> None:
    setattr(module, "CUDA_HOME", None)


def install() -> None:
    if _MODULE in sys.modules:
        _has_no_toolkit(sys.modules[_MODULE])
    else:
        after_import(_MODULE, _has_no_toolkit)
