"""Threads of a rank that make calls.

    threads.py turns | at_once | late

`turns`    threads make calls one after the other, each while no other one waits.
`at_once`  two threads wait at once, each in a group of its own. The world waits for one call at a time: refused.
`late`     a thread makes its first call while the main thread waits, after some time. It is refused as well.
"""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


def reduced(group: object = None) -> float:
    x = torch.ones(1)
    dist.all_reduce(x, group=group)
    return float(x)


def turns() -> None:
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            assert pool.submit(reduced).result() == reduced() == dist.get_world_size()
    started = []
    thread = threading.Thread(target=lambda: started.append(dist.all_reduce(torch.ones(1), async_op=True)))
    thread.start()
    thread.join()
    started[0].wait()


def at_once() -> None:
    other = dist.new_group()
    gate = threading.Barrier(2)

    def save() -> None:
        gate.wait()
        reduced(other)  # here

    thread = threading.Thread(target=save, name="saver")
    thread.start()
    gate.wait()
    reduced()
    thread.join()


def late() -> None:
    def save() -> None:
        time.sleep(2)
        reduced()  # here

    if dist.get_rank() == 0:
        threading.Thread(target=save, name="saver").start()
    else:
        time.sleep(4)
    reduced()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    globals()[sys.argv[1]]()
    dist.destroy_process_group()
