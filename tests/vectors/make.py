#!/usr/bin/env python3
"""Writes what PyTorch computes to tests/vectors/<family>.jsonl, one line a case.

    make.py             writes every family
    make.py NAME ...    writes these families
    make.py --check     compares what is stored with what this PyTorch computes: inputs and integers exactly,
                        floats within the tolerance of the case

A family is a file make/<family>.py whose ROWS lists cases; make/__init__.py says how one is written.
"""

import importlib
import json
import pathlib
import sys

sys.dont_write_bytecode = True

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
make = importlib.import_module("make")  # the folder, which comes before this file


def families(names):
    known = sorted(p.stem for p in (HERE / "make").glob("*.py") if p.stem != "__init__")
    unknown = [n for n in names if n not in known]
    if unknown:
        sys.exit(f"make.py: no family {', '.join(unknown)}; there are {', '.join(known)}")
    return names or known


def lines(family):
    rows = importlib.import_module(f"make.{family}").ROWS
    seen = set()
    for row in rows:
        key = (row["operation"], row["variant"])
        if key in seen:
            sys.exit(f"make.py: {family} has two rows {key}")
        seen.add(key)
    return rows


def check(family):
    path = HERE / f"{family}.jsonl"
    stored = [json.loads(line) for line in path.read_text().splitlines()]
    found = [json.loads(json.dumps(row)) for row in lines(family)]
    wrong = []
    if [(r["operation"], r["variant"]) for r in stored] != [(r["operation"], r["variant"]) for r in found]:
        return [f"{family}: the stored cases are not those of make/{family}.py; run make.py {family}"]
    for old, new in zip(stored, found):
        name = f"{family}: {old['operation']}, {old['variant']}"
        for key in ("args", "inputs", "within", "near"):
            if old[key] != new[key]:
                wrong.append(f"{name}: {key} {old[key]}, now {new[key]}")
        for n, (a, b) in enumerate(zip(old["outputs"], new["outputs"])):
            if (a["dtype"], a["shape"]) != (b["dtype"], b["shape"]):
                wrong.append(f"{name}: output {n} {a['dtype']}{a['shape']}, now {b['dtype']}{b['shape']}")
                continue
            for at, (x, y) in enumerate(zip(a["values"], b["values"])):
                if not make.same(x, y, old["within"], old["near"]):
                    wrong.append(f"{name}: output {n}, element {at} is stored as {x}, now {y}")
        if len(old["outputs"]) != len(new["outputs"]):
            wrong.append(f"{name}: {len(old['outputs'])} outputs, now {len(new['outputs'])}")
    return wrong


def main(arguments):
    checking = "--check" in arguments
    names = families([a for a in arguments if a != "--check"])
    if not checking:
        for family in names:
            rows = lines(family)
            text = "".join(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n" for row in rows)
            (HERE / f"{family}.jsonl").write_text(text)
            print(f"{family}: {len(rows)} cases, {len(text)} bytes")
        return
    wrong = [what for family in names for what in check(family)]
    stored = {p.stem for p in HERE.glob("*.jsonl")}
    if len(names) > 1 and stored != set(names):
        wrong.append(f"stored families {sorted(stored)}, written ones {names}")
    print("\n".join(wrong) if wrong else f"{len(names)} families are what PyTorch {make.torch.__version__} computes")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
