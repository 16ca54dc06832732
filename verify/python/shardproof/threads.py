"""The threads of a rank. A virtual rank waits for one call at a time, so one thread at a time may wait.

Threads that take turns are served, such as those of autograd and of a DataLoader. A thread that makes a call while
another one waits could let the ranks go on in reality. So the call is refused, and the waiting thread raises too.
A thread that is about to wait first gives others that run some time to come to their own call.

Errors  NotServed: two threads of a rank make calls at once. It names both and where they stand.
"""

import os
import sys
import sysconfig
import threading
import time
from types import FrameType
from typing import Any, Dict, Optional, Set

from . import sites

_STEPS, _STEP = 200, 0.005  # of the time that running threads get, in seconds; chosen
_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
_THAT_BLOCK = tuple(
    _LIBRARY + name
    for name in ("threading.py", "queue.py", "selectors.py", "socket.py", "subprocess.py", "concurrent", "multiprocessing")
)


class NotServed(NotImplementedError):
    """A feature that has no counterpart in the world of virtual ranks."""


def _is_blocked(frame: FrameType) -> bool:
    """Whether a thread waits for another one: in a lock of Python's, or in autograd."""
    file = frame.f_code.co_filename
    return file.startswith(_THAT_BLOCK) or os.sep.join(("torch", "autograd", "")) in file


def _description(thread: int, names: Dict[int, str], frames: Dict[int, FrameType]) -> str:
    """Says which thread it is, and where it stands."""
    frame = frames.get(thread)
    name, file, line = sites.site(frame) if frame is not None else ("?", "?", 0)
    return f"thread '{names.get(thread, 'of no name')}' at '{name}' ({file}:{line})"


class Turns:
    """Whose turn it is to make calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Optional[int] = None  # the thread that waits for a call
        self._is_sent = False  # whether the waiting thread has asked its rank
        self._left_alone: Set[int] = set()  # threads that have not come to a call when they had time to
        self._refusal = ""

    def __enter__(self) -> None:
        """Holds the link for a request that does not wait."""
        self._lock.acquire()
        self._left_alone.discard(threading.get_ident())
        if self._refusal or self.is_waited_for():
            try:
                self._refuse()
            finally:
                self._lock.release()

    def __exit__(self, *_: Any) -> None:
        self._lock.release()

    def begin_wait(self) -> None:
        """Has this thread wait for a call, until end_wait()."""
        own = threading.get_ident()
        with self._lock:
            self._left_alone.discard(own)
            if self._refusal or self._waiting is not None:
                self._refuse()
            self._waiting, self._is_sent = own, False
        if threading.active_count() > 1:
            self._let_others_run(own)
        with self._lock:
            if self._refusal:
                self._waiting = None
                raise NotServed(self._refusal)
            self._is_sent = True

    def end_wait(self) -> None:
        """Ends the turn of this thread. Raises if another thread was refused meanwhile."""
        with self._lock:
            self._waiting = None
        if self._refusal and sys.exc_info()[0] is None:
            raise NotServed(self._refusal)

    def is_waited_for(self) -> bool:
        """Whether the rank waits for a call, and takes no other request meanwhile."""
        return self._waiting is not None and self._is_sent

    def beside(self) -> str:
        """Describes the threads that run beside this one and might make a call; nothing if there are none."""
        frames, names = self._frames_and_names()
        others = [t for t, frame in frames.items() if t != threading.get_ident() and not _is_blocked(frame)]
        return ", ".join(sorted(_description(thread, names, frames) for thread in others))

    def _let_others_run(self, own: int) -> None:
        """Returns when all other threads are blocked, or have had their time."""
        running: Set[int] = set()
        for _ in range(_STEPS):
            frames = sys._current_frames()
            running = {t for t, frame in frames.items() if t != own and not _is_blocked(frame)} - self._left_alone
            if not running or self._refusal:
                return
            time.sleep(_STEP)
        self._left_alone |= running

    @staticmethod
    def _frames_and_names() -> "tuple[Dict[int, FrameType], Dict[int, str]]":
        names = {t.ident: t.name for t in threading.enumerate() if t.ident is not None}
        return {t: frame for t, frame in sys._current_frames().items() if t in names}, names

    def _refuse(self) -> None:
        """Raises in this thread, and has the waiting one raise as well. The lock is held."""
        if not self._refusal:
            frames, names = self._frames_and_names()
            waits, calls = (_description(t or 0, names, frames) for t in (self._waiting, threading.get_ident()))
            self._refusal = f"calls of two threads at once: {waits} waits, and {calls} makes another call"
        raise NotServed(self._refusal)
