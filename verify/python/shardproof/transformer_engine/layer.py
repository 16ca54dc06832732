"""What the layers with weights have in common: their group, how weights are made and marked, and the state of FP8,
which is always empty.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from .parallel import refuse, size_of

_DEVIATION = 0.023  # of weights that Transformer Engine draws itself


def _normal(weight: torch.Tensor) -> Any:
    return torch.nn.init.normal_(weight, 0.0, _DEVIATION)


class HowMade(NamedTuple):
    """How a parameter of a layer is made: none is in FP8."""

    fp8_meta_index: Optional[int] = None


class Layer(torch.nn.Module):
    """A layer, which knows its group of tensor parallelism."""

    primary_weights_in_fp8 = False

    def __init__(self) -> None:
        super().__init__()
        self.fp8 = self.fp8_calibration = self.fp8_initialized = False
        self.fp8_meta = {"fp8_checkpoint": False, "fp8_group": None, "recipe": None}
        self.tp_group: Any = None
        self.tp_size = 1
        self.sequence_parallel = False

    @property
    def param_init_meta(self) -> Dict[str, HowMade]:
        return {name: HowMade() for name, _ in self.named_parameters(recurse=False)}

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


    def reset_parameters(self, defer_init: bool = False) -> None:
        """Draws the weights again; a layer without weights has nothing to draw."""


def divided(features: int, parts: int) -> int:
    if features % parts != 0:
        raise ValueError(f"{features} features are not a multiple of {parts} ranks")
    return features // parts


class Matrix(NamedTuple):
    """A weight [out, in] of all ranks with its bias [out]: their names, and along what they are divided."""

    weight: str
    bias: str
    out: int
    into: int
    mode: Optional[str]  # "column" divides out, "row" divides in
    init: Optional[Callable[..., Any]] = None


def split_matrix(split: Any, whole: Matrix) -> List[Matrix]:
    """Returns one matrix for each part of the features of `whole`, or `whole` if there are no parts."""
    if split is None:
        return [whole]
    sizes = split if isinstance(split, dict) else {name: whole.out // len(split) for name in split}
    if sum(sizes.values()) != whole.out:
        raise ValueError(f"parameters_split is {sizes}: its sizes have to make {whole.out} features")
    return [
        whole._replace(weight=f"{name.rstrip('_')}_weight", bias=f"{name.rstrip('_')}_bias", out=size)
        for name, size in sizes.items()
    ]


class WithWeights(Layer):
    """A layer with matrices, each of which has a bias, and what of the matrices is on a rank."""

    def __init__(
        self,
        matrices: Sequence[Matrix],
        sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Optional[Callable[..., Any]] = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: Optional[torch.dtype] = None,
        device: Any = "cuda",
        ub_name: Optional[str] = None,
        rng_tracker_name: Optional[str] = None,
        save_original_input: bool = False,
        name: Optional[str] = None,
        seq_length: Optional[int] = None,
        micro_batch_size: Optional[int] = None,
        **named: Any,
    ) -> None:
        super().__init__()
        refuse(type(self).__name__, **named)
        for matrix in matrices:
            if matrix.mode not in (None, "column", "row"):
                raise ValueError(f"parallel_mode is {matrix.mode}: it has to be None, 'column' or 'row'")
        self._join(tp_group, tp_size, sequence_parallel)
        self.ub_name, self.save_original_input = ub_name, save_original_input
        self.use_bias, self.return_bias, self.apply_bias = bias, return_bias, bias and not return_bias
        self.fuse_wgrad_accumulation = fuse_wgrad_accumulation
        self._made = {"dtype": params_dtype or torch.get_default_dtype(), "device": device}
        self._tracked = (get_rng_state_tracker, rng_tracker_name)
        self._matrices = list(matrices)
        for matrix in matrices:
            rows = divided(matrix.out, self._parts(matrix, "column"))
            columns = divided(matrix.into, self._parts(matrix, "row"))
            weight = torch.nn.Parameter(torch.empty(rows, columns, **self._made))
            _mark(weight, dimension=1 if matrix.mode == "row" else 0)
            setattr(self, matrix.weight, weight)
        for matrix in matrices:
            setattr(self, matrix.bias, self._made_bias(matrix) if bias else torch.empty(0, **self._made))
        WithWeights.reset_parameters(self)

    def _parts(self, matrix: Matrix, mode: str) -> int:
        return self.tp_size if matrix.mode == mode else 1

    def reset_parameters(self, defer_init: bool = False) -> None:
        for matrix in [] if defer_init else self._matrices:
            weight = getattr(self, matrix.weight)
            if not weight.is_meta:
                _draw(weight, matrix.init or _normal, *self._tracked)
            if self.use_bias:
                torch.nn.init.zeros_(getattr(self, matrix.bias))

    def _made_bias(self, matrix: Matrix) -> torch.nn.Parameter:
        bias = torch.nn.Parameter(torch.empty(getattr(self, matrix.weight).shape[0], **self._made))
        if matrix.mode == "row":
            setattr(bias, "sequence_parallel", self.sequence_parallel)
        elif matrix.mode == "column":
            _mark(bias, dimension=0)
        return bias

    def _bias(self, matrix: Matrix) -> Optional[torch.Tensor]:
        return getattr(self, matrix.bias) if self.use_bias else None

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
