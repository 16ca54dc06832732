"""Builds the wheel: the client as a package, and in its `program` the program with scenarios and its own client.

Shapes  `program` has the folders of an installed program: bin, and share/shardproof with scenarios and python.
        The program is the file that SHARDPROOF_PROGRAM names, or that of the checkout, build/shardproof.
        The version is that of the checkout's CMakeLists.txt.
Errors  SystemExit: there is no such file, or the wheel is asked for as a source distribution, which has no checkout.
"""

import os
import re
import shutil
import tempfile
from typing import NoReturn, Tuple

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
BUILT = os.path.join(CHECKOUT, "build", "shardproof")


def version() -> str:
    with open(os.path.join(CHECKOUT, "CMakeLists.txt"), encoding="utf-8") as file:
        found = re.search(r"^project\(shardproof VERSION ([0-9.]+)", file.read(), re.M)
    return found[1] if found else "0"


def program() -> str:
    """Returns the file of the program."""
    named = os.environ.get("SHARDPROOF_PROGRAM", BUILT)
    if not os.access(named, os.X_OK) or os.path.isdir(named):
        raise SystemExit(f"no program: {named} is no executable file; build it, or name it by SHARDPROOF_PROGRAM")
    return named


class WithProgram(Distribution):
    def has_ext_modules(self) -> bool:
        """Says that the package is of one platform."""
        return True


class BuildWithProgram(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:  # its package is this folder; the program is found by SHARDPROOF or on PATH
            return
        package = os.path.join(self.build_lib, "shardproof")
        root = os.path.join(package, "program")
        share = os.path.join(root, "share", "shardproof")
        os.makedirs(os.path.join(root, "bin"))
        shutil.copy(program(), os.path.join(root, "bin", "shardproof"))
        shutil.copytree(os.path.join(CHECKOUT, "scenarios"), os.path.join(share, "scenarios"))
        own = os.path.join(share, "python", "shardproof")
        shutil.copytree(os.path.join(HERE, "shardproof"), own, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(os.path.join(HERE, "begin.py"), os.path.dirname(own))


class PlatformWheel(bdist_wheel):
    """A wheel for any Python on this platform."""

    def get_tag(self) -> Tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class NoSources(sdist):
    def run(self) -> NoReturn:
        raise SystemExit("the wheel is built from a checkout: python -m build --wheel, or pip wheel")


with tempfile.TemporaryDirectory() as folder:
    setup(
        version=version(),
        distclass=WithProgram,
        cmdclass={"build_py": BuildWithProgram, "bdist_wheel": PlatformWheel, "sdist": NoSources},
        options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}},
    )
