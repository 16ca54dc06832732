"""The process groups of torch.distributed, over the link to a virtual rank.

A call is written when it is started, and its result is copied when it is waited for. Tensors stay where they are:
their elements pass through the shared memory.

Shapes  those of torch.distributed. Elements of dtypes that the world does not know are moved as bytes, and are
        refused in reductions, but for f16: it is summed in f32 and rounded once at the end.
Errors  NotServed: a feature of torch.distributed that is not served, with its name. Those of link.py.
"""

from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from . import sites
from .link import Link

_DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
}
_REDUCTIONS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "average",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
}
_OF_TRUTH = {dist.ReduceOp.SUM: "max", dist.ReduceOp.MAX: "max", dist.ReduceOp.MIN: "min", dist.ReduceOp.PRODUCT: "min"}


class NotServed(NotImplementedError):
    """A feature of torch.distributed that has no counterpart in the world of virtual ranks."""


class _Part:
    """A tensor's elements in the shared memory, from the start of a call until its end."""

    def __init__(self, link: Link, tensor: torch.Tensor, reduces: bool = False) -> None:
        self._link = link
        self.tensor = tensor
        self._dtype = torch.float32 if reduces and tensor.dtype == torch.float16 else tensor.dtype
        if reduces and self._dtype not in _DTYPES and self._dtype != torch.bool:
            raise NotServed(f"a reduction of {tensor.dtype}: f64, f32, bf16, f16, int64, int32, uint8 and bool are served")
        self._size = torch.empty(0, dtype=self._dtype).element_size() * tensor.numel()
        self.offset = link.memory.take(self._size)

    def description(self) -> List[Any]:
        """What a request says of it."""
        if self._dtype in _DTYPES:
            return [_DTYPES[self._dtype], self.offset, self.tensor.numel()]
        return ["u8", self.offset, self._size]

    def elements(self) -> torch.Tensor:
        """The elements, as a flat tensor that lies in the shared memory."""
        if self.tensor.numel() == 0:
            return torch.empty(0, dtype=self._dtype)
        return torch.frombuffer(self._link.memory.map, dtype=self._dtype, count=self.tensor.numel(), offset=self.offset)

    def put(self) -> None:
        """Copies the tensor into the shared memory."""
        with torch.no_grad():
            self.elements().view(self.tensor.shape).copy_(self.tensor.detach())

    def get(self) -> None:
        """Copies the shared memory into the tensor."""
        with torch.no_grad():
            self.tensor.detach().copy_(self.elements().view(self.tensor.shape))

    def release(self) -> None:
        self._link.memory.give_back(self.offset, self._size)


