"""Functions of one tensor's elements, beyond those of elementwise.py."""

import torch

from make import EDGES, INF, NAN, case, extremes, integers, reals, tensor

# Near the ends of domains, where they overflow, and where digits would cancel.
MORE = EDGES + [0.999, -0.999, 1.0000001, 1e-7, -1e-7, 88.0, -103.0, 127.5, -149.0, 4.5, 9.5, 1e10, 3e38, 1e-40]

FUNCTIONS = {
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "deg2rad": torch.deg2rad,
    "rad2deg": torch.rad2deg,
}

ROWS = []
for name, function in FUNCTIONS.items():
    # Far angles: their tangent is what is left of ten digits. Small numbers: torch's own are a few units off.
    values = [v for v in MORE if name != "tan" or abs(v) < 1e6 or v != v]
    ROWS += [
        case(name, "edges", function, tensor(values)),
        case(name, "f64", function, tensor(values, "f64")),
        case(name, "integers become f32", function, integers(5, dtype="i32", least=-1, most=3)),
        case(name, "bools become f32", function, tensor([True, False], "bool")),
        case(name, "bf16", function, tensor([0.5, -0.25, 1.0, 0.0], "bf16")),
        case(name, "f16", function, tensor([0.5, -0.25, 1.0, 0.0], "f16")),
    ]

WHOLE = {"ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "floor": torch.floor}
for name, function in WHOLE.items():
    ROWS += [
        case(name, "halves and edges", function, tensor([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49, *EDGES, 8388609.0]), exact=True),
        case(name, "f16", function, tensor([0.5, 1.5, -2.5, 1000.5, INF], "f16"), exact=True),
        case(name, "integers stay", function, integers(4, dtype="i64")),
    ]
ROWS += [
    case("frac", "edges", torch.frac, tensor([2.75, -2.75, 0.0, NAN, 8388609.0])),
    case("frac", "f64", torch.frac, tensor([2.75, -2.75, 1e-3], "f64")),
    case("round_decimals", "tenths", lambda x, decimals: torch.round(x, decimals=decimals), tensor([0.25, 0.35, -1.26, 12.05, INF]), decimals=1),
    case("round_decimals", "hundreds", lambda x, decimals: torch.round(x, decimals=decimals), tensor([149.0, 150.0, 250.0, -251.0], "f64"), decimals=-2),
    case("round_decimals", "none", lambda x, decimals: torch.round(x, decimals=decimals), tensor([0.5, 1.5]), decimals=0),
    case("logit", "edges", torch.logit, tensor([0.0, 1.0, 0.5, 0.25, 1e-20, 0.9999999, -1.0, 2.0, NAN])),
    case("logit", "with eps", lambda x, eps: torch.logit(x, eps), tensor([0.0, 1.0, 0.5, -3.0, NAN]), eps=1e-3),
    case("logit", "f64", torch.logit, tensor([0.125, 0.75], "f64")),
]

SIGNS = [NAN, -NAN, INF, -INF, 0.0, -0.0, 3.5, -3.5, 1e-40]
QUESTIONS = {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isposinf": torch.isposinf,
    "isneginf": torch.isneginf,
    "isfinite": torch.isfinite,
    "signbit": torch.signbit,
    "sign": torch.sign,
    "sgn": torch.sgn,
}
for name, function in QUESTIONS.items():
    # NaN as it arrives has no sign that a file keeps.
    values = SIGNS[2:] if name == "signbit" else SIGNS
    ROWS += [
        case(name, "edges", function, tensor(values)),
        case(name, "bf16", function, tensor(values[2:], "bf16")),
        case(name, "integers", function, integers(5, dtype="i64", least=-2, most=2)),
        case(name, "u8", function, integers(5, dtype="u8")),
        case(name, "bools", function, tensor([True, False], "bool")),
    ]
ROWS += [
    case("nan_to_num", "the type's own bounds", lambda x, nan: torch.nan_to_num(x, nan), tensor(SIGNS), exact=True, nan=0.0),
    case("nan_to_num", "given bounds", lambda x, nan, posinf, neginf: torch.nan_to_num(x, nan, posinf, neginf), tensor(SIGNS, "f64"), exact=True, nan=1.5, posinf=7.0, neginf=-8.0),
    case("nan_to_num", "f16", lambda x, nan: torch.nan_to_num(x, nan), tensor([INF, -INF, NAN, 2.0], "f16"), exact=True, nan=0.0),
    case("nan_to_num", "bf16", lambda x, nan: torch.nan_to_num(x, nan), tensor([INF, -INF, NAN, 2.0], "bf16"), exact=True, nan=0.0),
    case("nan_to_num", "integers", lambda x, nan: torch.nan_to_num(x, nan), integers(3, dtype="i64"), nan=0.0),
]


def isclose(x, y, rtol, atol, equal_nan):
    return torch.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)


CLOSE = [tensor([1.0, 1.0, NAN, INF, INF, 0.0, 1e-9]), tensor([1.00001, 1.1, NAN, INF, -INF, -0.0, 0.0])]
ROWS += [
    case("isclose", "defaults", isclose, *CLOSE, rtol=1e-5, atol=1e-8, equal_nan=False),
    case("isclose", "equal NaN", isclose, *CLOSE, rtol=0.2, atol=0.0, equal_nan=True),
    case("isclose", "exactly", isclose, *CLOSE, rtol=0.0, atol=0.0, equal_nan=False),
    case("isclose", "broadcast", isclose, reals(3, 1), reals(4, seed=1), rtol=0.5, atol=0.1, equal_nan=False),
    case("isclose", "integers", isclose, integers(6, dtype="i64"), integers(6, dtype="i64", seed=1), rtol=0.0, atol=1.0, equal_nan=False),
]
ROWS += extremes(ROWS)
