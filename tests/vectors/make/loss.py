"""Losses."""

import torch
import torch.nn.functional as F

from make import INF, NAN, case, extremes, integers, reals, tensor

X, Y = reals(3, 4, seed=1), reals(3, 4, seed=2)
P, Q = torch.sigmoid(X), torch.sigmoid(Y)

ROWS = []
for reduction in ("none", "mean", "sum"):
    options = {"reduction": reduction, "near": 3e-6}
    ROWS += [
        case("mse_loss", reduction, lambda x, y, reduction: F.mse_loss(x, y, reduction=reduction), X, Y, **options),
        case("l1_loss", reduction, lambda x, y, reduction: F.l1_loss(x, y, reduction=reduction), X, Y, **options),
        case("smooth_l1_loss", reduction, lambda x, y, beta, reduction: F.smooth_l1_loss(x, y, beta=beta, reduction=reduction), X, Y, beta=0.75, **options),
        case("huber_loss", reduction, lambda x, y, delta, reduction: F.huber_loss(x, y, delta=delta, reduction=reduction), X, Y, delta=1.5, **options),
        case("binary_cross_entropy", reduction, lambda x, y, reduction: F.binary_cross_entropy(x, y, reduction=reduction), P, Q, **options),
        case("kl_div", reduction, lambda x, y, log_target, reduction: F.kl_div(x, y, reduction=reduction, log_target=log_target), P.log(), Q, log_target=False, **options),
        case("kl_div", f"{reduction}, logarithms", lambda x, y, log_target, reduction: F.kl_div(x, y, reduction=reduction, log_target=log_target), P.log(), Q.log(), log_target=True, **options),
        case("binary_cross_entropy_with_logits", reduction, lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), X, Q, **options),
    ]
ROWS += [
    case("mse_loss", "edges", lambda x, y, reduction: F.mse_loss(x, y, reduction=reduction), tensor([NAN, INF, 1e30, -0.0]), tensor([1.0, INF, 1.0, 0.0]), reduction="none"),
    case("mse_loss", "a wider type of rank 0", lambda x, y, reduction: F.mse_loss(x, y, reduction=reduction), reals(3, dtype="f16"), tensor(0.5, "f64"), reduction="sum", within=1e-3),
    case("l1_loss", "another half of rank 0", lambda x, y, reduction: F.l1_loss(x, y, reduction=reduction), reals(3, dtype="bf16"), tensor(0.5, "f16"), reduction="none"),
    case("mse_loss", "of nothing", lambda x, y, reduction: F.mse_loss(x, y, reduction=reduction), reals(0, 2), reals(0, 2), reduction="mean"),
    case("l1_loss", "f64", lambda x, y, reduction: F.l1_loss(x, y, reduction=reduction), reals(4, dtype="f64"), reals(4, dtype="f64", seed=3), reduction="mean"),
    case("smooth_l1_loss", "beta 0 is l1", lambda x, y, beta, reduction: F.smooth_l1_loss(x, y, beta=beta, reduction=reduction), X, Y, beta=0.0, reduction="none"),
    case("binary_cross_entropy", "edges", lambda x, y, reduction: F.binary_cross_entropy(x, y, reduction=reduction), tensor([0.0, 1.0, 0.0, 1.0, 0.5]), tensor([0.0, 1.0, 1.0, 0.0, 0.25]), reduction="none"),
    case("binary_cross_entropy", "weighted", lambda x, y, w, reduction: F.binary_cross_entropy(x, y, w, reduction=reduction), P, Q, tensor([1.0, 0.5, 0.0, 2.0]), reduction="mean", near=3e-6),
    case("kl_div", "zeros", lambda x, y, log_target, reduction: F.kl_div(x, y, reduction=reduction, log_target=log_target), tensor([-1.0, -2.0]), tensor([0.0, 1.0]), log_target=False, reduction="none"),
    case("binary_cross_entropy_with_logits", "far", lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), tensor([100.0, -100.0, 0.0, 30.0, NAN]), tensor([0.0, 1.0, 0.5, 1.0, 0.0]), reduction="none", near=1e-7),
    case("binary_cross_entropy_with_logits", "weighted", lambda x, y, w, p, reduction: F.binary_cross_entropy_with_logits(x, y, w, pos_weight=p, reduction=reduction), X, Q, tensor([1.0, 0.5, 0.0, 2.0]), tensor([1.0, 3.0, 2.0, 0.5]), reduction="sum", near=3e-6),
]


def cross_entropy(x, target, weight=None, ignore=-100, reduction="mean", smoothing=0.0):
    return F.cross_entropy(x, target, weight=weight, ignore_index=ignore, reduction=reduction, label_smoothing=smoothing)


def nll_loss(x, target, weight=None, ignore=-100, reduction="mean"):
    return F.nll_loss(x, target, weight=weight, ignore_index=ignore, reduction=reduction)


