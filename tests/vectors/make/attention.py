"""Attention and embedding."""

import torch
import torch.nn.functional as F

from make import INF, NAN, case, extremes, integers, reals, tensor


def attention(variant, q, k, v, *mask, near=2e-6, **args):
    def function(q, k, v, *mask, **args):
        return F.scaled_dot_product_attention(q, k, v, *mask, **args)

    return case("scaled_dot_product_attention", variant, function, q, k, v, *mask, near=near, **args)


def spelled_out(q, k, v, *fourth, fourth_is=None, window=None, softcap=None, is_causal=False):
    """Attention with what torch's function has not, step by step."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    query, key = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None, :]
    hidden = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool)
    if is_causal:
        hidden |= key > query
    if window is not None:
        hidden |= key <= query - window
    if fourth_is == "offsets":
        hidden |= torch.searchsorted(fourth[0], query, right=True) != torch.searchsorted(fourth[0], key, right=True)
    scores = scores.masked_fill(hidden, -INF)
    if fourth_is == "key_padding_mask":
        padding = fourth[0][..., None, None, :]
        scores = scores.masked_fill(padding, -INF) if padding.dtype == torch.bool else scores + padding
    return torch.nan_to_num(torch.softmax(scores, -1), 0.0) @ v


def beyond(variant, q, k, v, *fourth, near=2e-6, **args):
    def function(q, k, v, *rest, fourth=None, **args):
        return spelled_out(q, k, v, *rest, fourth_is=fourth, **args)

    return case("scaled_dot_product_attention", variant, function, q, k, v, *fourth, near=near, **args)


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
    attention("a query that sees no key", Q, K, V, tensor([[True] * 6, [False] * 6, [True] + [False] * 5, [False] * 6], "bool")),
    attention("no key", reals(1, 2, 3, 4), reals(1, 2, 0, 4), reals(1, 2, 0, 5)),
    beyond("a window of 1", SQUARE, K, V, is_causal=True, window=1),
    beyond("a window of 3", SQUARE, K, V, is_causal=True, window=3),
    beyond("a window longer than the keys", reals(1, 1, 4, 3), reals(1, 1, 4, 3, seed=1), reals(1, 1, 4, 2, seed=2), is_causal=True, window=9),
    beyond("a soft cap", Q, K, V, softcap=0.75),
    beyond("a soft cap, large scores", 100 * reals(1, 1, 3, 4), 100 * reals(1, 1, 3, 4, seed=1), reals(1, 1, 3, 2, seed=2), softcap=2.0),
    beyond("a window and a soft cap", SQUARE, K, V, is_causal=True, window=2, softcap=1.5),
    beyond("packed", SQUARE, K, V, tensor([0, 1, 4], "i64"), fourth="offsets"),
    beyond("packed and causal, an empty sequence", SQUARE, K, V, tensor([0, 2, 2, 5], "i64"), fourth="offsets", is_causal=True),
    beyond("packed, one sequence", reals(1, 2, 3, 4), reals(1, 2, 3, 4, seed=1), reals(1, 2, 3, 4, seed=2), tensor([0], "i32"), fourth="offsets"),
    beyond("padded keys, all of one row's", Q, K, V, tensor([[False] * 4 + [True] * 2, [True] * 6], "bool"), fourth="key_padding_mask"),
    beyond("padded keys, causal", SQUARE, K, V, tensor([[False, True] * 3, [False] * 6], "bool"), fourth="key_padding_mask", is_causal=True),
    beyond("padding that is added, causal", SQUARE, K, V, reals(2, 6, seed=8), fourth="key_padding_mask", is_causal=True),
    beyond("padded keys, rank 3", reals(2, 4, 5), reals(2, 6, 5, seed=1), reals(2, 6, 3, seed=2), tensor([False, True, False, False, True, True], "bool"), fourth="key_padding_mask"),
    case("embedding", "ids in a matrix", F.embedding, tensor([[3, 0], [3, 1]], "i64"), reals(4, 3), exact=True),
    case("embedding", "i32 ids", F.embedding, tensor([1, 1, 0], "i32"), reals(2, 3), exact=True),
    case("embedding", "one id", F.embedding, tensor(2, "i64"), reals(4, 3), exact=True),
    case("embedding", "no id", F.embedding, tensor([], "i64"), reals(4, 3), exact=True),
    case("embedding", "bf16", F.embedding, tensor([1, 0], "i64"), integers(2, 5, dtype="bf16"), exact=True),
]
FEW = [reals(1, 2, 2), reals(1, 3, 2, seed=1)]
ROWS += [
    attention("huge values", *FEW, tensor([[[1e30, 2.0], [-1e34, -1.0], [0.5, 3e38]]])),
    attention("NaN, an infinity and -0 among the values", *FEW, tensor([[[1.0, INF, -0.0], [0.5, 2.0, -0.0], [NAN, 3.0, -0.0]]])),
]
ROWS += extremes(ROWS)