class CallWork(dist.Work):
    """One or more calls that were started. The result is there when wait() has returned."""

    def __init__(self, finish: Callable[[], None], result: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._finish: Optional[Callable[[], None]] = finish
        self._result = list(result)

    def wait(self, timeout: Any = None) -> bool:
        """Returns when the calls are done and their results are copied."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self) -> bool:
        """Waits: when a call is done on the way would depend on the schedule."""
        return self.wait()

    def is_success(self) -> bool:
        return self._finish is None

    def exception(self) -> None:
        return None

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> List[torch.Tensor]:
        self.wait()
        return self._result

    def get_future(self) -> "torch.futures.Future[List[torch.Tensor]]":
        """Waits: a future of a call that nobody waits for would never be done."""
        self.wait()
        future: "torch.futures.Future[List[torch.Tensor]]" = torch.futures.Future()
        future.set_result(self._result)
        return future


def _plain(tensors: Any) -> List[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


class Group(dist.ProcessGroup):
    """A process group, whose calls are those of the virtual rank."""

    def __init__(self, link: Link, number: int, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._link = link
        self._number = number
        self._rank_here = rank
        self._size_here = size
        self._name = self._description = ""

    # ---- what torch asks of a group

    def getBackendName(self) -> str:
        return "shardproof"

    def _get_backend(self, device: Any) -> "Group":
        return self

    @property
    def supports_splitting(self) -> bool:
        return False

    @property
    def supports_coalescing(self) -> bool:
        return False

    # The name and the description of a group are kept here: torch keeps none for a group in Python.
    def _set_group_name(self, name: str) -> None:
        self._name = name

    setGroupName = _set_group_name

    @property
    def group_name(self) -> str:
        return self._name

    def getGroupName(self) -> str:
        return self._name

    def _set_group_desc(self, text: str) -> None:
        self._description = text

    @property
    def group_desc(self) -> str:
        return self._description

    def _set_sequence_number_for_group(self) -> None:
        return None

    def _set_default_backend(self, backend: Any) -> None:
        return None

    # ---- calls

    def _start(
        self,
        operation: str,
        given: Optional[torch.Tensor],
        taken: Optional[torch.Tensor],
        in_place: bool = False,
        **arguments: Any,
    ) -> Callable[[], None]:
        """Starts a call, and returns what waits for it."""
        reduces = "reduce" in operation
        parts: List[_Part] = []
        request: Dict[str, Any] = {
            "do": "call",
            "operation": operation,
            "group": self._number,
            "site": sites.site(),
            "waits": False,
            **arguments,
        }
        result = None
        if taken is not None:
            result = _Part(self._link, taken, reduces)
            parts.append(result)
            if in_place:
                result.put()
            request["output"] = result.description()
        if given is not None:
            part = _Part(self._link, given, reduces)
            parts.append(part)
            part.put()
            request["input"] = part.description()
        started = self._link.write(request)

        def finish() -> None:
            self._link.sends.pop(started, None)
            waited = self._link.write({"do": "wait", "call": started})
            self._link.answer(started)
            self._link.answer(waited)
            if result is not None:
                result.get()
            for part in parts:
                part.release()

        if operation == "send":
            self._link.sends[started] = finish
        return finish

    def _reduction(self, op: Any, tensor: torch.Tensor) -> str:
        """Returns the world's name of a reduction."""
        names = _OF_TRUTH if tensor.dtype == torch.bool else _REDUCTIONS
        for known, name in names.items():
            if op == known:
                return name
        raise NotServed(f"a reduction by {op} of {tensor.dtype}: SUM, AVG, PRODUCT, MIN and MAX are served")

    @staticmethod
    def _work(finishes: Sequence[Callable[[], None]], result: Sequence[torch.Tensor]) -> CallWork:
        def finish() -> None:
            for one in finishes:
                one()

        return CallWork(finish, result)

    def _each_in_place(self, operation: str, tensors: Any, **arguments: Any) -> CallWork:
        listed = _plain(tensors)
        return self._work([self._start(operation, None, x, in_place=True, **arguments) for x in listed], listed)

    def allreduce(self, tensors: Any, opts: Any = None) -> CallWork:
        op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
        listed = _plain(tensors)
        return self._each_in_place("all_reduce", listed, reduce=self._reduction(op, listed[0]))

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: Any, opts: Any) -> CallWork:
        return self._each_in_place("broadcast", tensors, root=getattr(opts, "rootRank", opts))

    def reduce(self, tensors: Any, opts: Any) -> CallWork:
        listed = _plain(tensors)
        return self._each_in_place("reduce", listed, reduce=self._reduction(opts.reduceOp, listed[0]), root=opts.rootRank)

    def _allgather_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> CallWork:
        return self._work([self._start("all_gather", given, output)], [output])

    all_gather_into_tensor = all_gather_single = allgather_base = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        pairs = zip(outputs, inputs)
        return self._work([self._start("all_gather", given, taken) for taken, given in pairs], list(outputs))

    def allgather(self, output_lists: Any, inputs: Any, opts: Any = None) -> CallWork:
        works = [self._gather_parts(list(taken), given) for taken, given in zip(output_lists, _plain(inputs))]
        return self._work([work.wait for work in works], [x for taken in output_lists for x in taken])

    all_gather = allgather

    def _gather_parts(self, outputs: List[torch.Tensor], given: torch.Tensor) -> CallWork:
        """Gathers into a list. Parts of several sizes are an uneven exchange, in which each rank sends its own."""
        flat = given.new_empty(sum(x.numel() for x in outputs))
        if all(x.numel() == given.numel() for x in outputs):
            work = self._start("all_gather", given, flat)
        else:
            copies = given.reshape(-1).repeat(self._size_here)
            work = self._exchange(flat, copies, [x.numel() for x in outputs], [given.numel()] * self._size_here)
        return self._scattered(work, flat, outputs)

    @staticmethod
    def _scattered(work: Callable[[], None], flat: torch.Tensor, outputs: List[torch.Tensor]) -> CallWork:
        """Copies a flat result into the tensors of a list, once it is there."""

        def finish() -> None:
            work()
            with torch.no_grad():
                for part, output in zip(flat.split([x.numel() for x in outputs]), outputs):
                    output.detach().copy_(part.view(output.shape))

        return CallWork(finish, outputs)

    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> CallWork:
        op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
        return self._work(
            [self._start("reduce_scatter", given, output, reduce=self._reduction(op, given))], [output]
        )

    reduce_scatter_tensor = reduce_scatter_single = reduce_scatter_base = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        works = [self._reduce_scatter_base(taken, given, opts) for taken, given in zip(outputs, inputs)]
        return self._work([work.wait for work in works], list(outputs))

    def reduce_scatter(self, outputs: Any, input_lists: Any, opts: Any = None) -> CallWork:
        works = [self._reduce_parts(taken, list(given), opts) for taken, given in zip(_plain(outputs), input_lists)]
        return self._work([work.wait for work in works], _plain(outputs))

    def _reduce_parts(self, output: torch.Tensor, given: List[torch.Tensor], opts: Any) -> CallWork:
        """Reduces a list. Parts of several sizes are reduced one after the other, each to its own rank."""
        if all(x.numel() == output.numel() for x in given):
            return self._reduce_scatter_base(output, torch.cat([x.reshape(-1) for x in given]), opts)
        parts = [x.clone() for x in given]
        name = self._reduction(opts.reduceOp, output)
        starts = [
            self._start("reduce", None, part, in_place=True, reduce=name, root=root) for root, part in enumerate(parts)
        ]

        def finish() -> None:
            for start in starts:
                start()
            with torch.no_grad():
                output.detach().copy_(parts[self._rank_here].view(output.shape))

        return CallWork(finish, [output])

    def _exchange(
        self, output: torch.Tensor, given: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> Callable[[], None]:
        """An exchange of so many elements with each rank; of bytes where the world does not know the dtype."""
        unit = 1 if given.dtype in _DTYPES else given.element_size()
        return self._start(
            "all_to_all_uneven",
            given,
            output,
            send=[n * unit for n in send],
            receive=[n * unit for n in receive],
        )

    def alltoall_base(
        self, output: torch.Tensor, given: torch.Tensor, output_splits: Any, input_splits: Any, opts: Any = None
    ) -> CallWork:
        receive, send = ([] if splits is None else [int(n) for n in splits] for splits in (output_splits, input_splits))
        if not receive and not send:
            return self._work([self._start("all_to_all", given, output)], [output])

        def elements(tensor: torch.Tensor, rows: List[int]) -> List[int]:
            row = tensor.numel() // tensor.shape[0] if tensor.shape[0] else 0
            return [n * row for n in rows or [tensor.shape[0] // self._size_here] * self._size_here]

        start = self._exchange(output, given, elements(output, receive), elements(given, send))
        return self._work([start], [output])

    all_to_all_single = alltoall_base

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        taken, given = list(outputs), list(inputs)
        flat = torch.cat([x.reshape(-1) for x in given])
        result = flat.new_empty(sum(x.numel() for x in taken))
        start = self._exchange(result, flat, [x.numel() for x in taken], [x.numel() for x in given])
        return self._scattered(start, result, taken)

    def gather(self, output_lists: Any, inputs: Any, opts: Any) -> CallWork:
        given = _plain(inputs)[0]
        if self._rank_here != opts.rootRank:
            return self._work([self._start("gather", given, None, root=opts.rootRank)], [])
        outputs = list(output_lists[0])
        flat = given.new_empty(sum(x.numel() for x in outputs))
        return self._scattered(self._start("gather", given, flat, root=opts.rootRank), flat, outputs)

    def scatter(self, outputs: Any, input_lists: Any, opts: Any) -> CallWork:
        output = _plain(outputs)[0]
        given = None
        if self._rank_here == opts.rootRank:
            given = torch.cat([x.reshape(-1) for x in input_lists[0]])
        return self._work([self._start("scatter", given, output, root=opts.rootRank)], [output])

    def send(self, tensors: Any, peer: int, tag: int = 0) -> CallWork:
        self._require_no_tag(tag)
        return self._work([self._start("send", x, None, peer=peer) for x in _plain(tensors)], [])

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> CallWork:
        self._require_no_tag(tag)
        listed = _plain(tensors)
        return self._work([self._start("recv", None, x, in_place=True, peer=peer) for x in listed], listed)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> CallWork:
        raise NotServed("recv from any source: NCCL has none, and a result would depend on the schedule")

    @staticmethod
    def _require_no_tag(tag: int) -> None:
        if tag:
            raise NotServed(f"a message with tag {tag}: NCCL has no tags")

    def barrier(self, opts: Any = None) -> CallWork:
        return self._work([self._start("barrier", None, None)], [])
