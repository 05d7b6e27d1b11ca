"""Softmax and norms."""

import torch
import torch.nn.functional as F

from make import INF, NAN, case, extremes, reals, tensor

X = reals(2, 3, 5)
ROWS_OF = tensor(
    [[1000.0, 0.0, -1000.0], [NAN, 1.0, 2.0], [INF, 1.0, 2.0], [-INF, 1.0, 2.0], [-INF, -INF, -INF], [3.0, 3.0, 3.0], [-0.0, 0.0, 1e-30]]
)


def softmax(x, axis):
    return F.softmax(x, axis)


def log_softmax(x, axis):
    return F.log_softmax(x, axis)


def normalize(x, axis, eps):
    return F.normalize(x, dim=axis, eps=eps)


def layer_norm(x, *parameters, normalized, eps):
    return F.layer_norm(x, normalized, *parameters, eps=eps)


def rms_norm(x, *parameters, normalized, eps):
    return F.rms_norm(x, normalized, *parameters, eps=eps)


ROWS = []
for name, function in {"softmax": softmax, "log_softmax": log_softmax}.items():
    ROWS += [
        case(name, "last axis", function, X, axis=-1),
        case(name, "middle axis", function, X, axis=1),
        case(name, "edges", function, ROWS_OF, axis=1),
        case(name, "one element", function, reals(3, 1), axis=1),
        case(name, "bf16", function, reals(2, 6, dtype="bf16"), axis=1),
        case(name, "f64", function, reals(2, 6, dtype="f64"), axis=0),
        case(name, "no rows", function, reals(0, 4), axis=1),
        case(name, "rows of nothing", function, reals(4, 0), axis=1),
    ]
ROWS += [
    case("softmax", "f16", softmax, reals(2, 6, dtype="f16"), axis=1),
    case("softmax", "rank 1", softmax, tensor([0.0, 1.0, 2.0]), axis=0),
    case("normalize", "last axis", normalize, X, axis=-1, eps=1e-12),
    case("normalize", "first axis, zeros", normalize, tensor([[0.0, 3.0], [0.0, 4.0]]), axis=0, eps=1e-12),
    case("normalize", "edges", normalize, ROWS_OF, axis=1, eps=1e-12),
    case("normalize", "bf16", normalize, reals(2, 6, dtype="bf16"), axis=1, eps=1e-12),
    case("layer_norm", "plain", layer_norm, X, normalized=[5], eps=1e-5, near=2e-6),
    case("layer_norm", "two axes, weight and bias", layer_norm, X, reals(3, 5, seed=1), reals(3, 5, seed=2), normalized=[3, 5], eps=1e-5, near=2e-6),
    case("layer_norm", "weight alone", layer_norm, X, reals(5, seed=1), normalized=[5], eps=1e-3, near=2e-6),
    case("layer_norm", "all equal", layer_norm, tensor([[2.5, 2.5, 2.5]]), normalized=[3], eps=1e-5),
    case("layer_norm", "far from zero", layer_norm, tensor([[10000.0, 10001.0, 10002.0, 10003.0]]), normalized=[4], eps=1e-5, near=1e-4),
    case("layer_norm", "NaN and infinities", layer_norm, tensor([[NAN, 1.0], [INF, 1.0], [1.0, 3.0]]), normalized=[2], eps=1e-5, near=2e-6),
    case("layer_norm", "bf16", layer_norm, reals(2, 6, dtype="bf16"), reals(6, dtype="bf16", seed=1), reals(6, dtype="bf16", seed=2), normalized=[6], eps=1e-5, near=1e-2),
    case("layer_norm", "rows of nothing", layer_norm, reals(2, 0), normalized=[0], eps=1e-5),
    case("rms_norm", "rows of nothing", rms_norm, reals(2, 0), normalized=[0], eps=1e-5),
    case("rms_norm", "plain", rms_norm, X, normalized=[5], eps=1e-6),
    case("rms_norm", "two axes, weight", rms_norm, X, reals(3, 5, seed=1), normalized=[3, 5], eps=1e-6),
    case("rms_norm", "zeros", rms_norm, tensor([[0.0, 0.0]]), normalized=[2], eps=1e-6),
    case("rms_norm", "huge and small", rms_norm, tensor([[1e18, 1.0], [1e-20, 1e-20]]), normalized=[2], eps=1e-6),
    case("rms_norm", "bf16", rms_norm, reals(2, 6, dtype="bf16"), reals(6, dtype="bf16", seed=1), normalized=[6], eps=1e-6, near=1e-2),
]
ROWS += [case("softmin", "last axis", lambda x, axis: F.softmin(x, axis), X, axis=-1), case("softmin", "edges", lambda x, axis: F.softmin(x, axis), ROWS_OF, axis=1)]
ROWS.append(case("layer_norm", "huge numbers of f64", layer_norm, tensor([[1e30, -2e30, 0.5, 3e31]], "f64"), normalized=[4], eps=1e-5))
ROWS += extremes(ROWS)
