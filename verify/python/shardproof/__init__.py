"""The client of shardproof: a program in Python, run as the ranks of a virtual world (verify/python/README.md)."""

from typing import Any, Callable, Optional, Sequence

from .layout import Layout
from .link import Link
from .marked import layouts

__all__ = ["Layout", "layouts", "link", "publish", "record"]

_link: Optional[Link] = None
_publish: Optional[Callable[..., None]] = None  # in a run whose values are compared


def link() -> Link:
    """Returns this rank's link, for programs that make calls without torch."""
    if _link is None:
        raise RuntimeError("this program does not run under 'shardproof run'")
    return _link


def _keep_values(keep: Callable[..., None], draws_weights: bool, patterns: Sequence[str] = ()) -> None:
    """Has what this process computes kept (values.py), and what modules with such names take and give (watched.py)."""
    global _publish
    from . import megatron, published, torch_training

    torch_training.install(keep, megatron.install(keep, draws_weights))
    _publish = published.Published(keep).publish
    if patterns:
        from . import watched

        watched.install(keep, patterns)


def record(folder: str, weights: str = "program") -> None:
    """Writes what this rank computes in its first steps into a folder, for `shardproof compare` (recorded.py).

    It is called on every rank, before the program imports Megatron and makes optimizers. With weights="by-name" those of
    Megatron's models are drawn from their names first, so that they are the same on any layout. In a run of shardproof,
    record() does nothing.
    """
    if weights not in ("program", "by-name"):
        raise ValueError(f"shardproof.record(): weights={weights!r} is neither 'program' nor 'by-name'")
    if _link is None:
        if _publish is not None:
            raise ValueError("shardproof.record(): this process records already")
        from . import recorded

        _keep_values(recorded.begin(folder).keep, weights == "by-name")


def publish(
    name: str, tensor: Any, whole: Optional[Sequence[int]] = None, offset: Optional[Sequence[int]] = None
) -> None:
    """Has `shardproof run --layouts` and `--against` compare a value by its name.

    A plain tensor is the whole value, on each rank that publishes it. If it is a block of the value, `whole` is the shape
    of the value, and `offset` says where the block begins: publish("logits", x, whole=[8, 16], offset=[0, 4]). A DTensor
    has its own place. Values that are published again under a name are those of further steps; the first three count.
    record() keeps it, too. In any other run, publish() does nothing.

    Errors  ValueError: a block that does not lie in the whole value, or a DTensor with a partial sum.
    """
    if _publish is not None:
        _publish(name, tensor, whole, offset)
