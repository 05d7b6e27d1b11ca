"""What both sides of a comparison share: the same numbers, the same names, the same clock.

A peer is a process. It reads one line of JSON that says what to compute, prints one line that says how the result looks,
and then, for every line with a number, runs so many times and prints the seconds of each run. So two peers can be
timed in turns while both stay warm. Seconds are the host's, unless a peer tells its own.
"""
import argparse
import json
import math
import os
import sys
import time

import numpy as np

MASK = (1 << 64) - 1


def _mix(x):
    """The finaliser of SplitMix64, on arrays of uint64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def key_of(name):
    """What tells the numbers of one name from another's: 64 bits."""
    key = 0xCBF29CE484222325
    with np.errstate(over="ignore"):
        for byte in name.encode():
            key = int(_mix(np.uint64(key ^ byte)))
    return key


def _uniform(name, first, last):
    """Numbers in -1..1 at some positions, functions of the name and the position alone."""
    with np.errstate(over="ignore"):
        bits = _mix(np.uint64(key_of(name)) ^ _mix(np.arange(first, last, dtype=np.uint64)))
    return (bits >> np.uint64(11)).astype(np.float64) / float(1 << 52) - 1.0


def scaled(name, count, scale, offset):
    """`count` numbers around an offset, as f32: a peer may put a function in the place of this one that makes the same on
    its device, where that is quicker."""
    # In parts that caches hold.
    part = 1 << 16
    out = np.empty(count, np.float32)
    for first in range(0, count, part):
        last = min(first + part, count)
        out[first:last] = offset + scale * _uniform(name, first, last)
    return out


def parameter(name, *shape):
    """A weight: vectors near one, matrices with a variance of one over the elements of a row."""
    count = math.prod(shape)
    if len(shape) < 2:
        return scaled(name, count, 0.1, 1.0).reshape(shape)
    return scaled(name, count, math.sqrt(3.0 / math.prod(shape[1:])), 0.0).reshape(shape)


def given(name, *shape):
    """An input, or the cache of a decoder: a variance of one."""
    return scaled(name, math.prod(shape), math.sqrt(3.0), 0.0).reshape(shape)


class Workload:
    """A line such as `block:8x128,1024,8,8,2816` or `attention:1x1024,8,8,64,causal`."""

    def __init__(self, line):
        self.name, _, rest = line.partition(":")
        self.words = [word.strip() for word in rest.split(",") if word.strip()]
        self.dtype = "f32"
        if self.words and self.words[-1] in ("f32", "bf16", "f16", "f64"):
            self.dtype = self.words.pop()
        self.causal = "causal" in self.words
        self.words = [word for word in self.words if word != "causal"]
        self.decode = bool(self.words) and self.words[0].startswith("decode=")

    def pair(self):
        """Batch and sequence, or batch and length of the cache."""
        first, second = self.words[0].removeprefix("decode=").split("x")
        return int(first), int(second)

    def sizes(self, start=0):
        return [int(word) for word in self.words[start:]]


LAYER = "model.layers.0."


def block_weights(features, heads, kv, hidden):
    """The weights of one decoder layer, as the other side names them: [out, in]."""
    size = features // heads
    of = lambda name, *shape: parameter(LAYER + name + ".weight", *shape)
    return {
        "norm1": of("input_layernorm", features),
        "q": of("self_attn.q_proj", features, features),
        "k": of("self_attn.k_proj", kv * size, features),
        "v": of("self_attn.v_proj", kv * size, features),
        "o": of("self_attn.o_proj", features, features),
        "norm2": of("post_attention_layernorm", features),
        "gate": of("mlp.gate_proj", hidden, features),
        "up": of("mlp.up_proj", hidden, features),
        "down": of("mlp.down_proj", features, hidden),
    }


def rotation(size, start, count):
    """Cosines and sines of positions start.. for heads of `size` features, halves rotated."""
    inverse = 10000.0 ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    angles = np.outer(np.arange(start, start + count, dtype=np.float64), inverse)
    both = lambda table: np.concatenate([table, table], -1).astype(np.float32)
    return both(np.cos(angles)), both(np.sin(angles))


CHAINS = {
    "skewed": [16, 64, 4, 32, 8, 64, 16, 4, 16],
    "outer": [16, 1, 16, 1, 16, 1, 16, 1, 16],
    "inner": [1, 16, 1, 16, 1, 16, 1, 16, 1],
}


def chain(shape, n):
    """The matrices of a chain, and the function that multiplies them in its order."""
    def bushy(level):
        while len(level) > 1:
            level = [level[i] @ level[i + 1] for i in range(0, len(level), 2)]
        return level[0]

    def left(matrices):
        product = matrices[0]
        for matrix in matrices[1:]:
            product = product @ matrix
        return product

    def right(matrices):
        product = matrices[-1]
        for matrix in matrices[-2::-1]:
            product = matrix @ product
        return product

    def zigzag(matrices):
        product = matrices[3] @ matrices[4]
        for step in range(1, 4):
            product = product @ matrices[4 + step]
            product = matrices[3 - step] @ product
        return product

    def power(matrices):
        product = matrices[0]
        for _ in range(3):
            product = product @ product
        return product

    orders = {"bushy": bushy, "left": left, "right": right, "zigzag": zigzag, "skewed": left, "outer": bushy,
              "inner": bushy, "power": power}
    sizes = [max(n * part // 16, 1) for part in CHAINS.get(shape, [16] * 9)]
    names = "A" if shape == "power" else "ABCDEFGH"
    return [given(name, sizes[i], sizes[i + 1]) for i, name in enumerate(names)], orders[shape]


def figures(array):
    """Two numbers that tell results apart: the sum of sizes, and a sum with signs that depend on the place."""
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    weights = (np.arange(flat.size, dtype=np.int64) * 7919 % 101 - 50) / 50.0
    return [float(np.abs(flat).sum()), float((flat * weights).sum())]


def options(modes, devices=("cpu",)):
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--device", choices=devices, default=devices[0])
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[: asked.threads]
        os.sched_setaffinity(0, set(cores))
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"):
        os.environ[variable] = str(asked.threads)
    return asked


def serve(version, make):
    """Answers on standard output: `make(request)` returns a function that runs once, and gives the seconds if it has a
    better clock than the host's, and one that gives its result."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def say(**answer):
        out.write(json.dumps(answer) + "\n")
        out.flush()

    try:
        run, result = make(json.loads(sys.stdin.readline()))
        start = time.perf_counter()
        run()
        first = time.perf_counter() - start
        say(version=version, first_seconds=first, figures=[figures(array) for array in result()])
        for line in sys.stdin:
            seconds = []
            for _ in range(int(line)):
                start = time.perf_counter()
                told = run()
                seconds.append(time.perf_counter() - start if told is None else told)
            say(seconds=seconds)
    except Exception as error:  # the other side prints it
        say(error=f"{type(error).__name__}: {error}")
        raise SystemExit(1)
