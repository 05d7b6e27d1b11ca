"""Attention and embedding."""

import torch
import torch.nn.functional as F

from make import INF, case, integers, reals, tensor


def attention(variant, q, k, v, *mask, near=2e-6, **args):
    def function(q, k, v, *mask, **args):
        return F.scaled_dot_product_attention(q, k, v, *mask, **args)

    return case("scaled_dot_product_attention", variant, function, q, k, v, *mask, near=near, **args)


def by_hand(q, k, v, *padding, is_causal=False, window=None, softcap=None):
    """What scaled_dot_product_attention has no option for: keys that are padding, a sliding window, a soft cap."""
    scores = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    back = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
    if is_causal:
        scores = scores.masked_fill((back < 0) | (back >= (window or k.shape[-2])), -INF)
    for mask in padding:
        keys = mask[..., None, None, :]
        scores = scores.masked_fill(keys, -INF) if mask.dtype == torch.bool else scores + keys
    return torch.softmax(scores, -1) @ v


def extended(variant, q, k, v, *padding, near=2e-6, **args):
    return case("scaled_dot_product_attention", variant, by_hand, q, k, v, *padding, near=near, **args)


def padded(variant, *inputs, **args):
    """The fourth input is torch.nn.MultiheadAttention's key_padding_mask."""
    row = extended(variant, *inputs, **args)
    row["args"]["key_padding_mask"] = True
    return row


Q, K, V = reals(2, 3, 4, 5), reals(2, 3, 6, 5, seed=1), reals(2, 3, 6, 2, seed=2)
SQUARE = reals(2, 3, 6, 5, seed=3)
HIDE = tensor([[True, False, True, True, False, True]] * 4, "bool")

ROWS = [
    attention("plain", Q, K, V),
    attention("causal", SQUARE, K, V, is_causal=True),
    attention("causal, fewer queries", Q, K, V, is_causal=True),
    attention("causal, more queries", reals(1, 1, 5, 3), reals(1, 1, 2, 3, seed=1), reals(1, 1, 2, 3, seed=2), is_causal=True),
    attention("a scale", Q, K, V, scale=0.25),
    attention("shared keys", reals(1, 4, 3, 2), reals(1, 2, 5, 2, seed=1), reals(1, 2, 5, 2, seed=2), enable_gqa=True),
    attention("shared keys, causal", reals(1, 6, 5, 2), reals(1, 2, 5, 2, seed=1), reals(1, 2, 5, 2, seed=2), enable_gqa=True, is_causal=True),
    attention("rank 3", reals(2, 4, 5), reals(2, 6, 5, seed=1), reals(2, 6, 3, seed=2)),
    attention("rank 2", reals(4, 5), reals(6, 5, seed=1), reals(6, 3, seed=2)),
    attention("a bool mask", Q, K, V, HIDE),
    attention("a mask that is added", Q, K, V, reals(2, 1, 4, 6, seed=5)),
    attention("a mask with minus infinity", Q, K, V, tensor([[0.0, -INF, 1.0, -INF, 0.5, 0.0]] * 4)),
    attention("a mask of one key row", Q, K, V, tensor([[True, True, False, False, False, True]], "bool")),
    attention("large scores", 100 * reals(1, 1, 3, 4), 100 * reals(1, 1, 3, 4, seed=1), reals(1, 1, 3, 2, seed=2)),
    attention("one key", reals(1, 2, 3, 4), reals(1, 2, 1, 4, seed=1), reals(1, 2, 1, 3, seed=2)),
    attention("no query", reals(1, 2, 0, 4), reals(1, 2, 3, 4), reals(1, 2, 3, 4)),
    attention("bf16", reals(1, 2, 4, 4, dtype="bf16"), reals(1, 2, 4, 4, dtype="bf16", seed=1), reals(1, 2, 4, 4, dtype="bf16", seed=2), near=2e-2),
    attention("f64", reals(1, 2, 4, 4, dtype="f64"), reals(1, 2, 4, 4, dtype="f64", seed=1), reals(1, 2, 4, 4, dtype="f64", seed=2), near=1e-13),
    padded("padded keys", Q, K, V, tensor([[False, False, True, True, False, True], [False] * 5 + [True]], "bool")),
    padded("padded keys, causal", SQUARE, K, V, tensor([[False, True] * 3, [False] * 6], "bool"), is_causal=True),
    padded("padding that is added", Q, K, V, reals(2, 6, seed=6)),
    padded("padded keys, rank 3", reals(2, 4, 5), reals(2, 6, 5, seed=1), reals(2, 6, 3, seed=2), tensor([False, True, False, False, True, True], "bool")),
    padded("every key padded", reals(1, 1, 2, 3), reals(1, 1, 2, 3, seed=1), reals(1, 1, 2, 2, seed=2), tensor([[True, True]], "bool")),
    extended("a window of 1", SQUARE, K, V, is_causal=True, window=1),
    extended("a window of 3", SQUARE, K, V, is_causal=True, window=3),
    extended("a window longer than the keys", SQUARE, K, V, is_causal=True, window=9),
    extended("a soft cap", Q, K, V, softcap=0.75),
    extended("a soft cap, large scores", 100 * reals(1, 1, 3, 4), 100 * reals(1, 1, 3, 4, seed=1), reals(1, 1, 3, 2, seed=2), softcap=2.0),
    extended("a window and a soft cap", SQUARE, K, V, is_causal=True, window=2, softcap=1.5),
    case("embedding", "ids in a matrix", F.embedding, tensor([[3, 0], [3, 1]], "i64"), reals(4, 3), exact=True),
    case("embedding", "i32 ids", F.embedding, tensor([1, 1, 0], "i32"), reals(2, 3), exact=True),
    case("embedding", "one id", F.embedding, tensor(2, "i64"), reals(4, 3), exact=True),
    case("embedding", "no id", F.embedding, tensor([], "i64"), reals(4, 3), exact=True),
    case("embedding", "bf16", F.embedding, tensor([1, 0], "i64"), integers(2, 5, dtype="bf16"), exact=True),
]
