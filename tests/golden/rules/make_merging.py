#!/usr/bin/env python3
"""What `merging` makes of the values that are kept, by its formula, in float64.

usage: make_merging.py > merging.json

Written from the formula of kvpress MergingPress (0.5.5, press by press: cosine of keys, the
nearest survivor, weights by the lengths of values, quantile of the cosines), one entry after
the other; needs numpy. Inputs are random, seeded and rounded before anything is computed.
"""
import json

import numpy as np

D, N, KEPT = 16, 61, 19
rng = np.random.default_rng(20261201)


def make_head():
    """Keys in a few bunches, so that cosines are of all sizes; values of several lengths."""
    bunch = rng.normal(size=(6, D))
    keys = bunch[rng.integers(0, 6, N)] + 0.7 * rng.normal(size=(N, D))
    values = rng.normal(size=(N, D)) * rng.choice([0.3, 1, 2], (N, 1))
    kept = np.sort(rng.choice(N, KEPT, replace=False))
    return np.round(keys, 3), np.round(values, 3), kept


def merge(keys, values, kept, threshold, fraction):
    dropped = np.setdiff1d(np.arange(N), kept)
    unit = keys / np.linalg.norm(keys, axis=-1, keepdims=True)
    cosine = unit[dropped] @ unit[kept].T
    target, best = cosine.argmax(-1), cosine.max(-1)
    taken = best >= threshold
    if fraction < 1:
        taken &= best >= np.quantile(best, 1 - fraction)
    total, weight = np.zeros((len(kept), D)), np.zeros(len(kept))
    for i, j in enumerate(dropped):
        if not taken[i]:
            continue
        own, other = np.linalg.norm(values[j]), np.linalg.norm(values[kept[target[i]]])
        w = max(best[i], 0) * own / (own + other + 1e-6)
        total[target[i]] += w * values[j]
        weight[target[i]] += w
    return (values[kept] + total) / (1 + weight)[:, None]


def plain(x):
    """Lists of numbers of 9 significant digits."""
    if isinstance(x, np.ndarray):
        return [plain(y) for y in x] if x.ndim else float(f"{x:.9g}")
    return float(f"{x:.9g}")


if __name__ == "__main__":
    heads = []
    for _ in range(3):
        keys, values, kept = make_head()
        heads.append({
            "keys": plain(keys), "values": plain(values), "kept": [int(j) for j in kept],
            "cases": [{"rule": f"merging(knorm,threshold={t},fraction={f})",
                       "values": plain(merge(keys, values, kept, t, f))}
                      for t in [0, 0.4, 0.8, 1] for f in [1, 0.75, 0.3]]})
    print(json.dumps({"d": D, "n": N, "heads": heads}, separators=(",", ":")))
