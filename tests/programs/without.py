"""Runs a program as one rank over Gloo, without the virtual world: with the stand-ins for a GPU and for
Transformer Engine only.

    RANK=R WORLD_SIZE=N MASTER_ADDR=... MASTER_PORT=... without.py [--record FOLDER] PROGRAM [ARGUMENT...]

With --record it writes what it computes, as a training on GPUs would; weights of Megatron's models are drawn from their
names.
"""

import os
import runpy
import sys
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "verify", "python"))
import shardproof  # noqa: E402
from shardproof import cuda, transformer_engine  # noqa: E402

if __name__ == "__main__":
    cuda.install()
    cuda.be(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    transformer_engine.install(uses_gpu=False)
    torch.set_num_threads(1)
    init = dist.init_process_group

    def over_gloo(*_: Any, **__: Any) -> None:
        init("gloo")

    setattr(dist, "init_process_group", over_gloo)
    setattr(dist.distributed_c10d, "init_process_group", over_gloo)
    if sys.argv[1] == "--record":
        shardproof.record(sys.argv[2], weights="by-name")
        del sys.argv[1:3]
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
