#!/usr/bin/env python3
"""Writes new2026.json: scores and kept sets of rules published in 2025 and 2026.

Straight-line numpy in double from the papers' formulas (each named below), on the tensors of
geometry.json. numpy 2.4.6.

usage: make_new2026.py geometry.json > new2026.json
"""
import json
import math
import sys

import numpy as np

with open(sys.argv[1], encoding="utf-8") as f:
    inputs = json.load(f)
shape = inputs["shape"]
L, H, G, D, N, W = (shape[k] for k in ("layers", "heads", "kv_heads", "d", "n", "w"))
R = H // G
keys = np.array(inputs["keys"]).reshape(L, G, N, D)
values = np.array(inputs["values"]).reshape(L, G, N, D)
queries = np.array(inputs["queries"]).reshape(L, H, W, D)
attention = np.array(inputs["attention"]).reshape(L, H, W, N)
uniform = np.array(inputs["random"]).reshape(L, G, N)


def group_mean(x):
    """[L, H, m] to [L, G, m]; query head h uses kv head h // R."""
    return np.stack([x[:, g * R:(g + 1) * R].mean(1) for g in range(G)], 1)


def max_pool(x, kernel):
    out = np.zeros_like(x)
    for j in range(x.shape[-1]):
        out[..., j] = x[..., max(0, j - kernel // 2):j + kernel // 2 + 1].max(-1)
    return out


# --- OBCache, arXiv:2510.07651: sums over the window's queries of the change of the output to
# second order when a value, a key, or both are pruned; before the group mean, past alone

def obcache(part, kernel=1):
    out = np.zeros((L, H, N - W))
    for l in range(L):
        for h in range(H):
            v = values[l, h // R]
            for i in range(W):
                a = attention[l, h, i]
                o = a @ v
                for j in range(N - W):
                    z = queries[l, h, i] @ keys[l, h // R, j] / math.sqrt(D)
                    change = {"value": v[j], "key": z * (v[j] - o),
                              "joint": v[j] + z * (v[j] - o)}[part]
                    out[l, h, j] += a[j] ** 2 * (change @ change)
    return group_mean(max_pool(out, kernel))


# --- DropKV, openreview MqfNzH3TVH: the squared change of the output when one entry leaves and
# the softmax is renormalised, here by leaving it out

def dropkv():
    out = np.zeros((L, H, N - W))
    for l in range(L):
        for h in range(H):
            v = values[l, h // R]
            for i in range(W):
                a = attention[l, h, i]
                a = a / a.sum()  # stored numbers are rounded
                o = a @ v
                for j in range(N - W):
                    left = np.delete(a, j)
                    without = (left / left.sum()) @ np.delete(v, j, 0)
                    out[l, h, j] += ((without - o) ** 2).sum()
    return group_mean(out)


# --- CAOTE, arXiv:2504.14051: the same length for a rule's scores as attention of one query;
# or from the mean value

past = group_mean(attention[..., :N - W].mean(2))


def caote(score, fast):
    m = score.shape[-1]
    out = np.zeros((L, G, m))
    for l in range(L):
        for g in range(G):
            h = score[l, g] / score[l, g].sum()
            v = values[l, g, :m]
            x = v.mean(0) if fast else h @ v
            for j in range(m):
                out[l, g, j] = h[j] / (1 - h[j]) * math.sqrt(((x - v[j]) ** 2).sum())
    return out


# --- Nexus sampling, arXiv:2606.23961, equations 1 to 6; blocks of 16 (the last has one entry),
# numbers of a block: those of its first entries in head 0. Entries of a block have its priority

def nexus(size=16, depth=3, mix=0.5, draws=5, tie=1e-6):
    blocks = [range(a, min(a + size, N)) for a in range(0, N, size)]
    out = np.zeros((L, 1, N))
    for l in range(L):
        q, k = queries[l].mean(0), keys[l].mean(0)
        rows = []
        for i in range(W):
            seen = N - W + i + 1
            x = k[:seen] @ q[i] / math.sqrt(D)
            p = np.zeros(N)
            p[:seen] = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
            rows.append(np.array([p[list(b)].sum() for b in blocks]))
        direct = sum(rows) / W
        c = np.zeros(len(blocks))
        for row in rows[:depth]:
            c = c + (1 + row @ c) * row
        c = c / c.sum() if depth > 0 else c
        w = direct + mix * c + tie * np.arange(len(blocks)) / (len(blocks) - 1)
        for b, weight in zip(blocks, w):
            u = uniform[l, 0, list(b)[:draws]]
            # logarithm of the mean of u ** (1 / weight), which is too small for a double
            x = np.log(u) / weight
            out[l, 0, list(b)] = x.max() + math.log(np.exp(x - x.max()).mean())
    return np.repeat(out, G, 1)


# --- LongFlow, arXiv:2603.11504: || A v ||_1 of the last query; the last entry is kept
longflow = group_mean(attention[:, :, W - 1, :N - 1]) * np.abs(values[:, :, :N - 1]).sum(-1)

# --- PagedEviction, arXiv:2509.04377: || v || / || k ||
paged = np.sqrt((values ** 2).sum(-1)) / np.sqrt((keys ** 2).sum(-1))


def keep(score, k, sink=0, recent=0):
    """Of one head: the first `sink`, what has no score or is recent, then by score and place."""
    last = min(len(score), N - recent)
    stays = list(range(sink)) + list(range(last, N))
    order = sorted(range(sink, last), key=lambda j: (-score[j], j))
    return sorted(stays + order[:k - len(stays)])


def pages(score, k, size=16, sink=0, recent=0):
    """Whole pages by the mean of what is not protected, over all heads; those with protected
    entries and the open one first; as many as fit."""
    total = score.sum(0)
    free = range(sink, N - recent)
    all_pages = []
    for a in range(0, N, size):
        own = [j for j in range(a, min(a + size, N)) if j in free]
        stays = len(own) < size
        if own:
            all_pages.append((-math.inf if stays else -total[own].mean(), a, own))
    out, left = list(range(sink)) + list(range(N - recent, N)), k - sink - recent
    for _, _, own in sorted(all_pages):
        if len(own) > left:
            break
        out += own
        left -= len(own)
    return sorted(out)


def above(score, k, tau, window):
    """Entries older than the window leave below tau; the best k of the others stay."""
    left = [j for j in range(len(score)) if j >= N - window or score[j] >= tau]
    best = sorted(left, key=lambda j: (-score[j], j))[:k - (N - len(score))]
    return sorted(best + list(range(len(score), N)))


def case(rule, score, k=40, sink=0, recent=0, kept=None):
    if kept is None:
        kept = [[keep(score[l, g], k, sink, recent) for g in range(G)] for l in range(L)]
    return {"rule": rule, "k": k, "published": int(sink > 0),
            "scores": [float(f"{x:.8g}") for x in score.ravel()], "kept": kept}


def paged_case(rule, score, k, sink=0, recent=0):
    return case(rule, score, k, sink, kept=[[pages(score[l], k, 16, sink, recent)] * G
                                            for l in range(L)])


tau = float(f"{np.median(past):.3g}")
many = [[above(past[l, g], 80, tau, 30) for g in range(G)] for l in range(L)]
few = [[above(past[l, g], 20, tau, 30) for g in range(G)] for l in range(L)]
plain = "snapkv:window=8,kernel=1"
cases = [
    case("obcache:window=8", obcache("joint")),
    case("obcache:window=8,part=value", obcache("value")),
    case("obcache:window=8,part=key", obcache("key")),
    case("obcache:window=8,kernel=7", obcache("joint", 7)),
    case("dropkv:window=8", dropkv()), case("dropkv:window=8", dropkv(), k=20),
    case(f"caote({plain})", caote(past, False)),
    case(f"caote({plain},output=mean)", caote(past, True)),
    case("nexus:window=8,size=16", nexus()),
    case("nexus:window=8,size=16", nexus(), k=64, sink=16, recent=8),
    case("nexus:window=8,size=16,depth=0", nexus(depth=0)),
    case("nexus:window=8,size=16,depth=8,mix=2,draws=1", nexus(depth=8, mix=2, draws=1)),
    case("longflow", longflow), case("paged", paged), case("paged", paged, k=60, sink=16, recent=16),
    paged_case("chunk(paged,size=16,fill=none,cut=page)", paged, k=60),
    paged_case("chunk(paged,size=16,fill=none,cut=page)", paged, k=75, sink=16, recent=16),
    case(f"threshold({plain},tau={tau},window=30)", past, k=80, kept=many),
    case(f"threshold({plain},tau={tau},window=30)", past, k=20, kept=few),
]
assert all(any(len(s) < 80 for s in layer) for layer in many)


def line(x):
    return json.dumps(x, separators=(",", ":"))


print("{")
print('"cases":[\n' + ",\n".join(line(c) for c in cases) + "\n]}")
