"""The link of a rank's process to its virtual rank: frames on a socket, and memory that both share.

Shapes  offsets and sizes are in bytes. A part of the memory is taken from when a call is started until its
        result has been read.
Calls   any thread may make them; threads.py says which are refused.
Errors  LinkError: the rank has hung up. Refused: the rank refuses a call; its text has the parts of a refusal.
        WorldEnded: the ranks cannot go on, and the report of the run says why. NotServed (threads.py).
Source  sim/guest/frames.h, segment.h and guest_request.h.
"""

import json
import mmap
import os
import socket
import struct
import sys
import threading
from typing import Any, Callable, Dict, List, Tuple

from .threads import NotServed, Turns

_MARK = 0x31475053
_HEADER = struct.Struct("<III")
_ALIGNMENT = 64
_FIRST_BYTES = 1 << 16
_MOST_UNREAD = 64


class LinkError(RuntimeError):
    """The rank has hung up, or answers what is no answer."""


class Refused(RuntimeError):
    """The rank refuses a call."""


class WorldEnded(BaseException):
    """The ranks of the world cannot go on. It is no Exception, so that programs do not catch it by accident."""


class Memory:
    """The shared memory: a first-fit list of free parts, which grows by doubling."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._bytes = _FIRST_BYTES
        os.ftruncate(descriptor, self._bytes)
        self.map = mmap.mmap(descriptor, self._bytes)
        self._free: List[Tuple[int, int]] = [(0, self._bytes)]  # begin and end, ascending
        self._lock = threading.RLock()  # the collector may run what gives a part back while one is taken

    def take(self, wanted: int) -> int:
        """Returns the offset of a free part of so many bytes."""
        with self._lock:
            return self._first_fit(_rounded(wanted))

    def _first_fit(self, wanted: int) -> int:
        for at, (begin, end) in enumerate(self._free):
            if end - begin >= wanted:
                if end - begin == wanted:
                    del self._free[at]
                else:
                    self._free[at] = (begin + wanted, end)
                return begin
        self._grow(wanted)
        return self._first_fit(wanted)

    def give_back(self, begin: int, given: int) -> None:
        """Makes a part free again, and joins it with free parts beside it."""
        with self._lock:
            self._join(begin, begin + _rounded(given))

    def _join(self, begin: int, end: int) -> None:
        self._free.append((begin, end))
        self._free.sort()
        joined: List[Tuple[int, int]] = []
        for part in self._free:
            if joined and joined[-1][1] == part[0]:
                joined[-1] = (joined[-1][0], part[1])
            else:
                joined.append(part)
        self._free = joined

    def _grow(self, wanted: int) -> None:
        before = self._bytes
        self._bytes = max(2 * before, before + wanted)
        os.ftruncate(self._descriptor, self._bytes)
        self.map = mmap.mmap(self._descriptor, self._bytes)  # what looks at the map before keeps it alive
        self.give_back(before, self._bytes - before)


def _rounded(size: int) -> int:
    """Returns the bytes that a part of this size takes."""
    return max(_ALIGNMENT, -(-size // _ALIGNMENT) * _ALIGNMENT)


class Link:
    """Writes requests and reads their answers, which come in the same order."""

    def __init__(self, socket_descriptor: int, memory_descriptor: int) -> None:
        self._socket = socket.socket(fileno=socket_descriptor)
        self.memory = Memory(memory_descriptor)
        self._turns = Turns()
        self._written = 0
        self._answered = 0
        self._answers: Dict[int, Dict[str, Any]] = {}
        # By the number of the call: what waits for a call that the program need not wait for. It gets nothing from a
        # send, and a call of torch's own is torch's to drop.
        self.sends: Dict[int, Callable[[], None]] = {}
        self._rank = os.environ.get("RANK", "?")
        self._is_of_child = False  # whether this process is one that the rank has forked
        self._said_by_child = mmap.mmap(-1, 1)  # shared with forked processes; 1 if one has made a call
        os.register_at_fork(after_in_child=self._leave_to_parent)

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that tells what all ranks know."""
        return self._rank == "0"

    def require_own_process(self) -> None:
        """Refuses a call of a process that the rank has forked, and has the rank report it at its end."""
        if self._is_of_child:
            self._said_by_child[0] = 1
            raise NotServed(self._of_child())

    def _of_child(self) -> str:
        return f"a process that rank {self._rank} has forked makes a call; only the rank itself can make calls"

    def _leave_to_parent(self) -> None:
        """Lets go of the rank in a forked process: what the process does and how it ends is not the rank's."""
        self._is_of_child = True
        self.sends.clear()
        self._socket.close()

    def write(self, request: Dict[str, Any]) -> int:
        """Writes a request and returns its number. A thread that waits for the answer uses wait() or ask()."""
        self.require_own_process()
        with self._turns:
            return self._write(request)

    def wait(self, started: int) -> None:
        """Returns when a call that was started is done."""
        self.require_own_process()
        self._turns.begin_wait()
        try:
            waited = self._write({"do": "wait", "call": started})
            self.answer(started)
            self.answer(waited)
        finally:
            self._turns.end_wait()

    def ask(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """Writes a request, waits, and returns its answer. The last word of a program takes no turn."""
        if request["do"] in ("end", "raised"):
            return self._say_last(request)
        self.require_own_process()
        self._turns.begin_wait()
        try:
            return self.answer(self._write(request))
        finally:
            self._turns.end_wait()

    def _say_last(self, request: Dict[str, Any]) -> Dict[str, Any]:
        if self._is_of_child:
            return {}
        if self._said_by_child[0] and request["do"] == "end":
            request = {"do": "raised", "text": f"NotServed: {self._of_child()}"}
        number = self._write(request)
        return {} if self._turns.is_waited_for() else self.answer(number)

    def _write(self, request: Dict[str, Any]) -> int:
        body = json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
        # What the rank has answered is read in time: it does not wait for a guest that reads nothing.
        while self._written - self._answered > _MOST_UNREAD:
            self._take_answer()
        number = self._written
        self._written += 1
        try:
            self._socket.sendall(_HEADER.pack(_MARK, number & 0xFFFFFFFF, len(body)) + body)
        except OSError as error:
            raise LinkError(f"the rank does not take request {number}: {error}") from error
        return number

    def answer(self, number: int) -> Dict[str, Any]:
        """Returns the answer to a request, once."""
        while number not in self._answers:
            self._take_answer()
        answer = self._answers.pop(number)
        if "ended" in answer:
            self._say_who_runs_beside()
            raise WorldEnded("the ranks cannot go on; the report of the run says why")
        if "refused" in answer:
            refused = answer["refused"]
            raise Refused(
                f"{refused['code']}: {refused['option']}: {refused['numbers']}\n"
                f"  rule  {refused['rule']}\n  try   {refused['hint']}"
            )
        return answer

    def _say_who_runs_beside(self) -> None:
        """Limits the verdict of the run, if a call of another thread could have let the ranks go on."""
        beside = self._turns.beside() if threading.active_count() > 1 else ""
        if beside:
            print(f"shardproof: {beside} ran while this rank waited; its calls are not in the verdict", file=sys.stderr)

    def _take_answer(self) -> None:
        self._answers[self._answered] = self._read()
        self._answered += 1

    def finish_sends(self) -> None:
        """Waits for the calls that the program need not wait for and has not waited for."""
        for finish in list(self.sends.values()):
            finish()

    def _read(self) -> Dict[str, Any]:
        _, _, size = _HEADER.unpack(self._bytes(_HEADER.size))
        answer = json.loads(self._bytes(size))
        if not isinstance(answer, dict):
            raise LinkError("the rank answers what is no object")
        return answer

    def _bytes(self, wanted: int) -> bytes:
        parts = []
        while wanted > 0:
            part = self._socket.recv(wanted)
            if not part:
                raise WorldEnded("the rank has hung up")
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)
