"""Makes a program's process groups those of the virtual world: torch.distributed takes them from here, whatever
backend the program names.

Calls   install() once in a rank's process, before the program runs. Every rank makes the same new_group calls in the
        same order, whether it is a member or not, as torch.distributed asks.
Errors  NotServed (threads.py).
"""

import functools
import importlib
import inspect
import os
import sys
from typing import Any, Callable, List, Optional, Sequence

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from . import sites, spawned
from .backend import Group
from .link import Link
from .threads import NotServed

_NAME = "shardproof"


class _Groups:
    """Makes groups of the world, and what stands for them in torch."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._number = 0  # of the group that torch asks for next
        self._backend = ""  # what the program calls its backend

    def make(self, members: Sequence[int], name: str) -> None:
        """Makes a group in the world. Every rank does."""
        self._link.require_own_process()
        answer = self._link.ask({"do": "new_group", "name": name, "members": list(members), "site": sites.site()})
        self._number = answer["group"] or 0

    def create(self, options: Any, _: Any = None) -> Group:
        """Makes the group of torch that stands for one of the world; the first is that of all ranks."""
        return Group(self._link, self._number, options.group_rank, options.group_size, self._backend)

    def through(self, backend: str, make: Callable[[], Any]) -> Any:
        """Has torch make a group, which the program then finds under its own backend."""
        self._backend = backend
        known = set(c10d._world.pg_map)
        made = make()
        for group in set(c10d._world.pg_map) - known:
            if isinstance(group, Group):
                group.is_made = True
            c10d._world.pg_map[group] = (backend, c10d._world.pg_map[group][1])
            c10d._world.pg_backend_config[group] = _config_of(backend)
        return made

    def initialize(self, backend: str, init: Callable[[], None]) -> None:
        """Has torch make the group of all ranks."""
        self._link.require_own_process()
        self._number = 0
        self.through(backend, init)


def _config_of(backend: str) -> str:
    """Returns the backend of each device, as torch writes it."""
    try:
        return str(c10d.BackendConfig(dist.Backend(backend)))
    except (AssertionError, RuntimeError, ValueError):  # torch knows no such backend
        return backend


def _printable(name: Optional[str]) -> str:
    """Returns a name for the world's group, which has no brackets."""
    printable = (name or "group").replace("[", "(").replace("]", ")")
    return "world (a new group)" if printable == "world" else printable


def _bound(function: Callable[..., Any], arguments: Any, named: Any) -> "dict[str, Any]":
    """Returns all arguments of a call by name."""
    bound = inspect.signature(function).bind(*arguments, **named)
    bound.apply_defaults()
    return dict(bound.arguments)


def _initializer(init: Callable[..., None], groups: _Groups, store_path: str) -> Callable[..., None]:
    @functools.wraps(init)
    def init_process_group(*arguments: Any, **named: Any) -> None:
        given = _bound(init, arguments, named)
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if given["rank"] not in (-1, rank) or given["world_size"] not in (-1, None, size):
            raise NotServed(
                f"init_process_group as rank {given['rank']} of {given['world_size']}: this is rank {rank} of {size}"
            )
        is_on_gpu = given["backend"] is None and given.get("device_id") is not None
        backend = str(given["backend"] or ("nccl" if is_on_gpu else "undefined")).lower()
        store = given["store"] if given["store"] is not None else dist.FileStore(store_path, size)
        kept = {"timeout": given["timeout"]} if given["timeout"] is not None else {}
        groups.initialize(backend, lambda: init(backend=_NAME, store=store, rank=rank, world_size=size, **kept))

    return init_process_group


def _maker(new_group: Callable[..., Any], groups: _Groups) -> Callable[..., Any]:
    @functools.wraps(new_group)
    def new_group_with_tag(*arguments: Any, **named: Any) -> Any:
        given = _bound(new_group, arguments, named)
        everyone = list(range(dist.get_world_size()))
        ranks = everyone if given["ranks"] is None else [int(rank) for rank in given["ranks"]]
        members = ranks if given.get("sort_ranks") is False else sorted(ranks)
        if given.get("use_local_synchronization") and members != everyone:
            raise NotServed("new_group with use_local_synchronization of some ranks: every rank has to make the call")
        backend = str(given["backend"] or c10d.get_backend()).lower()
        groups.make(members, _printable(given.get("group_desc")))
        for name in ("pg_options", "backend_options", "device_id"):
            if name in given:
                given[name] = None
        given.update(backend=_NAME)
        return groups.through(backend, lambda: new_group(**given))

    return new_group_with_tag


def _split_group(
    parent_pg: Any = None,
    split_ranks: Optional[List[List[int]]] = None,
    timeout: Any = None,
    pg_options: Any = None,
    group_desc: Optional[str] = None,
    backend: Any = None,
) -> Any:
    """Makes each part of the world as a new group; all ranks do, in order."""
    size = dist.get_world_size()
    if parent_pg is not None and parent_pg is not dist.group.WORLD:
        raise NotServed("split_group of a group of some ranks: every rank has to make a new group")
    if not split_ranks or not all(0 <= rank < size for ranks in split_ranks for rank in ranks):
        raise ValueError(f"split_ranks {split_ranks}: lists of ranks from 0 to {size - 1}")
    own: Any = dist.GroupMember.NON_GROUP_MEMBER
    for ranks in split_ranks:
        ordered = {} if list(ranks) == sorted(ranks) else {"sort_ranks": False}
        if ordered and "sort_ranks" not in inspect.signature(c10d.new_group).parameters:
            raise NotServed(f"split_group with ranks in the order {ranks}: this release of torch sorts them")
        named = {"group_desc": group_desc} if group_desc is not None else {}
        made = c10d.new_group(ranks, timeout, backend, **named, **ordered)
        own = made if dist.get_rank() in ranks else own
    return own


def _monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    dist.barrier(group)


def _replace(module: Any, functions: Sequence[Any]) -> None:
    """Replaces functions of a module, by name, also where other modules but this client's hold them."""
    originals = {id(getattr(module, name)): new for name, new in functions if hasattr(module, name)}
    for name, holder in list(sys.modules.items()):
        if name.split(".")[0] == __package__:
            continue
        for held, value in list(getattr(holder, "__dict__", {}).items()):
            if id(value) in originals:
                setattr(holder, held, originals[id(value)])


def install(link: Link, store_path: str) -> None:
    """Takes over torch.distributed in this process.

    Modules of torch hold new_group and get_backend under their own names. So what these rest on is replaced.
    """
    groups = _Groups(link)
    dist.Backend.register_backend(_NAME, groups.create, extended_api=True, devices=["cpu", "cuda"])
    setattr(c10d, "_new_group_with_tag", _maker(c10d._new_group_with_tag, groups))
    init = _initializer(c10d.init_process_group, groups, store_path)
    _replace(
        c10d,
        (
            ("init_process_group", init),
            ("split_group", _split_group),
            ("monitored_barrier", _monitored_barrier),
            ("is_nccl_available", lambda: True),
            ("is_gloo_available", lambda: True),
            ("_get_pg_default_device", lambda group=None: torch.device("cpu")),
        ),
    )
    setattr(c10d, "_store_based_barrier", lambda *arguments, **named: None)
    _replace(importlib.import_module("torch.multiprocessing.spawn"), spawned.FUNCTIONS)
    os.environ.update(spawned.FOR_CHILDREN)
    torch.set_num_threads(1)
