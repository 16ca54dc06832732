"""The site of a call: the innermost line of the program that is not PyTorch's, and whose function it is.

Shapes  a site is [name, file, line]: the function, and the file as short as it can be told.
"""

import os
import sys
from types import FrameType
from typing import List, Optional, Tuple, Union

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _folders_that_pass_calls_on() -> Tuple[str, ...]:
    torch = sys.modules.get("torch")
    folders = [_OWN, "<frozen "]
    if torch is not None and torch.__file__:
        folders.append(os.path.dirname(torch.__file__) + os.sep)
    return tuple(folders)


def short_name(file: str) -> str:
    """Returns the path of a file in its package or below the folder in which the program runs."""
    for folder in (os.getcwd(), *sys.path):
        if folder and file.startswith(folder.rstrip(os.sep) + os.sep):
            return file[len(folder.rstrip(os.sep)) + 1 :]
    return file


def site(frame: Optional[FrameType] = None) -> List[Union[str, int]]:
    """Returns the site of the call that is being made, or of the call in which another thread is."""
    passed_over = _folders_that_pass_calls_on()
    frame = frame or sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(passed_over) and os.sep + "contextlib.py" not in file:
            return [frame.f_code.co_name, short_name(file), frame.f_lineno]
        frame = frame.f_back
    return ["program", "?", 0]


_PASS_CALLS_ON = ("distributed_c10d.py", "c10d_logger.py", "contextlib.py")  # which calls of a program go through


def is_torchs_own() -> bool:
    """Whether torch itself makes the call that is being made, as DDP and FSDP do, and not the program."""
    own, frozen, *torch = _folders_that_pass_calls_on()
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((own, frozen)) and os.path.basename(file) not in _PASS_CALLS_ON:
            return file.startswith(tuple(torch))
        frame = frame.f_back
    return False
