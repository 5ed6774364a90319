#!/usr/bin/env python3
"""Scores and kept sets of `defensive` and `trig` by their authors' formulas, in float64.

usage: make_defensive_trig.py > defensive_trig.json

Written from the authors' code alone, one step after the other; needs numpy. Inputs are
random, seeded and rounded before anything is computed from them.
"""
import json
import math

import numpy as np

L, H, G, D, N, WIDTH = 2, 4, 2, 16, 97, 24
R, HALF = H // G, D // 2
WINDOW, KERNEL, MASS = 16, 5, 0.9
OMEGA = 10000.0 ** (-np.arange(HALF) / HALF)
rng = np.random.default_rng(20261130)


def rotate(x, position):
    """x [.., rows, D], pairs (f, f + HALF), row i at position[i]."""
    c, s = np.cos(np.outer(position, OMEGA)), np.sin(np.outer(position, OMEGA))
    a, b = x[..., :HALF], x[..., HALF:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def make_layer():
    """What a rule sees. Queries have a mean of their own, some keys are far off."""
    at = np.arange(N)
    q = rotate(rng.normal(size=(H, N, D)) + 1.5 * rng.normal(size=(H, 1, D)), at)
    k = rotate(rng.normal(size=(G, N, D)) * rng.choice([0.5, 1, 2], (G, N, 1)), at)
    v = rng.normal(size=(G, N, D)) * rng.choice([0.3, 1, 2], (G, N, 1))
    w = rng.normal(size=(H, WIDTH, D)) * rng.choice([0.5, 2], (H, 1, 1))
    q, k, v, w = (np.round(x, 2) for x in (q, k, v, w))
    rows = q[:, -WINDOW:] @ np.repeat(k, R, 0).transpose(0, 2, 1) / math.sqrt(D)
    hidden = np.triu(np.ones((WINDOW, N)), N - WINDOW + 1) > 0
    rows = softmax(np.where(hidden, -np.inf, rows))
    return {"queries": q, "keys": k, "values": v, "output_weight": w,
            "window_attention": np.round(rows, 6)}


# --- trig: pruning_utils.py (compute_frequency_statistics_from_means,
# score_keys_for_round), triattention.py (normalisation, max over the group) ---

def pairs(x):
    return x[..., :HALF] + 1j * x[..., HALF:]


def trig(layer, offsets, norm, zscore):
    at = np.arange(N)
    q = pairs(rotate(layer["queries"], -at))  # before rotary embedding
    k = pairs(rotate(layer["keys"], -at))
    scores = np.zeros((H, N))
    for h in range(H):
        mean, size = q[h].mean(0), np.abs(q[h]).mean(0)
        key = k[h // R]
        amplitude = np.abs(mean) * np.abs(key)  # [N, HALF]
        phi = np.angle(mean * key.conj())
        extra = ((size - np.abs(mean)) * np.abs(key)).sum(1)
        delta = (N - at)[:, None] + np.array(offsets, float)[None, :]  # [N, offsets]
        phase = delta[:, :, None] * OMEGA + phi[:, None, :]
        base = (amplitude[:, None, :] * np.cos(phase)).sum(2)
        scores[h] = (base + norm * extra[:, None]).mean(1)
        if zscore:
            deviation = max(scores[h].std(), 1e-6)
            scores[h] = (scores[h] - scores[h].mean()) / deviation
    return scores.reshape(G, R, N).max(1)


# --- defensive: efficient_defensivekv_press.py (score, vwl1norm), and the choice of
# efficient_ada_scorer_press.py (compress) ---

def pool(x):
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(KERNEL // 2, KERNEL // 2)])
    return sum(padded[..., i:i + x.shape[-1]] for i in range(KERNEL)) / KERNEL


def defensive(layer, bias, most):
    """Scores [G, N - WINDOW]; at most `most` entries of each head are forced. Where
    the code makes the highest score, the window and what is forced equal and leaves their
    order to torch.topk, here they follow each other: the window, forced, the highest."""
    rows = layer["window_attention"]
    past, c = rows[..., :-WINDOW], N - WINDOW
    own = past[..., -WINDOW:] if bias == "code" else rows[..., -WINDOW:]
    b = own.sum(-1).mean()
    grouped = past.reshape(G, R, WINDOW, c)
    mean = grouped.mean(1).mean(1)
    smooth = pool(grouped)
    smooth = smooth / smooth.sum(-1, keepdims=True) * grouped.sum(-1, keepdims=True)
    most_seen = smooth.max(1).max(1)
    score = np.maximum(most_seen, most_seen.mean(-1, keepdims=True))
    norm = np.zeros((H, c))
    for h in range(H):
        norm[h] = np.abs(layer["values"][h // R, :c] @ layer["output_weight"][h].T).sum(-1)
    norm = norm.reshape(G, R, c).mean(1)
    score = score * norm / norm.sum(0, keepdims=True)
    share = mean / mean.sum(-1, keepdims=True)
    highest = score.max()
    score = np.minimum(score, highest * (1 - 1e-12))  # what is forced comes before it
    for g in range(G):
        order = np.argsort(-share[g], kind="stable")
        reached = np.cumsum(share[g][order]) >= MASS - b
        score[g, order[:min(int(np.argmax(reached)), most)]] = highest
    return score


def keep(layer, bias, k):
    """Kept positions of each head where k of N stay on average."""
    score = defensive(layer, bias, k - WINDOW)
    window = np.full((G, WINDOW), score.max() * (1 + 1e-12))  # and the window before that
    score = np.concatenate([score, window], 1)
    best = np.argsort(-score.reshape(-1), kind="stable")[:G * k]
    return [sorted(int(i % N) for i in best if i // N == g) for g in range(G)]


def plain(x):
    """Lists of numbers of 9 significant digits."""
    if isinstance(x, np.ndarray):
        return [plain(y) for y in x] if x.ndim else float(f"{x:.9g}")
    return float(f"{x:.9g}")


POWERS = [2.0 ** i for i in range(17)]
TRIG = {
    "trig": (POWERS, 1, False),
    "trig:norm=0": (POWERS, 0, False),
    "trig:zscore=1": (POWERS, 1, True),
    "trig:offsets=next,offset=40": (list(range(40)), 1, False),
    "trig:offset=100": (POWERS[:7], 1, False),
}

if __name__ == "__main__":
    layers = [make_layer() for _ in range(L)]
    kept = []
    for how in ["true", "code"]:
        for k in range(WINDOW + 1, N, 2):
            rule = f"adakv(defensive:window={WINDOW},bias={how},safeguard=0)"
            kept.append({"rule": rule, "k": k, "kept": [keep(x, how, k) for x in layers]})
    out = {
        "heads": H, "kv_heads": G, "head_dim": D, "n": N, "width": WIDTH, "theta": 10000,
        "layers": [{key: plain(x) for key, x in layer.items()} for layer in layers],
        "trig": {rule: [plain(trig(layer, *how)) for layer in layers]
                 for rule, how in TRIG.items()},
        "kept": kept,
    }
    print(json.dumps(out, separators=(",", ":")))
