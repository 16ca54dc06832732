#!/usr/bin/env python3
"""Records small jobs of PyTorch's gloo backend with PyTorch's own flight recorder.

The dumps are test data of the reader of recordings: tests/verify/inspect/gloo. This script is run by hand and
needs PyTorch; the dumps there are by PyTorch 2.15:

  pip install torch
  python3 tests/torch/record_gloo.py tests/verify/inspect/gloo

It writes a folder for each job, with one file for each rank. The times, thread numbers and the order of a
failed job's last messages differ from run to run; everything else is the same.

Jobs of four ranks, in which ranks 0 and 1 also form the group PAIR:
  matched        every rank makes the same calls and ends
  stopped        rank 2 stops after the first step, and the others wait for it
  crossed        rank 1 calls in PAIR first, rank 0 in the world first: each waits for the other
  size_mismatch  rank 1 passes five elements where the others pass four
"""

import datetime
import multiprocessing
import os
import sys
import threading
import time

RANKS = 4
HANGS_FOR = 6  # seconds after which the ranks of a job that hangs write their dumps
COUNT = 4


def steps(dist, torch, world, pair, rank, count):
    """Makes the calls of a step that all jobs have."""
    dist.all_reduce(torch.ones(COUNT), group=world)
    if pair is not None:
        dist.all_reduce(torch.ones(count), group=pair)
    gathered = [torch.empty(COUNT) for _ in range(RANKS)]
    dist.all_gather(gathered, torch.ones(COUNT), group=world)


def matched(dist, torch, world, pair, rank):
    for _ in range(2):
        steps(dist, torch, world, pair, rank, COUNT)
    dist.broadcast(torch.ones(COUNT), 0, group=world)
    dist.barrier(group=world)


def stopped(dist, torch, world, pair, rank):
    steps(dist, torch, world, pair, rank, COUNT)
    if rank == 2:
        time.sleep(4 * HANGS_FOR)
    steps(dist, torch, world, pair, rank, COUNT)


def crossed(dist, torch, world, pair, rank):
    steps(dist, torch, world, pair, rank, COUNT)
    if rank == 1:
        dist.all_reduce(torch.ones(COUNT), group=pair)
    dist.all_reduce(torch.ones(COUNT), group=world)
    if rank == 0:
        dist.all_reduce(torch.ones(COUNT), group=pair)


def size_mismatch(dist, torch, world, pair, rank):
    steps(dist, torch, world, pair, rank, COUNT)
    dist.all_reduce(torch.ones(COUNT + 1 if rank == 1 else COUNT), group=world)


def run(job, rank, folder, meeting):
    os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"
    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = os.path.join(folder, "gloo_rank_")
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace_file

    def write_and_end():
        # With the collectives, without stack traces, and not only what is active.
        _dump_fr_trace_file(rank, True, False, False)
        os._exit(0)

    dist.init_process_group(
        "gloo",
        init_method="file://" + meeting,
        rank=rank,
        world_size=RANKS,
        timeout=datetime.timedelta(minutes=2),
    )
    pair = dist.new_group([0, 1], group_desc="PAIR")
    threading.Timer(HANGS_FOR, write_and_end).start()
    try:
        job(dist, torch, dist.group.WORLD, pair if rank < 2 else None, rank)
    except RuntimeError as error:
        print(f"rank {rank}: {error}".splitlines()[0], file=sys.stderr)
    time.sleep(4 * HANGS_FOR)  # until all ranks have written their dumps


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    jobs = [matched, stopped, crossed, size_mismatch]
    for job in jobs:
        folder = os.path.abspath(os.path.join(sys.argv[1], job.__name__))
        os.makedirs(folder, exist_ok=True)
        meeting = os.path.join(folder, "meeting")
        arguments = [(job, rank, folder, meeting) for rank in range(RANKS)]
        ranks = [multiprocessing.Process(target=run, args=one) for one in arguments]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        if os.path.exists(meeting):
            os.remove(meeting)
        print(job.__name__, sorted(os.listdir(folder)))


if __name__ == "__main__":
    main()
