"""What the layers with weights have in common: their group, how weights are made and marked, and the state of FP8,
which is always empty.
"""

from typing import Any, Callable, Optional

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
    """A layer with matrices: `weight` and `bias`, or one of each for each of `groups` groups."""

    def __init__(
        self,
        groups: Optional[int],
        in_features: int,
        out_features: int,
        sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Optional[Callable[..., Any]] = None,
        init_method: Optional[Callable[..., Any]] = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: Optional[torch.dtype] = None,
        parallel_mode: Optional[str] = None,
        device: Any = "cuda",
        ub_name: Optional[str] = None,
        rng_tracker_name: Optional[str] = None,
        save_original_input: bool = False,
        name: Optional[str] = None,
        **named: Any,
    ) -> None:
        super().__init__()
        refuse(type(self).__name__, **named)
        if parallel_mode not in (None, "column", "row"):
            raise ValueError(f"parallel_mode is {parallel_mode}: it has to be None, 'column' or 'row'")
        self._join(tp_group, tp_size, sequence_parallel)
        self.parallel_mode, self.ub_name, self.save_original_input = parallel_mode, ub_name, save_original_input
        self.in_features = divided(in_features, self.tp_size if parallel_mode == "row" else 1)
        self.out_features = divided(out_features, self.tp_size if parallel_mode == "column" else 1)
        self.use_bias, self.return_bias, self.apply_bias = bias, return_bias, bias and not return_bias
        self.fuse_wgrad_accumulation = fuse_wgrad_accumulation
        made = {"dtype": params_dtype or torch.get_default_dtype(), "device": device}
        for which in [""] if groups is None else range(groups):
            weight = torch.nn.Parameter(torch.empty(self.out_features, self.in_features, **made))
            _mark(weight, dimension=1 if parallel_mode == "row" else 0)
            if not weight.is_meta:
                _draw(weight, init_method or _normal, get_rng_state_tracker, rng_tracker_name)
            setattr(self, f"weight{which}", weight)
            setattr(self, f"bias{which}", self._made_bias(made) if bias else torch.empty(0, **made))

    def _made_bias(self, made: Any) -> torch.nn.Parameter:
        bias = torch.nn.Parameter(torch.zeros(self.out_features, **made))
        if self.parallel_mode == "row":
            setattr(bias, "sequence_parallel", self.sequence_parallel)
        elif self.parallel_mode == "column":
            _mark(bias, dimension=0)
        return bias

    def backward_dw(self) -> None:
        """Does nothing, because gradients of weights are not put off."""


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
