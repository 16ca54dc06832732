"""GroupedLinear: a linear layer for each of several groups of rows, such as those of experts.

Shapes  x [rows, in], of which the first m_splits[0] rows are of group 0, and so on.
"""

from typing import Any, Callable, List, Optional

import torch

from .layer import WithWeights, divided
from .linear import Product, How, in_autocast
from .parallel import Tensor, refuse


class GroupedLinear(WithWeights):
    """Linear layers without calls: the program divides their rows and sums their results itself."""

    def __init__(
        self,
        num_gemms: int,
        in_features: int,
        out_features: int,
        sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Optional[Callable[..., Any]] = None,
        rng_tracker_name: Optional[str] = None,
        init_method: Optional[Callable[..., Any]] = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: Optional[torch.dtype] = None,
        parallel_mode: Optional[str] = None,
        device: Any = "cuda",
        ub_name: Optional[str] = None,
        save_original_input: bool = False,
        name: Optional[str] = None,
        **named: Any,
    ) -> None:
        super().__init__()
        refuse("GroupedLinear", **named)
        self._join(tp_group, tp_size, sequence_parallel)
        self.num_gemms, self.parallel_mode, self.ub_name = num_gemms, parallel_mode, ub_name
        self.in_features = divided(in_features, self.tp_size if parallel_mode == "row" else 1)
        self.out_features = divided(out_features, self.tp_size if parallel_mode == "column" else 1)
        self.use_bias, self.return_bias, self.apply_bias = bias, return_bias, bias and not return_bias
        self.fuse_wgrad_accumulation, self.save_original_input = fuse_wgrad_accumulation, save_original_input
        weights, biases = ([f"{kind}{group}" for group in range(num_gemms)] for kind in ("weight", "bias"))
        self._make_weights(weights, biases, init_method, get_rng_state_tracker, rng_tracker_name, params_dtype, device)

    def forward(self, inp: Tensor, m_splits: List[int], is_first_microbatch: Optional[bool] = None) -> Any:
        sizes = [int(size) for size in m_splits]
        if len(sizes) != self.num_gemms or sum(sizes) != inp.reshape(-1, inp.shape[-1]).shape[0]:
            raise ValueError(f"m_splits is {sizes}: it has to have {self.num_gemms} parts of the rows of {list(inp.shape)}")
        results, biases = [], []
        for group, rows in enumerate(inp.reshape(-1, inp.shape[-1]).split(sizes)):
            of_group = getattr(self, f"weight{group}")
            rows, weight, bias = in_autocast(rows, of_group, getattr(self, f"bias{group}") if self.use_bias else None)
            adds = self.fuse_wgrad_accumulation and hasattr(of_group, "main_grad")
            how = How(None, None, False, adds)
            results.append(Product.apply(rows, of_group if adds else weight, bias if self.apply_bias else None, how))
            biases.append(bias)
        y = torch.cat(results).reshape(*inp.shape[:-1], self.out_features)
        return (y, biases) if self.return_bias else y

    def backward_dw(self) -> None:
        """Does nothing, because gradients of weights are not put off."""
