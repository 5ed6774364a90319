#!/usr/bin/env python3
"""make_gkv.py - G-KV over two evictions, straight-line numpy in double, as JSON to stdout.

    make_gkv.py > gkv.json

Written from the formula of arXiv:2512.00504 and of the authors' code (score_based.py,
compression_score.py of microsoft/G-KV): attention of the last w queries with a causal mask
over all entries, the largest of the query heads of a kv head, its mean over the queries, past
columns over their largest; joined with what entries carry; less redundancy over its largest.
What is carried is one list per kv head of the past entries that stayed, in order.

SPDX-License-Identifier: MIT
"""
import json
import math

import numpy as np

H, G, D, W = 4, 2, 8, 4
R = H // G
FIRST, KEEP, MORE = 30, 18, 9  # entries at the first event, that stay, that come after it
SEED = 20251200


def stored(x, digits):
    """As it is read from the file."""
    return np.array([float(f"{v:.{digits}g}") for v in x.ravel()]).reshape(x.shape)


random = np.random.default_rng(SEED)
total = FIRST + MORE
keys = stored(random.standard_normal((G, total, D)) + 0.6 * random.standard_normal((G, 1, D)), 6)
keys[:, 25] = stored(keys[:, 7] * 1.5, 6)  # said twice
queries = [random.standard_normal((H, W, D)), random.standard_normal((H, W, D))]


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def attention(q, k):
    """[H, W, m]: row a sees the entries up to its own."""
    m = k.shape[1]
    out = np.zeros((H, W, m))
    for h in range(H):
        for a in range(W):
            seen = m - W + a + 1
            out[h, a, :seen] = softmax(k[h // R, :seen] @ q[h, a] / math.sqrt(D))
    return stored(out, 7)


def redundancy(k, spare):
    out = []
    for head in k:
        unit = head / np.sqrt((head ** 2).sum(-1, keepdims=True))
        s = unit @ unit.T
        for i in range(len(head)):
            s[i, i] = 0
            alike = [j for j in range(len(head)) if s[i, j] > 0.5]
            if spare and alike:
                s[i, alike[-1]] = 0
        out.append(softmax(s.mean(0)))
    return np.array(out)


def event(a, k, carried, alpha, memory, weight, spare):
    """F and the score of past entries [G, m - W]."""
    past = k.shape[1] - W
    f, score = np.zeros((G, past)), np.zeros((G, past))
    r = redundancy(k, spare)[:, :past]
    for g in range(G):
        new = a[g * R:(g + 1) * R].max(0).mean(0)[:past]
        new = new / new.max()
        old = carried[g]
        n = len(old)
        if memory == "sum":
            f[g] = alpha * np.concatenate([old, np.zeros(past - n)]) + new
        else:
            old = np.concatenate([old, new[n:]])
            f[g] = np.maximum(alpha * old, new) if memory == "max" else alpha * old + (1 - alpha) * new
        score[g] = weight * f[g] - (1 - weight) * r[g] / r[g].max()
    return f, score


def flat(x):
    return [float(f"{v:.8g}") for v in np.asarray(x).ravel()]


def run(rule, alpha, memory, weight, spare):
    """Two events; the second sees what the first left, and what came since."""
    events, carried = [], [np.zeros(0)] * G
    places = np.tile(np.arange(FIRST), (G, 1))
    for q in queries:
        k = np.stack([keys[g, places[g]] for g in range(G)])
        a = attention(q, k)
        f, score = event(a, k, carried, alpha, memory, weight, spare)
        past = places.shape[1] - W
        best = [sorted(sorted(range(past), key=lambda j: -score[g, j])[:KEEP - W]) for g in range(G)]
        events.append({"positions": places.tolist(), "attention": flat(a), "state": flat(f), "scores": flat(score),
                       "kept": [places[g, best[g]].tolist() for g in range(G)]})
        carried = [f[g, best[g]] for g in range(G)]
        places = np.stack([np.concatenate([places[g, best[g]], places[g, past:], np.arange(FIRST, total)])
                           for g in range(G)])
    return {"rule": rule, "events": events}


cases = [
    run("gkv:window=4", 0.8, "max", 0.5, True),
    run("gkv:window=4,memory=mean,weight=0.9", 0.8, "mean", 0.9, True),
    run("gkv:window=4,memory=sum,alpha=0.6,retain=none", 0.6, "sum", 0.5, False),
    run("gkv:window=4,alpha=0,weight=1", 0, "max", 1, True),
]
print(json.dumps({"shape": dict(heads=H, kv_heads=G, d=D, w=W, keep=KEEP, total=total), "keys": flat(keys),
                  "cases": cases}, separators=(",", ":")))
