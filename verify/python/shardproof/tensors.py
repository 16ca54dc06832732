"""Elements of tensors in the memory that a process shares with its rank, and what requests say of them.

Shapes  elements of dtypes that the world does not know are moved as bytes, and are refused in reductions. A sum of
        bool is true if one of them is.
Errors  NotServed: a reduction that the world does not make.
"""

from typing import Any, List, NamedTuple, Optional, Sequence

import torch
import torch.distributed as dist

from .link import Link
from .threads import NotServed

_NAMES = {
    "float64": "f64",
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "int64": "i64",
    "int32": "i32",
    "int8": "i8",
    "uint8": "u8",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
}
DTYPES = {getattr(torch, name): said for name, said in _NAMES.items() if hasattr(torch, name)}
_REDUCTIONS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "average",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
}
_OF_TRUTH = {dist.ReduceOp.SUM: "max", dist.ReduceOp.MAX: "max", dist.ReduceOp.MIN: "min", dist.ReduceOp.PRODUCT: "min"}
_ALL_NAMED = "SUM AVG PRODUCT MIN MAX BAND BOR BXOR PREMUL_SUM".split()


class Reduction(NamedTuple):
    """How the world reduces, by its name, and by what each rank multiplies its elements before."""

    name: str
    factor: Optional[Any] = None  # a number, or a tensor of one element


def reduction(op: Any, tensor: torch.Tensor) -> Reduction:
    """Returns the world's reduction for one of torch."""
    names = _OF_TRUTH if tensor.dtype == torch.bool else _REDUCTIONS
    for known, name in names.items():
        if op == known:
            return Reduction(name)
    named = next((name for name in _ALL_NAMED if op == getattr(dist.ReduceOp, name, None)), type(op).__name__)
    if named == "PREMUL_SUM" and tensor.dtype.is_floating_point:
        return Reduction("sum", op.__getstate__()[1])
    raise NotServed(f"a reduction by {named} of {tensor.dtype}: SUM, AVG, PRODUCT, MIN, MAX and PREMUL_SUM are served")


def _is_reduced(dtype: torch.dtype) -> bool:
    return dtype == torch.bool or (dtype in DTYPES and not DTYPES[dtype].startswith("f8"))


def listed(tensors: Any) -> List[torch.Tensor]:
    """Returns a tensor or a list of tensors as a list."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the elements of several tensors, one after the other."""
    return torch.cat([x.detach().reshape(-1) for x in tensors])


class Part:
    """A tensor's elements in the shared memory, from the start of a call until its end."""

    def __init__(self, link: Link, tensor: torch.Tensor, reduces: bool = False) -> None:
        self._link = link
        self.tensor = tensor
        self._dtype = tensor.dtype
        if tensor.layout != torch.strided:
            raise NotServed(f"a tensor of layout {tensor.layout}: only all_reduce by SUM takes sparse tensors")
        if reduces and not _is_reduced(tensor.dtype):
            raise NotServed(f"a reduction of {tensor.dtype}: floats of 16 bits or more, int64, int32, int8, uint8 and bool")
        self._size = torch.empty(0, dtype=self._dtype).element_size() * tensor.numel()
        self.offset = link.memory.take(self._size)

    def description(self) -> List[Any]:
        """What a request says of it."""
        if self._dtype in DTYPES:
            return [DTYPES[self._dtype], self.offset, self.tensor.numel()]
        return ["u8", self.offset, self._size]

    def elements(self) -> torch.Tensor:
        """The elements, as a flat tensor that lies in the shared memory."""
        if self.tensor.numel() == 0:
            return torch.empty(0, dtype=self._dtype)
        return torch.frombuffer(self._link.memory.map, dtype=self._dtype, count=self.tensor.numel(), offset=self.offset)

    def put(self, factor: Optional[Any] = None) -> None:
        """Copies the tensor, times a factor if there is one, into the shared memory."""
        with torch.no_grad():
            self.elements().view(self.tensor.shape).copy_(self.tensor.detach())
            if factor is not None:
                self.elements().mul_(factor)

    def get(self) -> None:
        """Copies the shared memory into the tensor."""
        with torch.no_grad():
            self.tensor.detach().copy_(self.elements().view(self.tensor.shape))

    def release(self) -> None:
        self._link.memory.give_back(self.offset, self._size)
