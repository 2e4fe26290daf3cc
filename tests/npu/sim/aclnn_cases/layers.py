"""Products of matrices, and the layers of models."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from aclnn_cases.maker import FLOATS, Case, cube, image, pair

CASES: dict[str, Case] = {}

CASES |= {
    "mm": Case(torch.mm, lambda m: (m(3, 4), m(4, 5))),
    "mm turned": Case(torch.mm, lambda m: (m.turned(3, 4), m.turned(4, 5))),
    "mm cut": Case(torch.mm, lambda m: (m.cut(3, 4), m(4, 5))),
    "mm empty": Case(torch.mm, lambda m: (m(0, 4), m(4, 5))),
    "matmul 3": Case(torch.matmul, lambda m: (m(2, 3, 4), m(4, 5))),
    "matmul 4": Case(torch.matmul, lambda m: (m(2, 2, 3, 4), m(2, 2, 4, 3))),
    "matmul vector": Case(torch.matmul, lambda m: (m(3, 4), m(4))),
    "bmm": Case(torch.bmm, lambda m: (m(2, 3, 4), m.turned(2, 4, 5))),
    "mv": Case(torch.mv, lambda m: (m(3, 4), m(4))),
    "dot": Case(torch.dot, lambda m: (m(4), m(4))),
    "addmm": Case(
        lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), lambda m: (m(5), m(3, 4), m(4, 5))
    ),
    "addmm_": Case(
        lambda c, x, y: c.addmm_(x, y, beta=0.5, alpha=2), lambda m: (m(3, 5), m(3, 4), m(4, 5))
    ),
    "baddbmm": Case(
        lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=2),
        lambda m: (m(2, 3, 5), m(2, 3, 4), m(2, 4, 5)),
    ),
    "baddbmm_": Case(
        lambda c, x, y: c.baddbmm_(x, y), lambda m: (m(2, 3, 5), m(2, 3, 4), m(2, 4, 5))
    ),
    "addbmm": Case(torch.addbmm, lambda m: (m(3, 5), m(2, 3, 4), m(2, 4, 5)), ("float32",)),
    "addmv": Case(torch.addmv, lambda m: (m(3), m(3, 4), m(4)), ("float32",)),
    "addr": Case(torch.addr, lambda m: (m(3, 4), m(3), m(4)), ("float32",)),
    "addr_": Case(lambda c, x, y: c.addr_(x, y), lambda m: (m(3, 4), m(3), m(4)), ("float32",)),
    "linear": Case(F.linear, lambda m: (m(2, 3, 4), m(5, 4), m(5))),
    "linear no bias": Case(F.linear, lambda m: (m(2, 3, 4), m(5, 4))),
    "linear one": Case(F.linear, lambda m: (m(4), m(5, 4), m(5))),
    "bilinear": Case(F.bilinear, lambda m: (m(3, 4), m(3, 5), m(2, 4, 5), m(2)), ("float32",)),
    "einsum": Case(
        lambda x, y: torch.einsum("bij,bjk->bik", x, y), lambda m: (m(2, 3, 4), m(2, 4, 5))
    ),
    "conv1d": Case(
        lambda x, w, b: F.conv1d(x, w, b, padding=1), lambda m: (m(2, 3, 8), m(4, 3, 3), m(4))
    ),
    "conv2d": Case(
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
        lambda m: (m(2, 3, 6, 8), m(4, 3, 3, 3), m(4)),
    ),
    "conv2d groups": Case(
        lambda x, w: F.conv2d(x, w, groups=2, dilation=2), lambda m: (m(2, 4, 6, 8), m(4, 2, 2, 2))
    ),
    "conv2d depthwise": Case(
        lambda x, w: F.conv2d(x, w, groups=4), lambda m: (m(2, 4, 6, 8), m(4, 1, 3, 3))
    ),
    "conv3d": Case(F.conv3d, lambda m: (m(1, 2, 4, 4, 4), m(3, 2, 2, 2, 2), m(3)), ("float32",)),
    "conv_transpose2d": Case(
        lambda x, w: F.conv_transpose2d(x, w, stride=2), lambda m: (m(2, 3, 4, 4), m(3, 2, 3, 3))
    ),
}

CASES |= {
    "layer_norm": Case(
        lambda x, w, b: F.layer_norm(x, (4,), w, b), lambda m: (m(2, 3, 4), m(4), m(4))
    ),
    "layer_norm plain": Case(lambda x: F.layer_norm(x, (3, 4)), cube),
    "rms_norm": Case(lambda x, w: F.rms_norm(x, (4,), w, 1e-6), lambda m: (m(2, 3, 4), m(4))),
    "group_norm": Case(
        lambda x, w, b: F.group_norm(x, 2, w, b), lambda m: (m(2, 4, 3, 3), m(4), m(4))
    ),
    "instance_norm": Case(F.instance_norm, image),
    "batch_norm": Case(
        F.batch_norm,
        lambda m: (m(6, 4), m(4), m.positive(4), m(4), m(4)),
    ),
    "batch_norm 2d": Case(F.batch_norm, lambda m: (m(2, 3, 4, 4), m(3), m.positive(3))),
    "batch_norm training": Case(
        lambda x, a, v: (F.batch_norm(x, a, v, training=True), a, v),
        lambda m: (m(6, 4), m(4), m.positive(4)),
        ("float32",),
    ),
    "avg_pool1d": Case(lambda x: F.avg_pool1d(x, 2), cube),
    "avg_pool2d": Case(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), image),
    "max_pool1d": Case(lambda x: F.max_pool1d(x, 2), cube),
    "max_pool2d": Case(lambda x: F.max_pool2d(x, 3, 2, 1), image),
    "adaptive_avg_pool1d": Case(lambda x: F.adaptive_avg_pool1d(x, 2), cube),
    "adaptive_avg_pool2d": Case(lambda x: F.adaptive_avg_pool2d(x, (2, 3)), image),
    "adaptive_avg_pool2d one": Case(lambda x: F.adaptive_avg_pool2d(x, 1), image),
    "adaptive_max_pool2d": Case(lambda x: F.adaptive_max_pool2d(x, (2, 3)), image, ("float32",)),
    "interpolate nearest": Case(lambda x: F.interpolate(x, scale_factor=2), image),
    "interpolate bilinear": Case(
        lambda x: F.interpolate(x, size=(5, 7), mode="bilinear"), image, loose=1e-3
    ),
    "pixel_shuffle": Case(lambda x: F.pixel_shuffle(x, 2), lambda m: (m(1, 4, 2, 2),), FLOATS),
    "channel_shuffle": Case(
        lambda x: F.channel_shuffle(x, 2), lambda m: (m(1, 4, 2, 2),), ("float32",)
    ),
    "sdpa": Case(
        F.scaled_dot_product_attention,
        lambda m: (m(2, 2, 5, 8), m(2, 2, 5, 8), m(2, 2, 5, 8)),
        loose=1e-3,
    ),
    "sdpa causal": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda m: (m(2, 2, 5, 8), m(2, 2, 5, 8), m(2, 2, 5, 8)),
        loose=1e-3,
    ),
    "sdpa mask": Case(
        F.scaled_dot_product_attention,
        lambda m: (
            m(2, 2, 5, 8),
            m(2, 2, 6, 8),
            m(2, 2, 6, 8),
            torch.ones(2, 1, 5, 6, dtype=torch.bool).tril(1),
        ),
        loose=1e-3,
    ),
    "sdpa bias": Case(
        F.scaled_dot_product_attention,
        lambda m: (m(2, 2, 5, 8), m(2, 2, 6, 8), m(2, 2, 6, 8), m(2, 1, 5, 6)),
        loose=1e-3,
    ),
    "sdpa gqa": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        lambda m: (m(2, 4, 5, 8), m(2, 2, 5, 8), m(2, 2, 5, 8)),
        loose=1e-3,
    ),
    "sdpa one query": Case(
        F.scaled_dot_product_attention,
        lambda m: (m(2, 2, 1, 8), m(2, 2, 5, 8), m(2, 2, 5, 8)),
        loose=1e-3,
    ),
    "dropout eval": Case(lambda x: F.dropout(x, 0.5, training=False)),
    "cosine_similarity": Case(F.cosine_similarity, pair),
    "mse_loss": Case(F.mse_loss, pair),
    "l1_loss": Case(F.l1_loss, pair),
    "smooth_l1_loss": Case(F.smooth_l1_loss, pair),
    "kl_div": Case(lambda x, y: F.kl_div(x, y, reduction="sum"), lambda m: (m(3, 4), m.unit(3, 4))),
    "binary_cross_entropy": Case(F.binary_cross_entropy, lambda m: (m.unit(3, 4), m.unit(3, 4))),
    "binary_cross_entropy_with_logits": Case(
        F.binary_cross_entropy_with_logits, lambda m: (m(3, 4), m.unit(3, 4))
    ),
    "nll_loss": Case(F.nll_loss, lambda m: (m(3, 4), m.index(4, 3))),
    "cross_entropy": Case(F.cross_entropy, lambda m: (m(3, 4), m.index(4, 3))),
    "cross_entropy ignore": Case(
        lambda x, t: F.cross_entropy(x, t, ignore_index=1, reduction="sum"),
        lambda m: (m(3, 4), m.index(4, 3)),
    ),
}
