"""Functions of elements, the arithmetic of two tensors, and tensors made of numbers alone."""

import torch
import torch.nn.functional as F

from make import DTYPES, EDGES, INF, NAN, case, extremes, integers, reals, tensor

FUNCTIONS = {
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "square": torch.square,
}

ROWS = []
for name, function in FUNCTIONS.items():
    # Near the zeros of a wave, and where a difference of large terms is left, a share of the value says little.
    near = {"sin": 2e-6, "cos": 2e-6}.get(name)
    ROWS.append(case(name, "edges", function, tensor(EDGES), near=near))
    if name != "silu":
        ROWS.append(case(name, "integers become f32", function, integers(7, dtype="i64", least=-3, most=3)))
ROWS += [
    case("exp", "f64", torch.exp, tensor(EDGES + [700.0, 710.0, -745.0], "f64")),
    case("exp", "bf16", torch.exp, tensor([0.5, -2.0, 80.0, 90.0, INF], "bf16")),
    case("exp", "f16 overflows", torch.exp, tensor([10.0, 11.0, 12.0, -12.0, -20.0], "f16"), near=6e-8),
    case("exp", "empty", torch.exp, tensor([]).reshape(0, 3)),
    case("exp", "rank 0", torch.exp, tensor(1.0)),
    case("exp", "bools become f32", torch.exp, tensor([True, False], "bool")),
    case("log", "small and huge", torch.log, tensor([1e-40, 1e-38, 3e38, 1.0000001, 0.9999999]), near=1e-9),
    case("tanh", "small", torch.tanh, tensor([1e-20, 1e-8, -1e-4, 1e-2, 0.3])),
    case("erf", "small", torch.erf, tensor([1e-20, 1e-8, -1e-4, 1e-2, 0.3, 5.0])),
    case("erf", "f64", torch.erf, tensor(EDGES, "f64")),
    case("sigmoid", "far", torch.sigmoid, tensor([-100.0, -88.0, -20.0, 20.0, 88.0, 100.0])),
    case("sin", "large", torch.sin, tensor([1000.0, -12345.678, 1e6]), near=2e-6),
    case("square", "of i32", torch.square, tensor([3, -4, 0], "i32")),
    case("square", "of u8 wraps", torch.square, tensor([3, 16, 255], "u8")),
    case("floor", "edges", torch.floor, tensor(EDGES), exact=True),
    case("floor", "bf16", torch.floor, tensor([1.5, -1.5, 0.0], "bf16"), exact=True),
    case("neg", "edges", torch.neg, tensor(EDGES), exact=True),
    case("neg", "of the least i32", torch.neg, tensor([-(2**31), 5], "i32")),
    case("neg", "of u8 wraps", torch.neg, tensor([0, 1, 200], "u8")),
    case("abs", "edges", torch.abs, tensor(EDGES), exact=True),
    case("abs", "of the least i64", torch.abs, tensor([-(2**63), -3, 4], "i64")),
    case("abs", "of u8", torch.abs, tensor([0, 255], "u8")),
    case("relu", "edges", F.relu, tensor(EDGES)),
    case("relu", "of integers", F.relu, tensor([-3, 0, 3], "i32")),
    case("gelu", "none", lambda x, approximate: F.gelu(x, approximate=approximate), tensor(EDGES[3:]), near=2e-6, approximate="none"),
    case("gelu", "tanh", lambda x, approximate: F.gelu(x, approximate=approximate), tensor(EDGES[3:]), near=2e-6, approximate="tanh"),
    case("gelu", "bf16", lambda x, approximate: F.gelu(x, approximate=approximate), reals(12, dtype="bf16"), near=1e-3, approximate="none"),
]