SCORES, TARGET = reals(4, 7, seed=5), tensor([6, 0, 3, 3], "i64")
IMAGE, PIXELS = reals(2, 3, 2, 2, seed=6), integers(2, 2, 2, dtype="i64", least=0, most=2)
WEIGHT = tensor([1.0, 0.5, 0.0, 2.0, 1.0, 3.0, 0.25])
SOFT = torch.softmax(reals(4, 7, seed=8), 1)
NEAR = 3e-6
for reduction in ("none", "mean", "sum"):
    ROWS += [
        case("cross_entropy", f"class numbers, {reduction}", cross_entropy, SCORES, TARGET, reduction=reduction, near=NEAR),
        case("cross_entropy", f"ignored, {reduction}", cross_entropy, SCORES, tensor([-100, 0, -100, 3], "i64"), reduction=reduction, near=NEAR),
        case("cross_entropy", f"weighted and ignored, {reduction}", cross_entropy, SCORES, TARGET, WEIGHT, ignore=0, reduction=reduction, near=NEAR),
        case("cross_entropy", f"smoothed, {reduction}", cross_entropy, SCORES, TARGET, smoothing=0.25, reduction=reduction, near=NEAR),
        case("cross_entropy", f"smoothed, weighted and ignored, {reduction}", cross_entropy, SCORES, TARGET, WEIGHT, smoothing=0.25, ignore=0, reduction=reduction, near=NEAR),
        case("cross_entropy", f"probabilities, {reduction}", cross_entropy, SCORES, SOFT, reduction=reduction, near=NEAR),
        case("cross_entropy", f"probabilities, weighted and smoothed, {reduction}", cross_entropy, SCORES, SOFT, WEIGHT, smoothing=0.1, reduction=reduction, near=NEAR),
        case("cross_entropy", f"more axes, {reduction}", cross_entropy, IMAGE, PIXELS, reduction=reduction, near=NEAR),
        case("nll_loss", f"{reduction}", nll_loss, torch.log_softmax(SCORES, 1), TARGET, reduction=reduction, near=NEAR),
        case("nll_loss", f"weighted and ignored, {reduction}", nll_loss, torch.log_softmax(SCORES, 1), TARGET, WEIGHT, ignore=6, reduction=reduction, near=NEAR),
        case("nll_loss", f"more axes, {reduction}", nll_loss, IMAGE, PIXELS, reduction=reduction, near=NEAR),
    ]
ROWS += [
    case("cross_entropy", "a vector", cross_entropy, reals(5), tensor(2, "i64"), near=NEAR),
    case("cross_entropy", "all ignored", cross_entropy, SCORES, tensor([-100] * 4, "i64")),
    case("cross_entropy", "large scores", cross_entropy, tensor([[1e4, 1e4 + 1, -1e4], [0.0, 1e30, -INF]]), tensor([0, 2], "i64"), reduction="none"),
    case("cross_entropy", "edges", cross_entropy, tensor([[NAN, 1.0], [INF, 1.0], [-INF, 1.0], [-INF, -INF]]), tensor([1, 1, 1, 0], "i64"), reduction="none"),
    case("cross_entropy", "f64", cross_entropy, reals(3, 4, dtype="f64"), tensor([0, 3, 1], "i64")),
    case("cross_entropy", "bf16", cross_entropy, reals(3, 4, dtype="bf16"), tensor([0, 3, 1], "i64"), within=2e-2),
    case("cross_entropy", "probabilities of more axes", cross_entropy, IMAGE, torch.softmax(reals(2, 3, 2, 2, seed=7), 1), near=NEAR),
    case("cross_entropy", "no rows", cross_entropy, reals(0, 3), tensor([], "i64"), reduction="sum"),
    case("cosine_similarity", "rows", lambda x, y, axis, eps: F.cosine_similarity(x, y, axis, eps), X, Y, axis=1, eps=1e-8, near=1e-6),
    case("cosine_similarity", "broadcast", lambda x, y, axis, eps: F.cosine_similarity(x, y, axis, eps), X, reals(4, seed=9), axis=-1, eps=1e-8, near=1e-6),
    case("cosine_similarity", "zeros", lambda x, y, axis, eps: F.cosine_similarity(x, y, axis, eps), tensor([[0.0, 0.0]]), tensor([[1.0, 2.0]]), axis=1, eps=1e-8),
    case("pairwise_distance", "p = 2", lambda x, y, p, eps, keepdim: F.pairwise_distance(x, y, p, eps, keepdim), X, Y, p=2.0, eps=1e-6, keepdim=False),
    case("pairwise_distance", "p = 1, kept", lambda x, y, p, eps, keepdim: F.pairwise_distance(x, y, p, eps, keepdim), X, reals(4, seed=9), p=1.0, eps=1e-6, keepdim=True),
]
ROWS += [
    case("binary_cross_entropy_with_logits", "infinities and -0", lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), tensor([INF, -INF, -0.0, -INF, INF]), tensor([0.0, 1.0, -0.0, 0.0, 1.0]), reduction="none"),
    case("binary_cross_entropy_with_logits", "infinities half true", lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), tensor([INF, -INF]), tensor([0.5, 0.5]), reduction="none"),
]
ROWS.append(case("binary_cross_entropy", "weights of every kind", lambda x, y, w, reduction: F.binary_cross_entropy(x, y, w, reduction=reduction), tensor([0.5, 0.25, -0.0, 1.0, 0.75]), tensor([0.5, -0.0, 1.0, 0.5, 0.125]), tensor([NAN, INF, -0.0, 1e30, 2.0]), reduction="none"))
ROWS += extremes(ROWS)
