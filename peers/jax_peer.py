"""The workloads in JAX on the CPU, compiled by jax.jit. See values.py for how it is spoken to."""
import os

import values

ASKED = values.options(["jit"])
if ASKED.threads == 1:
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import math

import jax
import jax.numpy as jnp
from jax import lax

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}


def norm(x, weight):
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(x.dtype) * weight


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos[:, None] + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * sin[:, None]


def project(x, weight, heads):
    batch, tokens, _ = x.shape
    return (x @ weight.T).reshape(batch, tokens, heads, -1)


def attend(q, k, v, causal):
    """[batch, tokens, heads, size]; query heads share key heads in order."""
    batch, tokens, heads, size = q.shape
    keys, kv = k.shape[1], k.shape[2]
    q = q.reshape(batch, tokens, kv, heads // kv, size)
    scores = jnp.einsum("bqhgd,bkhd->bhgqk", q, k, preferred_element_type=jnp.float32) / math.sqrt(size)
    if causal:
        scores = jnp.where(jnp.arange(tokens)[:, None] >= jnp.arange(keys)[None], scores, -jnp.inf)
    weights = jax.nn.softmax(scores, -1).astype(v.dtype)
    return jnp.einsum("bhgqk,bkhd->bqhgd", weights, v).reshape(batch, tokens, heads, size)


def feed_forward(w, x):
    n = norm(x, w["norm2"])
    return x + (jax.nn.silu(n @ w["gate"].T) * (n @ w["up"].T)) @ w["down"].T


def block(load, work):
    features, heads, kv, hidden = work.sizes(1)
    weights = {name: load(value) for name, value in values.block_weights(features, heads, kv, hidden).items()}
    batch, length = work.pair()
    size = features // heads
    if work.decode:
        x = load(values.given("x", batch, 1, features))
        cos, sin = (load(table) for table in values.rotation(size, length, 1))
        room = lambda past: jnp.pad(past.transpose(0, 2, 1, 3), ((0, 0), (0, 1), (0, 0), (0, 0)))
        caches = [room(load(values.given(f"past.0.{what}", batch, kv, length, size))) for what in ("keys", "values")]

        def step(w, x, keys, stored, cos, sin):
            n = norm(x, w["norm1"])
            q, k, v = project(n, w["q"], heads), project(n, w["k"], kv), project(n, w["v"], kv)
            keys = lax.dynamic_update_slice_in_dim(keys, rotate(k, cos, sin), length, 1)
            stored = lax.dynamic_update_slice_in_dim(stored, v, length, 1)
            o = attend(rotate(q, cos, sin), keys, stored, False).reshape(x.shape)
            return feed_forward(w, x + o @ w["o"].T), keys, stored

        # The caches are donated, so that the new token is written where they lie.
        function = jax.jit(step, donate_argnums=(2, 3))
        last = []

        def run():
            out, caches[0], caches[1] = function(weights, x, *caches, cos, sin)
            jax.block_until_ready((out, caches))
            last[:] = [out]

        return run, lambda: last
    x = load(values.given("x", batch, length, features))
    cos, sin = (load(table) for table in values.rotation(size, 0, length))

    def layer(w, x, cos, sin):
        n = norm(x, w["norm1"])
        q, k, v = project(n, w["q"], heads), project(n, w["k"], kv), project(n, w["v"], kv)
        o = attend(rotate(q, cos, sin), rotate(k, cos, sin), v, True).reshape(x.shape)
        return feed_forward(w, x + o @ w["o"].T)

    return jitted(layer, (weights, x, cos, sin))


def jitted(function, arguments):
    function, last = jax.jit(function), []

    def run():
        last[:] = [function(*arguments).block_until_ready()]

    return run, lambda: last


def make(request):
    if "folder" in request:
        raise ValueError("JAX's side runs no Hugging Face folder")
    work = values.Workload(request["workload"])
    if work.dtype not in DTYPES:
        raise ValueError(f"JAX's side has no {work.dtype}")
    load = lambda array: jnp.asarray(array, DTYPES[work.dtype])
    if work.name == "block":
        return block(load, work)
    if work.name == "attention":
        heads, kv, size = work.sizes(1)
        batch, tokens = work.pair()
        q = load(values.given("q", batch, heads, tokens, size))
        k, v = (load(values.given(name, batch, kv, tokens, size)) for name in "kv")
        # JAX's order of axes inside, the other side's at the border: the transposes of q, k and v are not timed.
        q, k, v = (jnp.asarray(t.transpose(0, 2, 1, 3)) for t in (q, k, v))
        run, last = jitted(lambda q, k, v: attend(q, k, v, work.causal), (q, k, v))
        return run, lambda: [out.transpose(0, 2, 1, 3) for out in last()]
    if work.name == "chain":
        matrices, multiply = values.chain(work.words[0], int(work.words[1]))
        return jitted(lambda *matrices: multiply(list(matrices)), tuple(load(matrix) for matrix in matrices))
    if work.name == "gemm":
        m, n, k = work.sizes()
        return jitted(jnp.matmul, (load(values.given("a", m, k)), load(values.given("b", k, n))))
    if work.name == "ffnn":
        inside, hidden, outside, batch = work.sizes()
        first, second = values.parameter("0.weight", hidden, inside), values.parameter("2.weight", outside, hidden)
        net = lambda x, first, second: jax.nn.relu(x @ first.T) @ second.T
        return jitted(net, (load(values.given("x", batch, inside)), load(first), load(second)))
    if work.name == "conv":
        batch, channels = int(work.words[0]), int(work.words[1])
        height, width = (int(size) for size in work.words[2].split("x"))
        out, kernel = int(work.words[3]), int(work.words[4])
        x = load(values.given("x", batch, channels, height, width))
        weight = load(values.parameter("weight", out, channels, kernel, kernel))
        return jitted(lambda x, weight: lax.conv(x, weight, (1, 1), "SAME"), (x, weight))
    raise ValueError(f"JAX's side has no workload `{work.name}`")


values.serve(jax.__version__, make)
