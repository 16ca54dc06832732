"""What a call that was started returns: a Work of torch, and its future.

A future is done when it is first looked at. A future that is taken in a backward pass, as DDP takes them, is done at
the end of that pass: the calls that come meanwhile are started before it is waited for.
"""

import sys
from typing import Any, Callable, List, Optional, Sequence, Set

import torch
import torch.distributed as dist

Finish = Callable[[], None]

# What torch holds of a work in Python does not keep it alive in every release.
_unfinished: "Set[CallWork]" = set()


class CallWork(dist.Work):
    """One or more calls that were started. The result is there when wait() has returned."""

    def __init__(self, finishes: Sequence[Finish], result: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._finishes = list(finishes)
        self._result = list(result)
        self._future: "Optional[torch.futures.Future[List[torch.Tensor]]]" = None
        if finishes:
            _unfinished.add(self)

    def wait(self, timeout: Any = None) -> bool:
        """Returns when the calls are done and their results are copied."""
        while self._finishes:
            self._finishes.pop(0)()
        _unfinished.discard(self)
        future = self._future
        if future is not None and not torch.futures.Future.done(future):  # that of torch, which does not wait
            future.set_result(self._result)
        return True

    def is_completed(self) -> bool:
        """Waits: when a call is done on the way would depend on the schedule."""
        return self.wait()

    def is_success(self) -> bool:
        return not self._finishes

    def exception(self) -> None:
        return None

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> List[torch.Tensor]:
        self.wait()
        return self._result

    def get_future(self) -> "torch.futures.Future[List[torch.Tensor]]":
        """Returns the future of the calls, always the same one."""
        if self._future is None:
            is_in_backward = torch._C._current_graph_task_id() != -1
            self._future = _FutureOfCall(self.wait, not is_in_backward)
            if is_in_backward:
                torch.autograd.Variable._execution_engine.queue_callback(self.wait)
            elif "get_future" not in sys._getframe(1).f_code.co_names:
                self.wait()  # torch itself has asked, and does not look at the future through Python
        return self._future


class _FutureOfCall(torch.futures.Future):  # type: ignore[type-arg]
    """A future that waits for its call when a program looks at it. What is chained to it is such a future too.

    `waits_for_chain` is for a future that torch itself may wait for later: its call is done before one is chained to it.
    """

    def __init__(self, wait: Callable[[], Any], waits_for_chain: bool) -> None:
        super().__init__()
        self._wait_for_call = wait
        self._waits_for_chain = waits_for_chain

    def done(self) -> bool:
        self._wait_for_call()
        return bool(super().done())

    def wait(self) -> Any:
        self._wait_for_call()
        return super().wait()

    def value(self) -> Any:
        self._wait_for_call()
        return super().value()

    def then(self, callback: Callable[[Any], Any]) -> Any:
        chained = _FutureOfCall(self._wait_for_call, self._waits_for_chain)

        def pass_on(done: Any) -> None:
            try:
                chained.set_result(callback(done))
            except BaseException as error:
                chained.set_exception(error if isinstance(error, Exception) else RuntimeError(str(error)))

        self.add_done_callback(pass_on)
        return chained

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        if self._waits_for_chain:
            self._wait_for_call()
        super().add_done_callback(callback)
