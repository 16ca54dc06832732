"""What the ranks of a training compute, such as one on GPUs, written into a folder for `shardproof compare`.

Calls   record(folder) on every rank, before the program imports Megatron and makes optimizers. The first steps are
        written. A rank's file is there when its process has ended; a process that is killed leaves none.
Shapes  a file is in the format safetensors, and named by RANK and WORLD_SIZE. Its tensors are flat; those of other dtypes
        than f64, f32, f16 and bf16 are written as f32 or, if they are whole numbers, f64. The metadata has for each the request by which a rank of
        `shardproof run` would publish it (sim/guest/guest_request.h).
Errors  ValueError: RANK or WORLD_SIZE is not set, as a launcher sets them, or the process records already. OSError: the
        folder cannot be written.
"""

import atexit
import json
import os
import shutil
from typing import Any, Dict, List

import torch

from .tensors import DTYPES

_KEPT = (torch.float64, torch.float32, torch.float16, torch.bfloat16)  # dtypes that are written as they are


def _bytes_of(elements: torch.Tensor) -> bytearray:
    content = bytearray(elements.numel() * elements.element_size())
    if content:
        torch.frombuffer(content, dtype=elements.dtype).copy_(elements)
    return content


class File:
    """The file of one rank. Elements are written as they come, and the header at the end, in front of them."""

    def __init__(self, folder: str, rank: int, ranks: int) -> None:
        folder = os.path.abspath(folder)  # the program may go to another one
        os.makedirs(folder, exist_ok=True)
        self._process = os.getpid()
        self._path = os.path.join(folder, f"values-{rank:05}-of-{ranks:05}.safetensors")
        if os.path.exists(self._path):
            os.remove(self._path)  # of a run before this one
        self._elements = open(f"{self._path}.elements", "w+b")
        self._entries: Dict[str, Any] = {}
        self._requests: Dict[str, str] = {}

    def keep(self, name: str, elements: torch.Tensor, place: Dict[str, Any]) -> None:
        """Writes a rank's piece of a value. [elements]"""
        elements = elements.detach().reshape(-1)
        if elements.dtype not in _KEPT:
            elements = elements.float() if elements.is_floating_point() else elements.double()
        said = DTYPES[elements.dtype]
        number = f"{len(self._entries):08}"
        begin = self._elements.tell()
        self._elements.write(_bytes_of(elements))
        offsets: List[int] = [begin, self._elements.tell()]
        self._entries[number] = {"dtype": said.upper(), "shape": [elements.numel()], "data_offsets": offsets}
        tensor = [said, 0, elements.numel()]
        self._requests[number] = json.dumps({"do": "publish", "name": name, "tensor": tensor, "place": place})

    def close(self) -> None:
        """Puts the file together. A process that this one has forked leaves it alone."""
        if os.getpid() != self._process:
            return
        header = json.dumps({**self._entries, "__metadata__": self._requests}).encode()
        header += b" " * (-len(header) % 8)
        self._elements.seek(0)
        with open(f"{self._path}.whole", "wb") as whole:
            whole.write(len(header).to_bytes(8, "little") + header)
            shutil.copyfileobj(self._elements, whole)
        self._elements.close()
        os.remove(f"{self._path}.elements")
        os.rename(f"{self._path}.whole", self._path)


def begin(folder: str) -> File:
    """Returns the file of this rank, which is closed when the process ends."""
    missing = [name for name in ("RANK", "WORLD_SIZE") if not os.environ.get(name, "").isdigit()]
    if missing:
        raise ValueError(f"shardproof.record(): {' and '.join(missing)} is not set; torchrun sets it")
    file = File(folder, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    atexit.register(file.close)
    return file
