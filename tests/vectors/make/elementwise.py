"""Functions of elements and the arithmetic of two tensors."""

from make import EDGES, case, tensor

import torch

ROWS = [
    case("exp", "edges", torch.exp, tensor(EDGES)),
]
