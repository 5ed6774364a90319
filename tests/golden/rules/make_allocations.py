#!/usr/bin/env python3
"""Kept sets of allocations, chunks, spans and ladders, for tests/golden/test_rules_golden_allocations.c.

usage: make_allocations.py OUT.json      (numpy)

Written from the papers and the authors' code, one straight line each, with loops where the
engine has operators. Where published code truncates shares, the largest remainders are
rounded up instead and the total is exact. Inputs are random and stored with the results.
"""
import json
import sys

import numpy as np

LAYERS, HEADS, KV_HEADS, N, WINDOW = 4, 4, 2, 61, 4
rng = np.random.default_rng(2024)


def rounded(x):
    return np.round(x, 6)


SCORES = rounded(np.exp(rng.normal(size=(LAYERS, KV_HEADS, N)) *
                        np.array([0.4, 1.5, 0.9, 2.0])[:, None, None] - 3))
LOGITS = rng.normal(size=(LAYERS, HEADS, WINDOW, N)) * np.array([0.3, 2, 1, 1.5])[:, None, None, None]
LOGITS[1, :, :, :4] += 3  # a layer that looks at its first entries
LOGITS[3, :, :, -6:] += 2
ATTENTION = rounded(np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True))

others = np.random.default_rng(2404)
RESIDUAL = rounded(1 - np.array([0.5, 0.12, 0.2, 0.15])[:, None] * others.random((LAYERS, N)))
DIVIDED = [rounded(others.random(layers) ** power) for layers in (1, 2, 3, 5, 12, 32) for power in (1, 0.2, 3)]


# --- arithmetic ---

def largest_remainders(parts, total):
    parts = [float(p) for p in parts]
    whole = [int(np.floor(p + 1e-9)) for p in parts]
    order = sorted(range(len(parts)), key=lambda i: (-(parts[i] - whole[i]), i))
    for i in order[:total - sum(whole)]:
        whole[i] += 1
    assert sum(whole) == total
    return whole


def in_proportion(weights, total, low, high):
    """Shares of whole entries between bounds, by bisection of the factor."""
    a, b = 0.0, 1e12
    for _ in range(300):
        mid = (a + b) / 2
        if sum(min(max(mid * w, low), high) for w in weights) < total:
            a = mid
        else:
            b = mid
    return largest_remainders([min(max(b * w, low), high) for w in weights], total)


