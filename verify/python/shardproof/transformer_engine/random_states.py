"""The tracker of random states, each of which is that of one kind of rank."""

import contextlib
from typing import Any, Dict, Iterator

import torch

from .parallel import Tensor

_all: Dict[str, Tensor] = {}


def get_all_rng_states() -> Dict[str, Tensor]:
    """Returns the states of all trackers, by name."""
    return _all


class CudaRNGStatesTracker:
    """Holds states by name. A region of fork() draws from one of them, and leaves the generator as it was."""

    def __init__(self) -> None:
        self.states_: Dict[str, Tensor] = {}
        self.seeds_: "set[int]" = set()

    def reset(self) -> None:
        self.states_, self.seeds_ = {}, set()

    def get_states(self) -> Dict[str, Tensor]:
        return dict(self.states_)

    def set_states(self, states: Dict[str, Tensor]) -> None:
        self.states_ = states
        _all.update(states)

    def add(self, name: str, seed: int) -> None:
        if seed in self.seeds_ or name in self.states_:
            raise RuntimeError(f"the tracker has seed {seed} or state {name} already")
        self.seeds_.add(seed)
        before = torch.cuda.get_rng_state()
        torch.cuda.manual_seed(seed)
        self._keep(name)
        torch.cuda.set_rng_state(before)

    def _keep(self, name: str) -> None:
        self.states_[name] = _all[name] = torch.cuda.get_rng_state()

    @contextlib.contextmanager
    def fork(self, name: str = "model-parallel-rng") -> Iterator[None]:
        if name not in self.states_:
            raise KeyError(f"the tracker has no state {name}")
        before: Any = torch.cuda.get_rng_state()
        torch.cuda.set_rng_state(self.states_[name])
        try:
            yield
        finally:
            self._keep(name)
            torch.cuda.set_rng_state(before)