# Two tensors.
PAIRS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}
LEFT = tensor([NAN, INF, INF, -INF, -0.0, 0.0, 1.0, 1e38, -5.5, 2.0])
RIGHT = tensor([1.0, -INF, 2.0, -INF, 0.0, 0.0, NAN, 3e38, 2.0, -0.5])
for name, function in PAIRS.items():
    exact = name in ("add", "sub", "mul")
    ROWS += [
        case(name, "edges", function, LEFT, RIGHT, exact=exact),
        case(name, "broadcast", function, reals(3, 1, 4), reals(2, 4, seed=1), exact=exact),
        case(name, "i32 and i64", function, integers(5, dtype="i32"), integers(5, dtype="i64", seed=1, least=1)),
        case(name, "bf16 and f16 give f32", function, reals(6, dtype="bf16"), reals(6, dtype="f16", seed=3)),
        case(name, "u8 and f32", function, integers(4, dtype="u8"), reals(4, seed=2)),
        case(name, "a tensor of rank 0 does not promote", function, reals(4, dtype="bf16"), tensor(2.0, "f64")),
    ]

# A tensor and a number.
def scalar(name, variant, x, value, **options):
    functions = PAIRS | {"pow": torch.pow}
    if name in ("maximum", "minimum"):
        low = "min" if name == "maximum" else "max"
        return case(name, variant, lambda x, value: torch.clamp(x, **{low: value}), x, value=value, **options)
    return case(name, variant, lambda x, value: functions[name](x, value), x, value=value, **options)


ROWS += [
    scalar("add", "a float to integers", integers(4, dtype="i64"), 1.5, exact=True),
    scalar("add", "an integer to bf16", integers(4, dtype="bf16"), 2, exact=True),
    scalar("add", "a float to bf16 keeps its digits", reals(6, dtype="bf16"), 0.1),
    scalar("sub", "an integer from u8 wraps", tensor([0, 1, 5], "u8"), 2),
    scalar("mul", "an integer to bools gives i64", tensor([True, False], "bool"), 3),
    scalar("mul", "infinity to zeros", tensor([0.0, -0.0, 1.0, -1.0]), INF, exact=True),
    scalar("div", "integers by an integer", tensor([7, -7, 0], "i32"), 2, exact=True),
    scalar("div", "by zero", tensor([1.0, -1.0, 0.0, NAN]), 0.0, exact=True),
    scalar("maximum", "of numbers", tensor(EDGES), 0.25, exact=True),
    scalar("minimum", "of numbers", tensor(EDGES), 0.25, exact=True),
    scalar("pow", "squares", tensor(EDGES), 2),
    scalar("pow", "roots", tensor(EDGES), 0.5),
    scalar("pow", "cubes", tensor(EDGES), 3),
    scalar("pow", "a negative exponent", tensor(EDGES), -2),
    scalar("pow", "to 0", tensor(EDGES), 0),
    scalar("pow", "a broken exponent", tensor(EDGES), 1.7),
    scalar("pow", "integers", tensor([0, 1, -2, 3, -5], "i64"), 3),
    scalar("pow", "integers squared", tensor([0, 1, -2, 3, -5], "i32"), 2),
    scalar("pow", "integers to a float", tensor([0, 1, 2, 3], "i32"), 0.5),
    case("pow", "tensors", torch.pow, tensor([2.0, 0.0, -2.0, -2.0, NAN, 1.0, INF]), tensor([3.0, 0.0, 3.0, 0.5, 0.0, NAN, -1.0])),
    case("add", "empty and one", torch.add, tensor([]).reshape(0, 3), reals(1, 3)),
    case("add", "i64 beyond 2**53", torch.add, tensor([2**53 + 1, 2**63 - 1], "i64"), tensor([2, 1], "i64")),
    case("mul", "i32 wraps", torch.mul, tensor([2**30, -(2**31)], "i32"), tensor([4, 3], "i32")),
    case("add", "bool and u8", torch.add, tensor([True, False], "bool"), tensor([254, 255], "u8")),
    case("div", "i64 tensors", torch.div, tensor([1, -7, 3, 0], "i64"), tensor([3, 2, 0, 0], "i64")),
    case("mul", "f16 overflows", torch.mul, tensor([300.0, -300.0, 2e-4], "f16"), tensor([300.0, 300.0, 2e-4], "f16"), exact=True),
]

