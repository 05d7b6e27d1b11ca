"""Arithmetic of two or three tensors or numbers, beyond that of elementwise.py; type promotion in full."""

import torch

from make import DTYPES, INF, NAN, case, extremes, integers, reals, tensor

LEFT = [NAN, INF, INF, -INF, -0.0, 0.0, 1.0, 1e38, -5.5, 2.0, 7.0, -7.0, 7.0, -7.0, 1e-40, 6.0, -6.0, 0.9]
RIGHT = [1.0, -INF, 2.0, -INF, 0.0, -0.0, NAN, 3e38, 2.0, -0.5, 3.0, 3.0, -3.0, -3.0, 2.0, 3.0, 3.0, 0.3]
WHOLE = [7, -7, 7, -7, 6, -6, 0, 5, -5, 1]
DIVISORS = [3, 3, -3, -3, 3, 3, 4, -1, 1, 7]


def rounding(x, y, mode):
    return torch.div(x, y, rounding_mode=mode)


ROWS = []
for name, function, args in [
    ("div_rounding", rounding, {"mode": "trunc"}),
    ("div_rounding", rounding, {"mode": "floor"}),
    ("floor_divide", torch.floor_divide, {}),
    ("remainder", torch.remainder, {}),
    ("fmod", torch.fmod, {}),
]:
    how = " ".join(args.values())
    ROWS += [
        case(name, f"edges {how}", function, tensor(LEFT), tensor(RIGHT), **args),
        case(name, f"f64 {how}", function, tensor(LEFT, "f64"), tensor(RIGHT, "f64"), **args),
        case(name, f"integers {how}", function, tensor(WHOLE, "i64"), tensor(DIVISORS, "i64"), **args),
        case(name, f"i32 and u8 {how}", function, tensor(WHOLE, "i32"), tensor([3, 250, 1, 2, 5, 4, 9, 7, 2, 1], "u8"), **args),
        case(name, f"integers by a float {how}", lambda x, value, function=function, **a: function(x, value, **a), tensor(WHOLE, "i64"), value=2.5, **args),
        case(name, f"broadcast {how}", function, reals(3, 1), reals(4, seed=2), **args),
        case(name, f"bf16 {how}", function, tensor([7.5, -7.5, 3.0], "bf16"), tensor([2.0, 2.0, -1.5], "bf16"), **args),
    ]

for name, function in [("fmax", torch.fmax), ("fmin", torch.fmin), ("atan2", torch.atan2), ("copysign", torch.copysign), ("xlogy", torch.xlogy)]:
    ROWS += [
        case(name, "edges", function, tensor(LEFT), tensor(RIGHT)),
        case(name, "turned", function, tensor(RIGHT), tensor(LEFT)),
        case(name, "f64", function, tensor(LEFT, "f64"), tensor(RIGHT, "f64")),
        case(name, "integers", function, tensor(WHOLE, "i64"), tensor(DIVISORS, "i64")),
        case(name, "bools and u8", function, tensor([True, False], "bool"), tensor([1, 3], "u8")),
        case(name, "broadcast f16", function, reals(2, 1, dtype="f16"), reals(3, dtype="f16", seed=1)),
    ]
for name, function in [("hypot", torch.hypot), ("logaddexp", torch.logaddexp), ("logaddexp2", torch.logaddexp2)]:
    ROWS += [
        case(name, "edges", function, tensor(LEFT[:7] + LEFT[8:]), tensor(RIGHT[:7] + RIGHT[8:])),
        case(name, "f64", function, tensor(LEFT[:7] + LEFT[8:], "f64"), tensor(RIGHT[:7] + RIGHT[8:], "f64")),
        case(name, "huge", function, tensor([3e38, 1e-30, -1e30, 88.5]), tensor([1e38, 1e-30, 1e30, 89.5])),
        case(name, "bf16 and f32", function, reals(3, dtype="bf16"), reals(3, seed=1)),
    ]

for name, low in [("clamp_min", "min"), ("clamp_max", "max")]:
    def bound(x, value, low=low):
        return torch.clamp(x, **{low: value})

    ROWS += [
        case(name, "a number", bound, tensor(LEFT), exact=True, value=0.5),
        case(name, "integers and a float", bound, tensor(WHOLE, "i64"), value=0.5),
        case(name, "a tensor", bound, tensor(LEFT), tensor(RIGHT), exact=True),
        case(name, "broadcast integers", bound, integers(3, 1, dtype="i32"), integers(4, dtype="i64", seed=2)),
    ]


def rpow(x, value):
    return value**x


