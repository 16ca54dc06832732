"""How the program of a rank ends: as that of an interpreter does, with a last word to the virtual rank.

Calls   run_to_end() once in a rank's process. Meanwhile os._exit() gives the last word, too.
Errors  WorldEnded leaves it: the ranks cannot go on.
Exact   the last word is said once: that of an exception before sys.excepthook and what is registered with atexit run.
        A process that the rank has forked ends without one.
"""

import atexit
import functools
import os
import runpy
import sys
import threading
import traceback
from types import TracebackType
from typing import Any, Callable, Dict, Optional

from . import sites, told
from .link import Link, LinkError, Refused, WorldEnded

_MOST_TEXT = 300  # characters of an exception
_BY_CODE = 0xFF  # of an exit code, what the system keeps
_IN_FRONT = (sites._OWN, runpy.run_path.__code__.co_filename)


class _LastWord:
    """What a rank's process says at its end."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._process = os.getpid()
        self._is_said = False

    def end(self) -> None:
        """Says that the program has ended well. It waits for what the program need not wait for."""
        if not self._is_over():
            self._link.finish_sends()
            self._tell_arguments()
            self._say({"do": "end"})

    def raised(self, text: str, refused: bool = False) -> None:
        """Says that the program has ended otherwise; `refused`: because of the call that was refused last."""
        if not self._is_over():
            self._tell_arguments()
            self._say({"do": "raised", "text": text, "refused": refused})

    def _tell_arguments(self) -> None:
        arguments = told.arguments() if self._link.is_first else None
        if arguments:
            self._ask({"do": "tell", "text": arguments})

    def _is_over(self) -> bool:
        return self._is_said or os.getpid() != self._process

    def _say(self, request: Dict[str, Any]) -> None:
        self._is_said = True
        self._ask(request)

    def _ask(self, request: Dict[str, Any]) -> None:
        try:
            self._link.ask(request)
        except (LinkError, WorldEnded):  # the rank is over, and the report of the run says why
            pass


def _of_program(trace: Optional[TracebackType]) -> Optional[TracebackType]:
    """Returns a traceback without what stands in front of the program's first line."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_IN_FRONT):
        trace = trace.tb_next
    return trace


def _line(frame: traceback.FrameSummary) -> str:
    return f"{sites.short_name(frame.filename)}:{frame.lineno}"


def _place(trace: Optional[TracebackType]) -> str:
    """Says at which line of the program something was raised, and at which of PyTorch's, if it was there."""
    frames = traceback.extract_tb(_of_program(trace))
    passed_over = sites._folders_that_pass_calls_on()
    own = [frame for frame in frames if not frame.filename.startswith(passed_over)]
    if not own:
        return ""
    place = f"{_line(own[-1])} in {own[-1].name}"
    if frames[-1] is own[-1] or frames[-1].filename.startswith((sites._OWN, "<frozen ")):
        return f" ({place})"
    return f" (raised in {_line(frames[-1])}, called at {place})"


def _text_of(error: BaseException) -> str:
    """One line that says what was raised, and where the program stood."""
    if isinstance(error, SystemExit):
        how = f"with exit code {error.code}" if isinstance(error.code, int) else f"by sys.exit({error.code!r})"
        return f"the program has ended {how[:_MOST_TEXT]}" + _place(error.__traceback__)
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    return text[:_MOST_TEXT] + _place(error.__traceback__)


def _code_of(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code & _BY_CODE if isinstance(error.code, int) else 1


def _show(error: BaseException) -> None:
    """Has sys.excepthook show what the program has raised."""
    shown = (type(error), error, error.__traceback__)
    sys.last_type, sys.last_value, sys.last_traceback = shown
    try:
        sys.excepthook(*shown)
    except WorldEnded:
        pass
    except BaseException:
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exc(chain=False)
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(*shown)


def _outcome(last: _LastWord, work: Callable[[], None]) -> int:
    """Does a part of the program, and returns the exit code that it gives."""
    try:
        work()
    except WorldEnded:
        raise
    except SystemExit as error:
        code = _code_of(error)
        if not isinstance(error.code, (int, type(None))):
            print(error.code, file=sys.stderr)
        if code != 0:
            last.raised(_text_of(error))
        return code
    except BaseException as error:
        text = _text_of(error)
        last.raised(text, isinstance(error, Refused))
        error.__traceback__ = _of_program(error.__traceback__)
        _show(error)
        return 1
    return 0


def _end_as_an_interpreter() -> None:
    """Waits for the program's threads and runs what it has left for its end."""
    threading._shutdown()
    try:
        atexit._run_exitfuncs()
    except Exception:  # Python 3.9 raises again what it has shown
        pass


def flush() -> int:
    """Writes what the program has printed, and returns the exit code of an interpreter that cannot."""
    code = 0
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception:
            code = 120
    return code


def _take_over_exit(last: _LastWord) -> None:
    """Has os._exit() give the last word."""
    exit_at_once = os._exit

    @functools.wraps(exit_at_once)
    def _exit(status: int) -> None:
        try:
            if status & _BY_CODE == 0:
                last.end()
            else:
                function, file, line = sites.site(sys._getframe(1))
                last.raised(f"the program has ended by os._exit({status}) ({file}:{line} in {function})")
        except BaseException:  # it ends in any case
            pass
        exit_at_once(status)

    setattr(os, "_exit", _exit)


def run_to_end(link: Link, program: Callable[[], None]) -> int:
    """Runs the program on a rank, and tells the rank how it ended. Returns the exit code."""
    last = _LastWord(link)
    _take_over_exit(last)
    code = _outcome(last, program)
    code = _outcome(last, _end_as_an_interpreter) or code
    return code or _outcome(last, last.end) or flush()
