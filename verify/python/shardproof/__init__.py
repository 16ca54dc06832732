"""The client of shardproof: a program in Python, run as the ranks of a virtual world (verify/python/README.md)."""

from typing import Optional

from .link import Link

_link: Optional[Link] = None


def link() -> Link:
    """Returns this rank's link, for programs that make calls without torch."""
    if _link is None:
        raise RuntimeError("this program does not run under 'shardproof run'")
    return _link
