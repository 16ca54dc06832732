"""Calls of a group, as requests to the virtual rank: one call, or a batch of messages that are started together."""

from typing import Any, Dict, List, Optional, Sequence

import torch

from . import sites
from .link import Link
from .tensors import Part, Reduction
from .works import CallWork, Finish

_SCALAR_TYPES = {  # which NCCL does not take, as torch names them
    getattr(torch, name): said
    for name, said in (("int16", "Short"), ("uint16", "UInt16"), ("uint32", "UInt32"), ("uint64", "UInt64"))
    if hasattr(torch, name)
}


def _is_permuted(tensor: torch.Tensor) -> bool:
    """Whether a tensor is certainly not contiguous on a GPU: a copy there keeps the dimensions' order, not the gaps."""
    if tensor.is_contiguous() or any(
        tensor.dim() == dim and tensor.is_contiguous(memory_format=order)
        for dim, order in ((4, torch.channels_last), (5, torch.channels_last_3d))
    ):
        return False
    expected = 1
    for stride, size in sorted((tensor.stride(i), tensor.size(i)) for i in range(tensor.dim()) if tensor.size(i) != 1):
        if stride != expected:
            return tensor.device.type == "cuda"
        expected *= size
    return True


def require_contiguous(tensors: Sequence[torch.Tensor]) -> None:
    """Refuses what ProcessGroupNCCL refuses in calls of one tensor, in its words."""
    if any(_is_permuted(tensor) for tensor in tensors):
        raise ValueError("Tensors must be contiguous")


def _require_nccl_takes(tensor: torch.Tensor) -> None:
    """Refuses what ProcessGroupNCCL refuses in all calls, in its words."""
    if tensor.layout != torch.strided:
        raise ValueError("Tensors must be CUDA and dense")
    if tensor.dtype in _SCALAR_TYPES:
        raise TypeError(
            f"Input tensor data type is not supported for NCCL process group: {_SCALAR_TYPES[tensor.dtype]}"
        )


class _Call:
    """A call with its tensors in the shared memory. `taken` is its output; it begins as it is if `in_place`."""

    def __init__(
        self,
        link: Link,
        operation: str,
        given: Optional[torch.Tensor],
        taken: Optional[torch.Tensor],
        in_place: bool,
        reduce: Optional[Reduction],
        arguments: Dict[str, Any],
    ) -> None:
        reduces, factor = reduce is not None, reduce and reduce.factor
        self.said: Dict[str, Any] = {"operation": operation, **arguments}
        if reduce is not None:
            self.said["reduce"] = reduce.name
        self._parts: List[Part] = []
        self._result: Optional[Part] = None
        if taken is not None:
            self._result = Part(link, taken, reduces)
            self._parts.append(self._result)
            if in_place:
                self._result.put(factor)
            self.said["output"] = self._result.description()
        if given is not None:
            part = Part(link, given, reduces)
            self._parts.append(part)
            part.put(factor)
            self.said["input"] = part.description()

    def take_result(self) -> None:
        """Copies the result to where the program wants it, and gives the memory back."""
        if self._result is not None:
            self._result.get()
        for part in self._parts:
            part.release()


class Calls:
    """Starts calls in one group of the world."""

    def __init__(self, link: Link, number: int, is_nccl: bool = False) -> None:
        self._link = link
        self._number = number
        self._is_nccl = is_nccl
        self._coalesced: Optional[List[Finish]] = None  # calls that are started together
        self._batch: List[_Call] = []  # the messages among them, which are not started yet

    def start(
        self,
        operation: str,
        given: Optional[torch.Tensor],
        taken: Optional[torch.Tensor],
        in_place: bool = False,
        reduce: Optional[Reduction] = None,
        **arguments: Any,
    ) -> Finish:
        """Starts a call, and returns what waits for it."""
        self._link.require_own_process()
        if self._is_nccl:
            for tensor in (given, taken):
                if tensor is not None:
                    _require_nccl_takes(tensor)
        call = _Call(self._link, operation, given, taken, in_place, reduce, {"group": self._number, **arguments})
        if self._coalesced is not None and operation in ("send", "recv"):
            self._batch.append(call)
            return _nothing
        return self._write({"do": "call", **call.said}, [call], operation == "send")

    def work(self, finishes: Sequence[Finish], result: Sequence[torch.Tensor]) -> CallWork:
        """Returns the work of calls that were started. Calls that are started together are waited for together."""
        if self._coalesced is None:
            return CallWork(finishes, result)
        self._coalesced.extend(finishes)
        return CallWork([], result)

    def begin_together(self) -> None:
        """Starts the messages that follow as one batch, at end_together()."""
        self._coalesced = []

    def end_together(self) -> CallWork:
        finishes, batch = self._coalesced or [], self._batch
        self._coalesced, self._batch = None, []
        if batch:
            request = {"do": "batch", "group": self._number, "calls": [call.said for call in batch]}
            finishes.append(self._write(request, batch, all(x.said["operation"] == "send" for x in batch)))
        return CallWork(finishes, [])

    def _write(self, request: Dict[str, Any], calls: List[_Call], only_sends: bool) -> Finish:
        started = self._link.write({**request, "site": sites.site(), "waits": False})

        def finish() -> None:
            self._link.sends.pop(started, None)
            self._link.wait(started)
            for call in calls:
                call.take_result()

        if only_sends or sites.is_torchs_own():
            self._link.sends[started] = finish
        return finish


def _nothing() -> None:
    """A message of a batch is waited for with the others."""
