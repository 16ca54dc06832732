"""What the layers with weights have in common: their group, how weights are made and marked, and the state of FP8,
which is always empty.
"""

from typing import Any, Callable, List, Optional

import torch

from .parallel import refuse, size_of

_DEVIATION = 0.023  # of weights that Transformer Engine draws itself


def _normal(weight: torch.Tensor) -> Any:
    return torch.nn.init.normal_(weight, 0.0, _DEVIATION)


class Layer(torch.nn.Module):
    """A layer, which knows its group of tensor parallelism."""

    def __init__(self) -> None:
        super().__init__()
        self.fp8 = self.fp8_calibration = self.fp8_initialized = False
        self.fp8_meta = {"fp8_checkpoint": False, "fp8_group": None, "recipe": None}
        self.tp_group: Any = None
        self.tp_size = 1
        self.sequence_parallel = False

    def set_tensor_parallel_group(self, tp_group: Any) -> None:
        self.tp_group = tp_group

    def init_fp8_metadata(self, num_gemms: int = 1) -> None:
        """Does nothing, because no layer computes in FP8."""

    def get_extra_state(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        if state is not None and torch.is_tensor(state):
            refuse("a checkpoint", fp8_state=state.numel() > 0)

    def _join(self, tp_group: Any, tp_size: int, sequence_parallel: bool) -> None:
        """Sets the group. Its size is the group's; `tp_size` counts if the group is set later."""
        self.tp_size = tp_size if tp_group is None else size_of(tp_group)
        self.set_tensor_parallel_group(tp_group)
        self.sequence_parallel = sequence_parallel and self.tp_size > 1


def divided(features: int, parts: int) -> int:
    if features % parts != 0:
        raise ValueError(f"{features} features are not a multiple of {parts} ranks")
    return features // parts


class WithWeights(Layer):
    """A layer with matrices: `weight` and `bias`, or one of each for each expert."""

    def _make_weights(
        self,
        names: List[str],
        bias_names: List[str],
        init_method: Optional[Callable[..., Any]],
        get_rng_state_tracker: Optional[Callable[..., Any]],
        rng_tracker_name: Optional[str],
        dtype: Optional[torch.dtype],
        device: Any,
    ) -> None:
        """Makes and marks the parameters, in the dtype and on the device that are named."""
        made = {"dtype": dtype or torch.get_default_dtype(), "device": device}
        mode: Optional[str] = getattr(self, "parallel_mode")
        for name in names:
            weight = torch.nn.Parameter(torch.empty(getattr(self, "out_features"), getattr(self, "in_features"), **made))
            _mark(weight, dimension=1 if mode == "row" else 0)
            self.register_parameter(name, weight)
            if not weight.is_meta:
                _draw(weight, init_method or _normal, get_rng_state_tracker, rng_tracker_name)
        for name in bias_names:
            if not getattr(self, "use_bias"):
                setattr(self, name, torch.empty(0, **made))
                continue
            bias = torch.nn.Parameter(torch.zeros(getattr(self, "out_features"), **made))
            self.register_parameter(name, bias)
            if mode == "row":
                setattr(bias, "sequence_parallel", self.sequence_parallel)
            elif mode == "column":
                _mark(bias, dimension=0)


def _mark(parameter: torch.Tensor, dimension: int) -> None:
    """Says along which dimension a parameter is cut, in Megatron's words."""
    for name, value in (("tensor_model_parallel", True), ("partition_dim", dimension), ("partition_stride", 1)):
        setattr(parameter, name, value)


def _draw(weight: torch.Tensor, init: Callable[..., Any], get_tracker: Optional[Callable[..., Any]], name: Any) -> None:
    with torch.no_grad():
        if get_tracker is None:
            init(weight)
            return
        with get_tracker().fork(*([name] if name else [])):
            init(weight)
