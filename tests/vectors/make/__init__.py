"""How a case is written. In make/<family>.py:

    from make import case, integers, reals, tensor

    ROWS = [
        case("add", "broadcast", lambda x, y: x + y, integers(3, 1), integers(4)),
        case("sum", "axis -1", lambda x, axes, keepdim: x.sum(axes, keepdim), reals(2, 3), axes=[-1], keepdim=True),
    ]

`case(operation, variant, function, *inputs, **args)` calls `function(*inputs, **args)`; the inputs are torch tensors,
the args are numbers, bools, strings (types are named f32, bf16, i64, ...; DTYPES has torch's) and lists of those.
tests/src/vectors/<family>.rs applies the operation of this name to the same inputs and args.

A result must be within `near + within * |expected|`, element by element. Both are 0 unless given for results that are
not floats and for `exact=True` (then -0 is not 0); else they follow from the result's type. Sums, whose error grows
with their terms and not with their value, give `near=`.
"""

import math

import torch

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}
NAMES = {torch_type: name for name, torch_type in DTYPES.items()}

NAN, INF = math.nan, math.inf
# What a function of floats should be tried on.
EDGES = [NAN, INF, -INF, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.7, 10.0, -10.0, 1e-3, -1e-3, 1e-30, 50.0, -50.0]
# Rounding to the type, several times over.
WITHIN = {"f64": 4e-14, "f32": 2e-6, "f16": 1.1e-3, "bf16": 8e-3}


def tensor(values, dtype="f32"):
    """A tensor of (nested) values."""
    return torch.tensor(values, dtype=DTYPES[dtype])


def _draws(count, seed):
    # Of no library, so that no version changes it.
    state = (seed * 2654435761 + 12345) & 0xFFFFFFFF
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        yield state >> 8


def integers(*shape, dtype="f32", seed=0, least=-4, most=4):
    """Small integers of both signs."""
    least = max(least, 0) if dtype in ("u8", "bool") else least
    most = 1 if dtype == "bool" else most
    values = [least + d % (most - least + 1) for d in _draws(math.prod(shape), seed)]
    return torch.tensor(values, dtype=DTYPES[dtype]).reshape(shape)


def reals(*shape, dtype="f32", seed=0, scale=2.0):
    """Numbers between -scale and scale, three digits each."""
    values = [round(scale * (d % 2001 - 1000) / 1000, 6) for d in _draws(math.prod(shape), seed)]
    return torch.tensor(values, dtype=DTYPES[dtype]).reshape(shape)


def _number(value, dtype):
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else 0
    if value == int(value) and abs(value) < 2**53:
        return int(value)
    # The fewest digits that give the value back.
    for digits in range(1, 18):
        text = float(f"{value:.{digits}g}")
        if float(torch.tensor(text, dtype=torch.float64).to(DTYPES[dtype]).double()) == value:
            return text
    raise AssertionError(value)


def _stored(value):
    name = NAMES[value.dtype]
    flat = value.detach().contiguous().reshape(-1)
    values = flat.double().tolist() if value.dtype.is_floating_point else flat.tolist()
    return {"dtype": name, "shape": list(value.shape), "values": [_number(v, name) for v in values]}


def _argument(value):
    if isinstance(value, (list, tuple)):
        return [_argument(v) for v in value]
    # A float stays one: 2.0 and 2 promote differently.
    return value if not isinstance(value, float) or math.isfinite(value) else _number(value, "f64")


def case(operation, variant, function, *inputs, within=None, near=None, exact=False, **args):
    """One case; see above."""
    outputs = function(*[i.clone() for i in inputs], **args)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    floats = [NAMES[o.dtype] for o in outputs if o.dtype.is_floating_point]
    if exact or not floats:
        within, near = within or 0, near or 0
    if within is None:
        within = max(WITHIN[name] for name in floats)
    if near is None:
        near = 1e-37 if "f64" not in floats else 1e-300
    return {
        "operation": operation,
        "variant": variant,
        "args": {name: _argument(value) for name, value in args.items()},
        "inputs": [_stored(i) for i in inputs],
        "outputs": [_stored(o) for o in outputs],
        "within": within,
        "near": near,
    }


def same(stored, found, within, near):
    """Whether two stored numbers are the same for a case."""
    if isinstance(stored, str) or isinstance(found, str):
        return stored == found or (within or near) and {stored, found} == {"-0.0", 0}
    return stored == found or abs(stored - found) <= near + within * abs(stored)
