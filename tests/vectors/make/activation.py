"""Activation functions, beyond those of elementwise.py."""

import torch.nn.functional as F

from make import EDGES, INF, NAN, case, extremes, integers, reals, tensor

FAR = EDGES + [100.0, -100.0, 20.5, -20.5, 6.0, -3.0, 2.999, 1e-7]

ROWS = []


def edges(name, function, values=FAR, near=1e-6, **args):
    ROWS.append(case(name, "edges", function, tensor(values), near=near, **args))
    ROWS.append(case(name, "f64", function, tensor(values, "f64"), near=1e-13, **args))
    ROWS.append(case(name, "bf16", function, tensor([0.5, -0.75, 3.0, -4.0, 0.0], "bf16"), near=2e-3, **args))


edges("relu6", F.relu6)
edges("leaky_relu", lambda x, slope: F.leaky_relu(x, slope), slope=0.01)
edges("elu", lambda x, alpha: F.elu(x, alpha), alpha=1.5)
edges("selu", F.selu)
edges("celu", lambda x, alpha: F.celu(x, alpha), alpha=0.75)
edges("mish", F.mish)
edges("softplus", lambda x, beta, threshold: F.softplus(x, beta, threshold), beta=2.0, threshold=20.0)
edges("logsigmoid", F.logsigmoid)
edges("softsign", F.softsign)
edges("tanhshrink", F.tanhshrink)
edges("softshrink", lambda x, lambd: F.softshrink(x, lambd), lambd=0.5)
edges("hardshrink", lambda x, lambd: F.hardshrink(x, lambd), lambd=0.5)
edges("threshold", lambda x, threshold, value: F.threshold(x, threshold, value), threshold=0.5, value=20.0)
edges("hardtanh", lambda x, min, max: F.hardtanh(x, min, max), min=-1.0, max=2.0)
edges("hardsigmoid", F.hardsigmoid)
edges("hardswish", F.hardswish)

ROWS += [
    case("relu6", "integers", F.relu6, integers(6, dtype="i64", least=-3, most=9)),
    case("leaky_relu", "a negative slope", lambda x, slope: F.leaky_relu(x, slope), reals(6), slope=-0.5),
    case("threshold", "integers", lambda x, threshold, value: F.threshold(x, threshold, value), integers(6, dtype="i64"), threshold=1, value=7),
    case("softplus", "defaults", lambda x, beta, threshold: F.softplus(x, beta, threshold), tensor(FAR), near=1e-6, beta=1, threshold=20),
    case("prelu", "one weight", F.prelu, reals(2, 3, 2), tensor([0.25])),
    case("prelu", "a weight for each channel", F.prelu, reals(2, 3, 2), tensor([0.25, -1.0, 2.0])),
    case("prelu", "a vector", F.prelu, tensor([-1.0, 2.0, NAN, -INF]), tensor([0.5])),
    case("glu", "last axis", lambda x, axis: F.glu(x, axis), reals(2, 6), axis=-1),
    case("glu", "first axis", lambda x, axis: F.glu(x, axis), reals(4, 3), axis=0),
]
ROWS += extremes(ROWS)