# Clamp, conversion, and what is made of nothing.
def clamp(x, min, max):
    return torch.clamp(x, min, max)


def to(x, dtype):
    return x.to(DTYPES[dtype])


def triangle(function):
    return lambda x, diagonal: function(x, diagonal)


ROWS += [
    case("clamp", "edges", clamp, tensor(EDGES), exact=True, min=-1.0, max=2.0),
    case("clamp", "bounds in the wrong order", clamp, tensor([-1.0, 0.0, 5.0]), exact=True, min=3.0, max=2.0),
    case("clamp", "integers", clamp, integers(6, dtype="i64"), min=-1, max=2),
    case("to", "f32 to bf16 rounds to even", to, tensor([1.00390625, 1.01171875, 3.4e38, NAN, -0.0, 1e-40]), exact=True, dtype="bf16"),
    case("to", "f32 to f16", to, tensor([65504.0, 65519.0, 65520.0, 6e-8, 2.9e-8, -INF]), exact=True, dtype="f16"),
    case("to", "floats to i64 truncate", to, tensor([1.9, -1.9, 0.5, -0.5]), dtype="i64"),
    case("to", "floats to bool", to, tensor([0.0, -0.0, 0.1, NAN]), dtype="bool"),
    case("to", "i64 to i32 wraps", to, tensor([2**31, -1, 2**40 + 5], "i64"), dtype="i32"),
    case("to", "i64 to u8 wraps", to, tensor([256, -1, 300], "i64"), dtype="u8"),
    case("to", "i64 to f32 rounds", to, tensor([2**24 + 1, 2**53 + 1, -3], "i64"), exact=True, dtype="f32"),
    case("to", "bool to f16", to, tensor([True, False], "bool"), exact=True, dtype="f16"),
    case("to", "f64 to f32", to, tensor([1e300, 1e-300, 0.1], "f64"), exact=True, dtype="f32"),
    case("tril", "main diagonal", triangle(torch.tril), reals(3, 4), exact=True, diagonal=0),
    case("tril", "below, batched", triangle(torch.tril), reals(2, 4, 3), exact=True, diagonal=-1),
    case("tril", "hides NaN", triangle(torch.tril), tensor([[1.0, NAN], [INF, -0.0]]), exact=True, diagonal=0),
    case("triu", "above", triangle(torch.triu), reals(4, 4), exact=True, diagonal=1),
    case("triu", "far", triangle(torch.triu), integers(2, 3, dtype="i64"), diagonal=-5),
    case("full", "bf16", lambda shape, value, dtype: torch.full(shape, value, dtype=DTYPES[dtype]), exact=True, shape=[2, 3], value=0.1, dtype="bf16"),
    case("full", "bool", lambda shape, value, dtype: torch.full(shape, value, dtype=DTYPES[dtype]), shape=[3], value=1.0, dtype="bool"),
    case("full", "rank 0", lambda shape, value, dtype: torch.full(shape, value, dtype=DTYPES[dtype]), exact=True, shape=[], value=-INF, dtype="f32"),
    case("zeros", "empty", lambda shape, dtype: torch.zeros(shape, dtype=DTYPES[dtype]), exact=True, shape=[0, 2], dtype="f32"),
    case("ones", "u8", lambda shape, dtype: torch.ones(shape, dtype=DTYPES[dtype]), shape=[2, 2], dtype="u8"),
    case("arange", "i64", lambda end, dtype: torch.arange(end, dtype=DTYPES[dtype]), end=7, dtype="i64"),
    case("arange", "bf16", lambda end, dtype: torch.arange(end, dtype=DTYPES[dtype]), exact=True, end=5, dtype="bf16"),
    case("arange", "nothing", lambda end, dtype: torch.arange(end, dtype=DTYPES[dtype]), exact=True, end=0, dtype="f32"),
]
ROWS.append(case("gelu", "infinity and huge numbers of f64", lambda x, approximate: F.gelu(x, approximate=approximate), tensor([INF, 3e38, -1e30, NAN, -0.0], "f64"), approximate="none"))
ROWS += extremes(ROWS)