def evenly(layer_totals):
    return [[(t + KV_HEADS - 1 - g) // KV_HEADS for g in range(KV_HEADS)] for t in layer_totals]


def by_layer(weights, k, protected):
    """Of what is not protected; one entry a head at least."""
    free = in_proportion(weights, LAYERS * KV_HEADS * (k - protected), KV_HEADS, KV_HEADS * (N - protected))
    return [[x + protected for x in row] for row in evenly(free)]


# --- allocations: entries of every head; s[layer][head] are the scores that can be chosen ---

def flat(s, k, protected, alpha=0.0):
    sure = min(max(max(1, int(k * alpha)) - protected, 0), k - protected)
    count = [[protected + sure for _ in range(KV_HEADS)] for _ in range(LAYERS)]
    rest = []
    for l in range(LAYERS):
        for g in range(KV_HEADS):
            for x in sorted(s[l][g], reverse=True)[sure:]:
                rest.append((-x, l, g))
    for _, l, g in sorted(rest)[:LAYERS * KV_HEADS * (k - protected - sure)]:
        count[l][g] += 1
    return count


def cake(s, k, protected, tau1=1.0, tau2=1.0):
    """cakekv: calculate_entropy, var over the window, both without the window's columns."""
    a = ATTENTION[:, :, :, :N - WINDOW]
    pref = []
    for l in range(LAYERS):
        disp = -(a[l] * np.log(a[l] + 1e-10)).sum()
        var = a[l].var(axis=1, ddof=1).sum()
        pref.append(disp ** (1 / tau1) * var ** (1 / tau2))
    return by_layer(pref, k, protected)


def lava_entropies():
    """Lava: LavaKVCluster.calcul_attn_score, over all scored entries."""
    out = []
    for l in range(LAYERS):
        flat_scores = SCORES[l].ravel()
        p = flat_scores / (flat_scores.sum() + 1e-16)
        out.append(-(p * np.log(p + 1e-16)).sum() / np.log(len(p)))
    return out


def entropy(s, k, protected):
    return by_layer(lava_entropies(), k, protected)


def adakv(s, total, protected, alpha=0.2, form="floor", normalise=False):
    """One layer. Floor: kvpress; blend and normalise: the authors' code."""
    k = total // KV_HEADS
    sure = max(1, int(k * alpha)) if form == "floor" else 1
    sure = min(max(sure - protected, 0), k - protected)
    b = k - protected
    rows = []
    for g in range(KV_HEADS):
        row = np.sort(s[g])[::-1]
        rows.append(row * (row[:b].sum() / row.sum()) if normalise else row)
    count = [sure] * KV_HEADS
    rest = sorted((-x, g) for g in range(KV_HEADS) for x in rows[g][sure:])
    for _, g in rest[:total - KV_HEADS * (protected + sure)]:
        count[g] += 1
    if form == "blend":
        free = total - KV_HEADS * protected
        count = largest_remainders([(1 - alpha) * c + alpha * free / KV_HEADS for c in count], free)
    return [protected + c for c in count]


def adakv_layers(s, k, protected, **how):
    return [adakv(s[l], KV_HEADS * k, protected, **how) for l in range(LAYERS)]


def entropy_adakv(s, k, protected):
    return [adakv(s[l], sum(row), protected) for l, row in enumerate(entropy(s, k, protected))]


def hits(s, k, protected, most=10.0):
    """DynamicKV: counts of the highest base * heads * layers, from at most max * base a head."""
    base = k - protected
    cap = min(int(most * base), N - protected)
    brought = []
    for l in range(LAYERS):
        for g in range(KV_HEADS):
            for x in sorted(s[l][g], reverse=True)[:cap]:
                brought.append((-x, l, g))
    count = [0] * LAYERS
    for _, l, _ in sorted(brought)[:base * KV_HEADS * LAYERS]:
        count[l] += 1
    return by_layer(count, k, protected)


def composite(s, k, protected):
    """kvpress KVComposePress.compute_important_per_layer, structured."""
    c = np.array([np.mean([np.sort(s[l][g])[::-1] for g in range(KV_HEADS)], axis=0) for l in range(LAYERS)])
    c[0] = c.max(axis=0)
    sure = 0 if protected > 0 else 1
    rest = sorted((-x, l) for l in range(LAYERS) for x in c[l][sure:])
    count = [protected + sure] * LAYERS
    for _, l in rest[:LAYERS * (k - protected - sure)]:
        count[l] += 1
    return [[x] * KV_HEADS for x in count]


def lazy(s, k, protected, initial=4, recent=1024):
    """kvpress SimLayerKVPress.is_lazy; layers are cut in the order of it until the budget fits."""
    recent = min(recent, k // 2)
    few = min(max(initial + recent - 1, protected + 1), k)
    z = []
    for l in range(LAYERS):
        a = ATTENTION[l, :, -1, :].mean(axis=0)[:-1]
        z.append(a[:initial].sum() + a[-recent:].sum())
    count = [N] * LAYERS
    for l in sorted(range(LAYERS), key=lambda i: (-z[i], i)):
        count[l] -= min(sum(count) - LAYERS * k, N - few)
    return [[x] * KV_HEADS for x in count]


def highest_class(c):
    """Indices of the highest of 3 classes, by trying all cuts of the sorted numbers."""
    order = sorted(range(len(c)), key=lambda i: c[i])
    x = [c[i] for i in order]
    cost = lambda part: float(np.var(part) * len(part)) if len(part) else 0.0
    n = len(x)
    cuts = [(0, 0)] if n == 1 else [(a, b) for a in range(n) for b in range(max(a, 1), n)]
    _, b = min(((cost(x[:a]) + cost(x[a:b]) + cost(x[b:]), b) for a, b in cuts), key=lambda pair: pair[0])
    return sorted(order[b:])


def squeeze(s, k, protected, share=0.3):
    """SqueezeAttention: the layers that attention changes least keep share * k, the others the rest."""
    high = highest_class(RESIDUAL.mean(axis=1))
    rest = (LAYERS - len(high) * share) / (LAYERS - len(high))
    weights = [share if l in high else rest for l in range(LAYERS)]
    return evenly(in_proportion(weights, LAYERS * KV_HEADS * k, KV_HEADS * (protected + 1), KV_HEADS * N))


def pyramid(s, k, protected, beta=20):
    """PyramidKV: a line whose mean is k."""
    least = k / beta
    most = 2 * k - least
    if most >= N:
        most, least = N, 2 * k - N
    line = [most - l * (most - least) / (LAYERS - 1) for l in range(LAYERS)]
    total = LAYERS * KV_HEADS * k
    return evenly(in_proportion(line, total, KV_HEADS * (protected + 1), KV_HEADS * N))


# --- choices ---

def best(row, count, first):
    order = sorted(range(len(row)), key=lambda j: (-row[j], j))
    return [first + j for j in order[:count]]


def allocation(share, /, **how):
    def kept(k, sink, recent):
        s = SCORES[:, :, sink:N - recent]
        counts = share(s, k, sink + recent, **how)
        assert sum(map(sum, counts)) == LAYERS * KV_HEADS * k
        return [best(s[l][g], counts[l][g] - sink - recent, sink)
                for l in range(LAYERS) for g in range(KV_HEADS)]
    return kept


def chunk(size=20, fill="token", heads="shared", cut="score"):
    def one(row, k, sink, recent):
        chunks = []
        for start in range(0, N, size):
            own = [j for j in range(start, min(start + size, N)) if sink <= j < N - recent]
            if own:
                is_cut = len(own) < min(start + size, N) - start
                mean = np.inf if is_cut and cut == "first" else row[own].mean()
                chunks.append((-mean, start, own))
        out, left = [], k - sink - recent
        for i, (_, _, own) in enumerate(sorted(chunks)):
            if len(own) > left:
                if fill == "token" or i == 0:
                    out += sorted(own, key=lambda j: (-row[j], j))[:left]
                break
            out += own
            left -= len(own)
        return out

    def kept(k, sink, recent):
        rows = [SCORES[l].sum(axis=0) if heads == "shared" else SCORES[l][g]
                for l in range(LAYERS) for g in range(KV_HEADS)]
        return [one(row, k, sink, recent) for row in rows]
    return kept


def span(size):
    """Seats by Sainte-Lague: the next entry goes to the span with the smallest (taken + 1/2) / length."""
    def one(row, k, sink, recent):
        spans = []
        for start in range(0, N, size):
            whole = range(start, min(start + size, N))
            own = sorted((j for j in whole if sink <= j < N - recent), key=lambda j: (-row[j], j))
            spans.append([len(whole) - len(own), len(whole), own])
        out = []
        for _ in range(k - sink - recent):
            taken, length, own = min((x for x in spans if x[2]), key=lambda x: (x[0] + 0.5) / x[1])
            next(x for x in spans if x[2] is own)[0] += 1
            out.append(own.pop(0))
        return out

    def kept(k, sink, recent):
        return [one(SCORES[l][g], k, sink, recent) for l in range(LAYERS) for g in range(KV_HEADS)]
    return kept


def lacache(span_, overlap, start):
    """LaCache's groups, thinned one after the other, again from the start at the end."""
    before = 1 + int(np.ceil((LAYERS - span_) / (span_ - overlap)))
    after = min(int(np.ceil(span_ / (span_ - overlap))), before)

    def one(layer, k, sink, recent):
        shift = layer % (before - after + 1)
        protected = set(range(sink)) | set(range(N - recent, N))
        kept, ladder = list(range(N)), list(range(start, N - LAYERS))
        while len(kept) > k and before > after and len(ladder) >= before:
            survivors = []
            for i, j in enumerate(ladder):  # a last group that is not whole is left alone
                if i >= len(ladder) // before * before or 0 <= i % before - shift < after:
                    survivors.append(j)
                elif len(kept) > k and j not in protected:
                    kept.remove(j)
            ladder = survivors
        ladder = [j for j in kept if start <= j < N - LAYERS and j not in protected]
        dense = [j for j in kept if not start <= j < N - LAYERS and j not in protected]
        while len(kept) > k:
            kept.remove((ladder or dense)[0])
            (ladder or dense).pop(0)
        return kept

    def kept(k, sink, recent):
        return [one(l, k, sink, recent) for l in range(LAYERS) for _ in range(KV_HEADS)]
    return kept


RULES = {
    "flat(random)": allocation(flat),
    "flat(random,alpha=0.5)": allocation(flat, alpha=0.5),
    "cake_layers(knorm,window=4)": allocation(cake),
    "cake_layers(knorm,window=4,tau1=1.6,tau2=0.6)": allocation(cake, tau1=1.6, tau2=0.6),
    "entropy(knorm)": allocation(entropy),
    "entropy(adakv(random))": allocation(entropy_adakv),
    "adakv(random)": allocation(adakv_layers),
    "adakv(random,form=blend)": allocation(adakv_layers, form="blend"),
    "adakv(random,safeguard=0.5,form=blend,normalise=mass)":
        allocation(adakv_layers, alpha=0.5, form="blend", normalise=True),
    "adakv(random,normalise=mass)": allocation(adakv_layers, normalise=True),
    "hits(random)": allocation(hits),
    "hits(random,max=1.5)": allocation(hits, most=1.5),
    "composite(random)": allocation(composite),
    "lazy(knorm)": allocation(lazy),
    "lazy(knorm,initial=2,recent=8)": allocation(lazy, initial=2, recent=8),
    "squeeze(knorm)": allocation(squeeze),
    "squeeze(knorm,share=0.7)": allocation(squeeze, share=0.7),
    "pyramid(knorm)": allocation(pyramid),
    "pyramid(knorm,beta=3)": allocation(pyramid, beta=3),
    "chunk(knorm,size=7)": chunk(7),
    "chunk(knorm)": chunk(),
    "chunk(knorm,size=7,fill=none)": chunk(7, fill="none"),
    "chunk(knorm,size=7,fill=none,heads=own)": chunk(7, fill="none", heads="own"),
    "chunk(knorm,size=8,heads=own,cut=first)": chunk(8, heads="own", cut="first"),
    "chunk(knorm,size=1)": chunk(1),
    "span(knorm,size=16)": span(16),
    "span(knorm,size=9)": span(9),
    "span(knorm)": span(1024),
    "lacache:span=2,start=4": lacache(2, 0, 4),
    "lacache:span=2,overlap=1,start=7": lacache(2, 1, 7),
}
BUDGETS = [(8, 2, 3), (21, 2, 3), (40, 2, 3), (6, 0, 0), (30, 0, 0), (17, 5, 0), (33, 0, 11)]


def lists(x):
    return x.tolist()


def main():
    cases = []
    for rule, kept in RULES.items():
        for k, sink, recent in BUDGETS:
            protected = set(range(sink)) | set(range(N - recent, N))
            sets = [sorted(protected | set(map(int, chosen))) for chosen in kept(k, sink, recent)]
            assert sum(map(len, sets)) <= LAYERS * KV_HEADS * k
            cases.append({"rule": rule, "k": k, "sink": sink, "recent": recent, "kept": sets})
    head = {"layers": LAYERS, "heads": HEADS, "kv_heads": KV_HEADS, "n": N, "window": WINDOW,
            "scores": lists(SCORES.ravel()), "window_attention": lists(ATTENTION.ravel()),
            "residual": lists(RESIDUAL.ravel()),
            "divided": [{"c": lists(c), "high": highest_class(c)} for c in DIVIDED]}
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        rows = [json.dumps(k) + ":" + json.dumps(v, separators=(",", ":")) for k, v in head.items()]
        rows.append('"cases":[\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "]")
        f.write("{" + ",\n".join(rows) + "}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
