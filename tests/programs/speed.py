"""Times calls of virtual ranks beside those of Gloo over loopback, in turn in one run.

    speed.py SHARDPROOF PYTHON [RANKS]

Prints the median time of an all_reduce of 1 KiB and of 64 MiB with both, in milliseconds, and their ratio. It is run by
hand, on a machine that does nothing else.
"""

import os
import socket
import statistics
import subprocess
import sys
import time
from typing import List

SIZES = ((1 << 10, 300), (64 << 20, 5))  # bytes and repetitions
TURNS = 3


def time_calls(size: int, repetitions: int) -> None:
    """Makes the calls on this rank; the first one prints the median."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    values = torch.ones(size // 4)
    seconds = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        dist.all_reduce(values)
        seconds.append(time.perf_counter() - begin)
        values.fill_(1)
    if dist.get_rank() == 0:
        print(f"median {1000 * statistics.median(seconds)}", flush=True)
    dist.destroy_process_group()


def median_in(output: str) -> float:
    return float(output.split("median ")[1].split()[0])


def of_virtual_ranks(ranks: int, words: List[str]) -> float:
    command = [sys.argv[1], "run", "--ranks", str(ranks), "--", *words]
    return median_in(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def of_gloo(ranks: int, words: List[str]) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(words, env={**place, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True) for rank in range(ranks)
    ]
    return median_in("".join(process.communicate()[0] for process in started))


def main() -> None:
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    print(f"{'bytes':>12}{'virtual ms':>12}{'gloo ms':>10}{'ratio':>8}")
    for size, repetitions in SIZES:
        words = [sys.argv[2], os.path.abspath(__file__), "--calls", str(size), str(repetitions)]
        for _ in range(TURNS):
            ours, theirs = of_virtual_ranks(ranks, words), of_gloo(ranks, words)
            print(f"{size:12}{ours:12.3f}{theirs:10.3f}{ours / theirs:8.2f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--calls":
        time_calls(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
