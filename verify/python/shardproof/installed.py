"""The program that a wheel brings beside the client, and the command `shardproof` of such an installation."""

import os
import sys
from typing import Optional


def program() -> Optional[str]:
    """Returns the path of the program of this package, if it has one."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program", "bin", "shardproof")
    return path if os.path.exists(path) else None


def main() -> None:
    """Becomes the program."""
    path = program()
    if path is None:
        sys.exit("shardproof: this installation has the client only; build the program from its checkout")
    os.execv(path, sys.argv)
