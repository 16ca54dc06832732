"""Makes a program's process groups those of the virtual world: torch.distributed takes them from here, whatever
backend the program names.

Calls   install() once in a rank's process, before the program runs. Every rank makes the same new_group calls in the
        same order, whether it is a member or not, as torch.distributed asks.
Errors  NotServed (backend.py).
"""

import functools
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from . import sites
from .backend import Group, NotServed
from .link import Link

_NAME = "shardproof"


class _Groups:
    """The groups that the world has made and that torch has not asked for yet."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._made: Dict[Tuple[int, ...], List[int]] = {}

    def make(self, members: Sequence[int], name: str) -> None:
        """Makes a group in the world. Every rank does."""
        answer = self.link.ask(
            {"do": "new_group", "name": name, "members": list(members), "site": sites.site()}
        )
        if answer["group"] is not None:
            self._made.setdefault(tuple(members), []).append(answer["group"])

    def create(self, options: Any, _: Any = None) -> Group:
        """Makes the group of torch that stands for one of the world; the first is that of all ranks."""
        members = tuple(options.global_ranks_in_group)
        waiting = self._made.get(members)
        number = waiting.pop(0) if waiting else 0
        return Group(self.link, number, options.group_rank, options.group_size)


def _printable(name: Optional[str]) -> str:
    """Returns a name for the world's group, which has no brackets."""
    return (name or "group").replace("[", "(").replace("]", ")")


def install(link: Link, store_path: str) -> None:
    """Takes over torch.distributed in this process."""
    groups = _Groups(link)
    dist.Backend.register_backend(_NAME, groups.create, extended_api=True, devices=["cpu", "cuda"])
    named_backend = [""]
    init, new_group = c10d.init_process_group, c10d.new_group

    @functools.wraps(init)
    def init_process_group(backend: Any = None, *arguments: Any, **named: Any) -> None:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        kept = {name: named[name] for name in ("timeout",) if name in named}
        store = dist.FileStore(store_path, size)
        named_backend[0] = str(backend or "nccl").lower()
        init(backend=_NAME, store=store, rank=rank, world_size=size, **kept)

    @functools.wraps(new_group)
    def new_group_of_world(ranks: Any = None, *arguments: Any, **named: Any) -> Any:
        if named.get("use_local_synchronization"):
            raise NotServed("new_group with use_local_synchronization: every rank has to make the call")
        members = sorted(ranks) if ranks is not None else list(range(dist.get_world_size()))
        groups.make(members, _printable(named.get("group_desc")))
        named["backend"] = _NAME
        named.pop("pg_options", None)
        return new_group(ranks, *arguments[:1], **named)

    def monitored_barrier(group: Any = None, *arguments: Any, **named: Any) -> None:
        dist.barrier(group)

    def split_group(*arguments: Any, **named: Any) -> None:
        raise NotServed("split_group: new_group makes a group of some ranks")

    for module in (c10d, dist):
        setattr(module, "init_process_group", init_process_group)
        setattr(module, "new_group", new_group_of_world)
        setattr(module, "monitored_barrier", monitored_barrier)
        setattr(module, "split_group", split_group)
    setattr(dist, "get_backend", lambda group=None: named_backend[0])
    setattr(c10d, "_store_based_barrier", lambda *arguments, **named: None)
    for name in ("is_nccl_available", "is_gloo_available"):
        setattr(dist, name, lambda: True)
        setattr(c10d, name, lambda: True)
    torch.set_num_threads(1)
