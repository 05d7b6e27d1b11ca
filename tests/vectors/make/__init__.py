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

`ROWS += extremes(ROWS)` at the end of a family gives each operation the NaN, infinities, zeros, huge numbers and empty
tensors that its own rows do not have.
"""

import math
import warnings

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


# The call behind each row, for `extremes`.
_CALLS = []


def case(operation, variant, function, *inputs, within=None, near=None, exact=False, **args):
    """One case; see above."""
    options = {"exact": exact, "within": within, "near": near, **args}
    outputs = function(*[i.clone() for i in inputs], **args)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    floats = [NAMES[o.dtype] for o in outputs if o.dtype.is_floating_point]
    if exact or not floats:
        within, near = within or 0, near or 0
    if within is None:
        within = max(WITHIN[name] for name in floats)
    if near is None:
        near = 1e-37 if "f64" not in floats else 1e-300
    row = {
        "operation": operation,
        "variant": variant,
        "args": {name: _argument(value) for name, value in args.items()},
        "inputs": [_stored(i) for i in inputs],
        "outputs": [_stored(o) for o in outputs],
        "within": within,
        "near": near,
    }
    _CALLS.append((row, function, inputs, options))
    return row


def same(stored, found, within, near):
    """Whether two stored numbers are the same for a case."""
    if isinstance(stored, str) or isinstance(found, str):
        return stored == found or (within or near) and {stored, found} == {"-0.0", 0}
    return stored == found or abs(stored - found) <= near + within * abs(stored)


# What `extremes` adds, by what it fills in; shapes without elements besides.
VARIANTS = {
    "all odd": "NaN, infinities and both zeros",
    "odd": "an infinity and -0 among others",
    "huge": "huge numbers",
}
# Arguments that hold extents.
SHAPES = ("shape", "sizes", "normalized", "output_size")


def _filled(x, nth, what, alone):
    """A float tensor with extremes among (`odd`, `huge`) or in place of (`all odd`) its elements."""
    count = x.numel()
    if what == "all odd":
        values = [1.0, NAN, -0.0, INF, 0.0, -INF, 2.0]
        return torch.tensor([values[(n + nth) % len(values)] for n in range(count)], dtype=x.dtype).reshape(x.shape)
    # Quarters: short to write, and their sums do not round.
    flat = (x * 4).round().reshape(-1) / 4
    # Huge ones of different magnitudes: their sum does not hang on its order.
    huge = {0: 1e30, 1: -1e34, count - 1: 3e38 if alone else 3e36}
    for n, value in (huge if what == "huge" else {count // 2: -0.0, count - 1: INF}).items():
        if 0 <= n < count:
            flat[n] = value
    return flat.reshape(x.shape)


def _lacking(calls):
    """What an operation has no row of: VARIANTS' keys and `nothing`."""
    inputs = [i for _, _, inputs, _ in calls for i in inputs]
    floats = [i.double().reshape(-1) for i in inputs if i.dtype.is_floating_point]
    lacking = [] if any(i.numel() == 0 for i in inputs) else ["nothing"]
    if not floats:
        return lacking
    every = torch.cat(floats)
    if not (every.isnan().any() and every.isinf().any() and ((every == 0) & every.signbit()).any()):
        lacking += ["all odd", "odd"]
    if not (every.isfinite() & (every.abs() >= 1e30)).any():
        lacking.append("huge")
    return lacking


def _fitness(call):
    """Less for a call that is better to vary: of f32, with elements, with four of them, finite, small."""
    row, _, inputs, _ = call
    counts = [i.numel() for i in inputs] or [0]
    floats = [i for i in inputs if i.dtype.is_floating_point]
    single = all(i.dtype == torch.float32 for i in floats)
    finite = all(bool(i.isfinite().all()) for i in floats)
    total = sum(counts) + sum(len(o["values"]) for o in row["outputs"])
    return not floats, not single, 0 in counts, max(counts) < 4, not finite, total


def _attempt(operation, variant, function, inputs, options):
    """A row, if torch accepts the inputs and gives the same twice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            row, again = (case(operation, variant, function, *inputs, **options) for _ in range(2))
        except (RuntimeError, IndexError, ValueError, TypeError):
            return None
    return row if row["outputs"] == again["outputs"] else None


def _varied(what, operation, function, inputs, options):
    floats = [n for n, i in enumerate(inputs) if i.dtype.is_floating_point]
    summed = bool(options["near"])
    if what == "huge" and summed and not options["exact"]:
        options = {**options, "within": max(options["within"] or 2e-6, options["near"])}
    # Where products are summed, huge ones of both sides overflow, and what is left hangs on the order.
    together = [] if what == "huge" and summed and len(floats) > 1 else [floats]
    for chosen in together + [[n] for n in floats]:
        filled = [_filled(x, n, what, len(floats) == 1) if n in chosen else x for n, x in enumerate(inputs)]
        row = _attempt(operation, VARIANTS[what], function, filled, options)
        if row is not None:
            return [row]
    return []


def _shapes_of_nothing(inputs, args):
    """The inputs' shapes with an extent of 0, and the shapes among the arguments with it, in every way."""
    for n in sorted({n for x in inputs for n in x.shape}, reverse=True):
        shapes = [[0 if m == n else m for m in x.shape] for x in inputs]
        yield shapes, args
        yield shapes, {k: [0 if m == n else m for m in v] if k in SHAPES else v for k, v in args.items()}
    for nth, x in enumerate(inputs):
        for axis in range(x.dim()):
            shapes = [list(y.shape) for y in inputs]
            shapes[nth][axis] = 0
            yield shapes, args


def _emptied(operation, function, inputs, options):
    """The first row of nothing with elements in its outputs, and the first without."""
    found = {}
    for shapes, args in _shapes_of_nothing(inputs, options):
        if any(0 in s for s in shapes):
            none = [torch.zeros(s, dtype=i.dtype) if 0 in s else i for s, i in zip(shapes, inputs)]
            row = _attempt(operation, "nothing goes in", function, none, args)
            if row is not None:
                found.setdefault(any(o["values"] for o in row["outputs"]), row)
    if True in found:
        found[True]["variant"] += ", something comes out"
    return list(found.values())


def extremes(rows, but=()):
    """Rows with NaN, infinities, zeros of both signs, huge numbers and extents of 0 for each operation of `rows` that
    has none yet, by the call of its fittest row. Not what torch refuses, nor the (operation, variant) in `but`."""
    own = {id(row) for row in rows}
    calls = {}
    for call in _CALLS:
        if id(call[0]) in own:
            calls.setdefault(call[0]["operation"], []).append(call)
    found = []
    for operation, group in calls.items():
        _, function, inputs, options = min(group, key=_fitness)
        if len(inputs) == 1 and inputs[0].dim() == 1:
            inputs = (inputs[0][:7],)
        lacking = _lacking(group)
        for what in VARIANTS:
            found += _varied(what, operation, function, inputs, options) if what in lacking else []
        found += _emptied(operation, function, inputs, options) if "nothing" in lacking else []
    stale = set(but) - {(row["operation"], row["variant"]) for row in found}
    assert not stale, f"there are no rows {stale} to leave out"
    return [row for row in found if (row["operation"], row["variant"]) not in but]
