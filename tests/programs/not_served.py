"""Features of torch.distributed that virtual ranks do not serve. Each is refused by its name, and the program goes on."""

import os
from typing import Callable

import torch
import torch.distributed as dist


def refused(call: Callable[[], object], word: str) -> None:
    try:
        call()
    except NotImplementedError as error:
        assert word in str(error), error
    else:
        raise AssertionError(f"{word} is not refused")


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    refused(lambda: dist.init_process_group("gloo", rank=0, world_size=1), "as rank 0 of 1")
    dist.init_process_group("gloo")
    x, bits = torch.ones(2), torch.ones(2, dtype=torch.int32)
    for name in ("BAND", "BOR", "BXOR"):
        refused(lambda name=name: dist.all_reduce(bits, getattr(dist.ReduceOp, name)), name)
    refused(lambda: dist.all_reduce(bits, dist._make_nccl_premul_sum(0.5)), "PREMUL_SUM")
    refused(lambda: dist.all_reduce(x.to(torch.int16)), "torch.int16")
    if hasattr(torch, "float8_e4m3fn"):
        refused(lambda: dist.group.WORLD.allreduce([x.to(torch.float8_e4m3fn)]), "torch.float8_e4m3fn")
    refused(lambda: dist.isend(x, 0, tag=3), "tag 3")
    refused(lambda: dist.recv(x), "any source")
    refused(lambda: dist.new_group([rank], use_local_synchronization=True), "use_local_synchronization")
    pair = dist.new_group([0, 1])
    if rank < 2 and size > 2 and hasattr(dist, "split_group"):
        refused(lambda: dist.split_group(pair, [[0], [1]]), "split_group")
    dist.all_reduce(x)
    assert x.tolist() == [float(size)] * 2
    dist.destroy_process_group()
    print("not_served: ok", flush=True)


if __name__ == "__main__":
    main()
