"""GroupedLinear: a linear layer for each of several groups of rows, such as those of experts.

Shapes  x [rows, in], of which the first m_splits[0] rows are of group 0, and so on.
"""

from typing import Any, Callable, List, Optional

import torch

from .layer import Matrix, WithWeights
from .linear import multiplied
from .parallel import Tensor


class GroupedLinear(WithWeights):
    """Linear layers without calls: the program divides their rows and sums their results itself."""

    def __init__(
        self,
        num_gemms: int,
        in_features: int,
        out_features: int,
        *arguments: Any,
        init_method: Optional[Callable[..., Any]] = None,
        parallel_mode: Optional[str] = None,
        **named: Any,
    ) -> None:
        whole = Matrix("weight", "bias", out_features, in_features, parallel_mode, init_method)
        named_of = [whole._replace(weight=f"weight{group}", bias=f"bias{group}") for group in range(num_gemms)]
        super().__init__(named_of, *arguments, **named)
        self.num_gemms, self.parallel_mode = num_gemms, parallel_mode
        self.in_features = in_features // self._parts(whole, "row")
        self.out_features = out_features // self._parts(whole, "column")

    def forward(self, inp: Tensor, m_splits: List[int], is_first_microbatch: Optional[bool] = None) -> Any:
        sizes = [int(size) for size in m_splits]
        if len(sizes) != self.num_gemms or sum(sizes) != inp.reshape(-1, inp.shape[-1]).shape[0]:
            raise ValueError(
                f"m_splits is {sizes}: it has to have {self.num_gemms} parts of the rows of {list(inp.shape)}"
            )
        results, biases = [], []
        for matrix, rows in zip(self._matrices, torch.split(inp.reshape(-1, inp.shape[-1]), sizes)):
            y, bias = multiplied(self, rows, getattr(self, matrix.weight), self._bias(matrix), None)
            results.append(y)
            biases.append(bias)
        y = torch.cat(results).reshape(*inp.shape[:-1], self.out_features)
        return (y, biases) if self.return_bias else y
