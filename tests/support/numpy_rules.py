"""numpy_rules.py - rules and selection once more, in numpy and in double: what ours are compared with.

Written from the formulas of the cited papers and of rules/*.c, for one layer: queries [H, n, d], keys
and values [G, n, d] after rotary embedding. SPDX-License-Identifier: MIT
"""
import numpy as np


def attention(queries, keys, scale):
    """Causal probabilities of the last t queries: [H, t, n]."""
    heads, t, _ = queries.shape
    n = keys.shape[1]
    keys = np.repeat(keys, heads // keys.shape[0], 0)
    logits = np.einsum("hid,hjd->hij", queries, keys) * scale
    i, j = np.arange(n - t, n)[:, None], np.arange(n)[None]
    logits = np.where(j <= i, logits, -np.inf)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def to_kv_heads(x, kv_heads):
    return x.reshape(kv_heads, -1, x.shape[-1]).mean(1)


def snapkv(q, k, scale, window, kernel=5):
    """(scores [G, n - window], entries without one)"""
    rows = attention(q, k, scale)[:, -window:].mean(1)[:, :-window]
    padded = np.pad(rows, ((0, 0), (kernel // 2, kernel // 2)))
    pooled = np.stack([padded[:, i:i + rows.shape[1]] for i in range(kernel)]).sum(0) / kernel
    return to_kv_heads(pooled, k.shape[0]), window


def tova(q, k, scale):
    row = attention(q, k, scale)[:, -1].mean(0)[:-1]
    return np.repeat(row[None], k.shape[0], 0), 1


def knorm(q, k, scale):
    return -np.linalg.norm(k, axis=-1), 0


def keydiff(q, k, scale):
    unit = k / np.linalg.norm(k, axis=-1, keepdims=True)
    anchor = unit.mean(1)
    anchor /= np.linalg.norm(anchor, axis=-1, keepdims=True)
    return -np.einsum("gjd,gd->gj", unit, anchor), 0


def streaming_llm(q, k, scale):
    return np.repeat(np.arange(k.shape[1], dtype=float)[None], k.shape[0], 0), 0


def observed_attention(q, k, scale):
    n = k.shape[1]
    return to_kv_heads(attention(q, k, scale).sum(1) / (n - np.arange(n)), k.shape[0]), 0


def select(scores, unscored, n, k, sink=4, recent=16):
    """[G] of (kept positions, the score of the last one taken, scores by position)."""
    recent = max(recent, unscored)
    kept = []
    for row in scores:
        middle = np.arange(sink, n - recent)
        order = middle[np.argsort(-row[middle], kind="stable")]
        best = order[:k - sink - recent]
        kept.append((set(range(sink)) | set(range(n - recent, n)) | set(best.tolist()), row[best[-1]], row))
    return kept


def select_adakv(scores, unscored, n, k, sink=4, recent=16, safeguard=0.2):
    """The same, with the layer's entries shared by rank (Feng et al. 2024)."""
    recent, heads = max(recent, unscored), len(scores)
    protected, middle = sink + recent, np.arange(sink, n - max(recent, unscored))
    sure = min(max(max(1, int(k * safeguard)) - protected, 0), k - protected)
    orders = [middle[np.argsort(-row[middle], kind="stable")] for row in scores]
    rest = sorted(((-scores[g][j], g, j) for g in range(heads) for j in orders[g][sure:]))
    counts = [sure] * heads
    for _, g, _ in rest[:heads * (k - protected - sure)]:
        counts[g] += 1
    ends = set(range(sink)) | set(range(n - recent, n))
    last = -rest[heads * (k - protected - sure) - 1][0]
    return [(ends | set(orders[g][:counts[g]].tolist()), last, scores[g]) for g in range(heads)]


def differences(kept, expected, near=1e-4):
    """Positions of one head that differ although their scores are not near the last one taken."""
    positions, last, scores = expected
    wrong = set(int(p) for p in kept) ^ positions
    size = np.abs(scores).max()
    return [p for p in wrong if p >= len(scores) or abs(scores[p] - last) > near * size]