ROWS += [
    case("clamp", "a float bound for integers", torch.clamp, integers(5, dtype="i64"), min=-0.5, max=2),
    case("rpow", "floats", rpow, tensor([NAN, INF, -INF, 0.0, 3.0, -2.5]), value=2.5),
    case("rpow", "integers", rpow, tensor([0, 1, 5], "i64"), value=3),
    case("rpow", "a float to integers", rpow, tensor([0, 1, 5], "i64"), value=0.5),
    case("pow", "integers to negative integers", torch.pow, tensor([1, -1, -1, 2, 0], "i64"), tensor([-3, -3, -2, -1, 3], "i64")),
    case("pow", "inverse roots", lambda x, value: x**value, tensor(LEFT), value=-0.5),
    case("pow", "edges", torch.pow, tensor(LEFT), tensor(RIGHT)),
    case("pow", "edges f64", torch.pow, tensor(RIGHT, "f64"), tensor(LEFT, "f64")),
    case("pow", "zeros, ones and infinities", torch.pow, tensor([0.0, -0.0, -0.0, -1.0, 1.0, 0.5, -0.5, -INF, -INF, -2.0]), tensor([-1.0, -1.0, -2.0, INF, NAN, INF, -INF, 3.0, -3.0, 1e30])),
    case("pow", "bf16", torch.pow, tensor([2.0, 0.5, 3.0], "bf16"), tensor([3.0, -2.0, 0.5], "bf16")),
    case("pow", "integers to the float 2", lambda x, value: x**value, tensor([3, -4], "i64"), value=2.0),
    case("pow", "bools to an integer", lambda x, value: x**value, tensor([True, False], "bool"), value=2),
    case("square", "bools", torch.square, tensor([True, False], "bool")),
    case("add", "bools", torch.add, tensor([True, True, False], "bool"), tensor([True, False, False], "bool")),
    case("mul", "bools", torch.mul, tensor([True, True, False], "bool"), tensor([True, False, False], "bool")),
    case("heaviside", "floats", torch.heaviside, tensor([NAN, -1.0, -0.0, 0.0, 2.0, INF]), tensor([9.0, 9.0, 0.5, NAN, 9.0, 9.0])),
    case("heaviside", "integers", torch.heaviside, tensor([-3, 0, 3], "i64"), tensor([7], "i64")),
    case("lerp", "numbers", lambda x, y, value: torch.lerp(x, y, value), reals(6), reals(6, seed=1), value=0.25),
    case("lerp", "beyond the end", lambda x, y, value: torch.lerp(x, y, value), reals(3, 1), reals(4, seed=1), value=1.5),
    case("lerp", "tensors", torch.lerp, reals(4), reals(4, seed=1), tensor([0.0, 1.0, 0.5, NAN])),
    case("lerp", "f64", torch.lerp, reals(4, dtype="f64"), reals(4, seed=1, dtype="f64"), tensor([0.0, 1.0, 0.3, -1.0], "f64")),
    case("addcmul", "floats", lambda x, a, b, value: torch.addcmul(x, a, b, value=value), reals(2, 3), reals(3, seed=1), reals(2, 1, seed=2), near=1e-6, value=-0.5),
    case("addcmul", "integers", lambda x, a, b, value: torch.addcmul(x, a, b, value=value), integers(4, dtype="i64"), integers(4, dtype="i64", seed=1), integers(4, dtype="i64", seed=2), value=3),
    case("addcdiv", "floats", lambda x, a, b, value: torch.addcdiv(x, a, b, value=value), reals(2, 3), reals(3, seed=1), tensor([[0.5], [-3.0]]), near=1e-6, value=2.0),
    case("addcdiv", "by zero", lambda x, a, b, value: torch.addcdiv(x, a, b, value=value), tensor([1.0, 1.0], "f64"), tensor([1.0, 0.0], "f64"), tensor([0.0, 0.0], "f64"), value=1.0),
]

# Every pair of types, with axes, without, and of a tensor and a number.
VALUES = {"bool": [True, False]}
for a in DTYPES:
    for b in DTYPES:
        x, y = tensor(VALUES.get(a, [3, 1]), a), tensor(VALUES.get(b, [2, 1]), b)
        ROWS.append(case("add", f"{a} and {b}", torch.add, x, y))
        ROWS.append(case("mul", f"{a} and a {b} of rank 0", torch.mul, x, y[0]))
        ROWS.append(case("div", f"{a} of rank 0 and {b} of rank 0", torch.div, x[0], y[0]))
    ROWS.append(case("add", f"{a} and an integer", lambda x, value: x + value, tensor(VALUES.get(a, [3, 1]), a), value=2))
    ROWS.append(case("mul", f"{a} and a float", lambda x, value: x * value, tensor(VALUES.get(a, [3, 1]), a), value=0.5))
    ROWS.append(case("div", f"{a} of rank 0 and a float", lambda x, value: x / value, tensor(VALUES.get(a, [3, 1]), a)[0], value=0.5))
ROWS += extremes(ROWS)
