"""The workloads in PyTorch on the CPU or on one GPU: eager, or compiled by torch.compile. See values.py for how it is
spoken to."""
import values

ASKED = values.options(["eager", "compile"], ["cpu", "cuda"])

import math
import time

import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(ASKED.threads)
torch.set_grad_enabled(False)
ON_GPU = ASKED.device == "cuda"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}


def _mixed(x):
    """The finaliser of SplitMix64 on int64, whose sums and products wrap as those of uint64 do."""
    signed = lambda n: n - (1 << 64) if n >> 63 else n
    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ _shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shifted(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ _shifted(x, 31)


def _shifted(x, bits):
    """To the right, without the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def scaled(name, count, scale, offset):
    """What `values.scaled` makes, on the device: a processor takes a minute for the weights of a large layer."""
    key, part = values.key_of(name), 1 << 26
    key = torch.tensor(key - (1 << 64) if key >> 63 else key, device=ASKED.device)
    out = torch.empty(count, dtype=torch.float32, device=ASKED.device)
    for first in range(0, count, part):
        last = min(first + part, count)
        bits = _mixed(key ^ _mixed(torch.arange(first, last, device=ASKED.device)))
        out[first:last] = offset + scale * (_shifted(bits, 11).to(torch.float64) / float(1 << 52) - 1.0)
    return out


if ON_GPU:
    values.scaled = scaled


def norm(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def project(x, weight, heads):
    batch, tokens, _ = x.shape
    return F.linear(x, weight).view(batch, tokens, heads, -1).transpose(1, 2)


def attend(q, k, v, causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def settle(function, arguments):
    """Leaves attention to the quickest of PyTorch's kernels that take it, on a GPU."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def seconds(backend):
        with sdpa_kernel(backend):
            for rounds in (3, 10):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(rounds):
                    function(*arguments)
                torch.cuda.synchronize()
            return time.perf_counter() - start

    found = {}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        try:
            found[backend] = seconds(backend)
        except RuntimeError:
            pass
    if found:
        # For the whole process: entered for each call, it would count as time of the kernel.
        sdpa_kernel(min(found, key=found.get)).__enter__()


def feed_forward(w, x):
    n = norm(x, w["norm2"])
    return x + F.linear(F.silu(F.linear(n, w["gate"])) * F.linear(n, w["up"]), w["down"])


def block(load, work):
    features, heads, kv, hidden = work.sizes(1)
    weights = {name: load(value) for name, value in values.block_weights(features, heads, kv, hidden).items()}
    batch, length = work.pair()
    if work.decode:
        size = features // heads
        x = load(values.given("x", batch, 1, features))
        cos, sin = (load(table) for table in values.rotation(size, length, 1))
        # The new token has its place behind the cache, so that nothing is copied.
        caches = []
        for what in ("keys", "values"):
            past = load(values.given(f"past.0.{what}", batch, kv, length, size))
            caches.append(torch.cat([past, past.new_zeros(batch, kv, 1, size)], 2))

        def step(w, x, keys, stored, cos, sin):
            n = norm(x, w["norm1"])
            q, k, v = project(n, w["q"], heads), project(n, w["k"], kv), project(n, w["v"], kv)
            keys[:, :, -1:] = rotate(k, cos, sin)
            stored[:, :, -1:] = v
            o = attend(rotate(q, cos, sin), keys, stored, False).transpose(1, 2).reshape(x.shape)
            return feed_forward(w, x + F.linear(o, w["o"]))

        return step, (weights, x, *caches, cos, sin)
    x = load(values.given("x", batch, length, features))
    cos, sin = (load(table) for table in values.rotation(features // heads, 0, length))

    def layer(w, x, cos, sin):
        n = norm(x, w["norm1"])
        q, k, v = project(n, w["q"], heads), project(n, w["k"], kv), project(n, w["v"], kv)
        o = attend(rotate(q, cos, sin), rotate(k, cos, sin), v, True).transpose(1, 2).reshape(x.shape)
        return feed_forward(w, x + F.linear(o, w["o"]))

    return layer, (weights, x, cos, sin)


def encoder(request):
    """A folder of an encoder by transformers: hidden states, pooled and of length one where the folder says so."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(request["folder"], dtype=torch.float32).eval().to(ASKED.device)
    shape = request["batch"], request["sequence"]
    ids = torch.tensor(request["ids"]).view(shape).to(ASKED.device)
    mask = torch.tensor(request["mask"]).view(shape).to(ASKED.device)

    def embed(ids, mask):
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        kept = mask[..., None].to(hidden.dtype)
        pooled = (hidden * kept).sum(1) / kept.sum(1)
        return F.normalize(pooled, dim=-1)

    return embed, (ids, mask)


def prepared(request):
    if "folder" in request:
        return encoder(request)
    work = values.Workload(request["workload"])
    tensor = lambda array: array if torch.is_tensor(array) else torch.from_numpy(np.ascontiguousarray(array))
    load = lambda array: tensor(array).to(DTYPES[work.dtype]).to(ASKED.device)
    if work.name == "block":
        return block(load, work)
    if work.name == "attention":
        heads, kv, size = work.sizes(1)
        batch, tokens = work.pair()
        q = load(values.given("q", batch, heads, tokens, size))
        k, v = (load(values.given(name, batch, kv, tokens, size)) for name in "kv")
        function = lambda q, k, v: attend(q, k, v, work.causal)
        if ON_GPU:
            settle(function, (q, k, v))
        return function, (q, k, v)
    if work.name == "chain":
        matrices, multiply = values.chain(work.words[0], int(work.words[1]))
        return (lambda *matrices: multiply(list(matrices))), tuple(load(matrix) for matrix in matrices)
    if work.name == "gemm":
        m, n, k = work.sizes()
        return torch.matmul, (load(values.given("a", m, k)), load(values.given("b", k, n)))
    if work.name == "ffnn":
        inside, hidden, outside, batch = work.sizes()
        first, second = values.parameter("0.weight", hidden, inside), values.parameter("2.weight", outside, hidden)
        net = lambda x, first, second: F.linear(F.relu(F.linear(x, first)), second)
        return net, (load(values.given("x", batch, inside)), load(first), load(second))
    if work.name == "conv":
        batch, channels = int(work.words[0]), int(work.words[1])
        height, width = (int(size) for size in work.words[2].split("x"))
        out, kernel = int(work.words[3]), int(work.words[4])
        x = load(values.given("x", batch, channels, height, width))
        weight = load(values.parameter("weight", out, channels, kernel, kernel))
        return (lambda x, weight: F.conv2d(x, weight, padding="same")), (x, weight)
    raise ValueError(f"PyTorch's side has no workload `{work.name}`")


def make(request):
    function, arguments = prepared(request)
    if ASKED.mode == "compile":
        function = torch.compile(function, dynamic=False)
    last = []

    def run():
        last[:] = [function(*arguments)]

    def run_between_events():
        # As our side is timed: by the GPU's clock, from before the first call to the end of the last.
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    return run_between_events if ON_GPU else run, lambda: [last[0].to(torch.float64).cpu().numpy()]


values.serve(torch.__version__, make)
