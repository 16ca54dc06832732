"""The process groups of torch.distributed, over the link to a virtual rank.

A call is written when it is started, and its result is copied when it is waited for. Tensors stay where they are:
their elements pass through the shared memory.

Shapes  those of torch.distributed; tensors.py says what becomes of their elements.
Errors  NotServed: a feature of torch.distributed that is not served, with its name. Those of link.py.
"""

from typing import Any, List, Optional, Sequence

import torch
import torch.distributed as dist

from .calls import Calls, require_contiguous
from .link import Link
from .tensors import DTYPES, joined, listed, reduction
from .threads import NotServed
from .works import CallWork, Finish


class Group(dist.ProcessGroup):
    """A process group, whose calls are those of the virtual rank. `backend` is what the program calls its backend."""

    def __init__(self, link: Link, number: int, rank: int, size: int, backend: str) -> None:
        super().__init__(rank, size)
        self._calls = Calls(link, number, backend == "nccl")
        self._rank_here = rank
        self._size_here = size
        self._name = self._description = ""
        self._is_nccl = backend == "nccl"
        self.is_made = False  # whether torch has made the group; meanwhile it looks for what it knows of each device

    # ---- what torch asks of a group

    def getBackendName(self) -> str:
        return "shardproof"

    def _get_backend(self, device: Any) -> "Group":
        return self

    @property
    def _device_types(self) -> List[torch.device]:
        """The devices of the group. One that names some while torch makes it is taken for one in C++."""
        return [torch.device("cpu"), torch.device("cuda")] if self.is_made and not self._is_nccl else []

    @property
    def supports_splitting(self) -> bool:
        return False

    @property
    def supports_coalescing(self) -> bool:
        return self._is_nccl

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

    def _nothing(self, *arguments: Any, **named: Any) -> None:
        """What torch says to a group, and what changes no call."""

    _set_sequence_number_for_group = _set_default_backend = shutdown = abort = _nothing
    set_timeout = _set_default_timeout = _add_ephemeral_timeout = eager_connect_single_device = _nothing

    def _start_coalescing(self, device: Any = None) -> None:
        self._calls.begin_together()

    def _end_coalescing(self, device: Any = None) -> CallWork:
        return self._calls.end_together()

    # ---- calls

    def _each_in_place(self, operation: str, tensors: Any, **arguments: Any) -> CallWork:
        all_of_them = listed(tensors)
        return self._calls.work(
            [self._calls.start(operation, None, x, in_place=True, **arguments) for x in all_of_them], all_of_them
        )

    def allreduce(self, tensors: Any, opts: Any = None) -> CallWork:
        op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
        if listed(tensors)[0].layout == torch.sparse_coo and not self._is_nccl:
            return self._sum_sparse(listed(tensors), op)
        self._require_contiguous(tensors)
        return self.allreduce_coalesced(tensors, op)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> CallWork:
        op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
        return self._each_in_place("all_reduce", tensors, reduce=reduction(op, listed(tensors)[0]))

    def _require_contiguous(self, tensors: Any) -> None:
        """In all releases of torch, NCCL takes only contiguous tensors in calls that change one in place."""
        if self._is_nccl:
            require_contiguous([x for x in listed(tensors) if x.layout == torch.strided])

    def _sum_sparse(self, tensors: List[torch.Tensor], op: Any) -> CallWork:
        """Sums sparse tensors as Gloo does: gathers how many elements each rank has, their indices and values."""
        if not op == dist.ReduceOp.SUM:
            raise NotServed("a reduction of sparse tensors by another operation than SUM, as Gloo refuses it")
        with torch.no_grad():
            for tensor in tensors:
                own = tensor.detach().coalesce()
                sizes = torch.empty(self._size_here, dtype=torch.int64)
                self._calls.start("all_gather", torch.tensor([own._nnz()]), sizes)()
                indices = self._gathered_rows(own.indices().t().contiguous(), sizes.tolist())
                values = self._gathered_rows(own.values(), sizes.tolist())
                total = torch.sparse_coo_tensor(indices.t(), values, own.shape, check_invariants=False)
                tensor.copy_(total.coalesce())  # a detached one would keep its own elements
        return CallWork([lambda: None], tensors)  # a work that has something to finish is kept for DDP

    def _gathered_rows(self, own: torch.Tensor, rows: List[int]) -> torch.Tensor:
        """Gathers rows, of which each rank has its own number."""
        parts = [own.new_empty((n, *own.shape[1:])) for n in rows]
        self._gather_parts(parts, own).wait()
        return torch.cat(parts)

    def broadcast(self, tensors: Any, opts: Any) -> CallWork:
        self._require_contiguous(tensors)
        return self._each_in_place("broadcast", tensors, root=getattr(opts, "rootRank", opts))

    def reduce(self, tensors: Any, opts: Any) -> CallWork:
        self._require_contiguous(tensors)
        how = reduction(opts.reduceOp, listed(tensors)[0])
        return self._each_in_place("reduce", tensors, reduce=how, root=opts.rootRank)

    def _allgather_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> CallWork:
        return self._calls.work([self._calls.start("all_gather", given, output)], [output])

    all_gather_into_tensor = all_gather_single = allgather_base = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        starts = [self._calls.start("all_gather", given, taken) for taken, given in zip(outputs, inputs)]
        return self._calls.work(starts, list(outputs))

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather(self, output_lists: Any, inputs: Any, opts: Any = None) -> CallWork:
        works = [self._gather_parts(list(taken), given) for taken, given in zip(output_lists, listed(inputs))]
        return self._calls.work([work.wait for work in works], [x for taken in output_lists for x in taken])

    all_gather = allgather

    def allgather_coalesced(self, output_lists: Any, inputs: Any, opts: Any = None) -> CallWork:
        by_input = [[taken[i] for taken in output_lists] for i in range(len(inputs))]
        return self.allgather(by_input, inputs, opts)

    def _gather_parts(self, outputs: List[torch.Tensor], given: torch.Tensor) -> CallWork:
        """Gathers into a list. Parts of several sizes are an uneven exchange, in which each rank sends its own."""
        flat = given.new_empty(sum(x.numel() for x in outputs))
        if all(x.numel() == given.numel() for x in outputs):
            work = self._calls.start("all_gather", given, flat)
        else:
            copies = given.reshape(-1).repeat(self._size_here)
            work = self._exchange(flat, copies, [x.numel() for x in outputs], [given.numel()] * self._size_here)
        return self._scattered(work, flat, outputs)

    def _scattered(self, work: Finish, flat: torch.Tensor, outputs: List[torch.Tensor]) -> CallWork:
        """Copies a flat result into the tensors of a list, once it is there."""

        def finish() -> None:
            work()
            with torch.no_grad():
                for part, output in zip(flat.split([x.numel() for x in outputs]), outputs):
                    output.detach().copy_(part.view(output.shape))

        return self._calls.work([finish], outputs)

    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> CallWork:
        op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
        return self._calls.work(
            [self._calls.start("reduce_scatter", given, output, reduce=reduction(op, given))], [output]
        )

    reduce_scatter_tensor = reduce_scatter_single = reduce_scatter_base = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        works = [self._reduce_scatter_base(taken, given, opts) for taken, given in zip(outputs, inputs)]
        return self._calls.work([work.wait for work in works], list(outputs))

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def reduce_scatter(self, outputs: Any, input_lists: Any, opts: Any = None) -> CallWork:
        works = [self._reduce_parts(taken, list(given), opts) for taken, given in zip(listed(outputs), input_lists)]
        return self._calls.work([work.wait for work in works], listed(outputs))

    def _reduce_parts(self, output: torch.Tensor, given: List[torch.Tensor], opts: Any) -> CallWork:
        """Reduces a list. Parts of several sizes are reduced one after the other, each to its own rank."""
        if all(x.numel() == output.numel() for x in given):
            return self._reduce_scatter_base(output, joined(given), opts)
        parts = [x.clone() for x in given]
        how = reduction(opts.reduceOp, output)
        starts = [
            self._calls.start("reduce", None, part, in_place=True, reduce=how, root=root) for root, part in enumerate(parts)
        ]

        def finish() -> None:
            for start in starts:
                start()
            with torch.no_grad():
                output.detach().copy_(parts[self._rank_here].view(output.shape))

        return self._calls.work([finish], [output])

    def _exchange(
        self, output: torch.Tensor, given: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> Finish:
        """An exchange of so many elements with each rank; of bytes where the world does not know the dtype."""
        unit = 1 if given.dtype in DTYPES else given.element_size()
        return self._calls.start(
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
            return self._calls.work([self._calls.start("all_to_all", given, output)], [output])

        def elements(tensor: torch.Tensor, rows: List[int]) -> List[int]:
            row = tensor.numel() // tensor.shape[0] if tensor.shape[0] else 0
            return [n * row for n in rows or [tensor.shape[0] // self._size_here] * self._size_here]

        start = self._exchange(output, given, elements(output, receive), elements(given, send))
        return self._calls.work([start], [output])

    all_to_all_single = alltoall_base

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        taken, given = list(outputs), list(inputs)
        flat = joined(given)
        result = flat.new_empty(sum(x.numel() for x in taken))
        start = self._exchange(result, flat, [x.numel() for x in taken], [x.numel() for x in given])
        return self._scattered(start, result, taken)

    def gather(self, output_lists: Any, inputs: Any, opts: Any) -> CallWork:
        given = listed(inputs)[0]
        if self._rank_here != opts.rootRank:
            return self._calls.work([self._calls.start("gather", given, None, root=opts.rootRank)], [])
        outputs = list(output_lists[0])
        flat = given.new_empty(sum(x.numel() for x in outputs))
        return self._scattered(self._calls.start("gather", given, flat, root=opts.rootRank), flat, outputs)

    def gather_single(self, output: Optional[torch.Tensor], given: torch.Tensor, opts: Any) -> CallWork:
        taken = output if self._rank_here == opts.rootRank else None
        return self._calls.work([self._calls.start("gather", given, taken, root=opts.rootRank)], [given])

    gather_into_tensor = gather_single

    def scatter(self, outputs: Any, input_lists: Any, opts: Any) -> CallWork:
        output = listed(outputs)[0]
        given = None
        if self._rank_here == opts.rootRank:
            given = joined(input_lists[0])
        return self._calls.work([self._calls.start("scatter", given, output, root=opts.rootRank)], [output])

    def send(self, tensors: Any, peer: int, tag: int = 0) -> CallWork:
        self._require_no_tag(tag)
        return self._calls.work([self._calls.start("send", x, None, peer=peer) for x in listed(tensors)], [])

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> CallWork:
        self._require_no_tag(tag)
        return self._each_in_place("recv", tensors, peer=peer)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> CallWork:
        raise NotServed("recv from any source: NCCL has none, and a result would depend on the schedule")

    def _require_no_tag(self, tag: int) -> None:
        """NCCL takes a tag and ignores it; Gloo matches messages by it."""
        if tag and not self._is_nccl:
            raise NotServed(f"a message with tag {tag}: only groups of nccl take tags, and ignore them as NCCL does")

    def barrier(self, opts: Any = None) -> CallWork:
        return self._calls.work([self._calls.start("barrier", None, None)], [])
