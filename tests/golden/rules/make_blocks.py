#!/usr/bin/env python3
"""Writes blocks.json: scores and kept sets of rules that follow the attention of all queries.

Straight-line numpy in double from the papers' formulas, or their code where it is named, on
seeded random attention that is stored with the results, rounded to what is stored; of a query
what it sees. Nothing here goes block by block. numpy 2.4.6.

usage: make_blocks.py > blocks.json
"""
import json
import math

import numpy as np

H, G, D, N = 4, 2, 8, 61
R = H // G
rng = np.random.default_rng(20261130)

keys = rng.normal(0.2, 1.2, (G, N, D))
queries = rng.normal(0.0, 1.2, (H, N, D))
A = np.zeros((H, N, N))
for h in range(H):
    for i in range(N):
        x = keys[h // R, :i + 1] @ queries[h, i] / math.sqrt(D)
        e = np.exp(x - x.max())
        A[h, i, :i + 1] = np.round(e / e.sum(), 6)
A[:, :, :] = np.maximum(A, 0)
u = np.round(rng.uniform(1e-3, 1 - 1e-3, (H, N, N)), 4)
mean = np.stack([A[g * R:(g + 1) * R].mean(0) for g in range(G)])  # [G, query, entry]


def best(score, k, keep):
    """The k entries to keep of each head: `keep` ones, then by score, lower place first."""
    out = []
    for g in range(G):
        order = sorted(range(N), key=lambda j: (j not in keep, -score[g, j], j))
        out.append(sorted(order[:k]))
    return out


cases = []


def case(rule, k, published, score, kept, planes=1):
    cases.append({"rule": rule, "k": k, "published": published,
                  "scores": [float("%.9g" % x) for x in np.ravel(score)], "kept": kept})


# --- a2sf: F <- decay * F + A_t at each step (arXiv:2407.20485)
for decay in (0.9, 0.5):
    F = np.zeros((G, N))
    for i in range(N):
        F = decay * F + mean[:, i]
    case(f"a2sf:decay={decay}", 20, 0, F, best(F, 20, set()))

# --- keyformer: sums of a softmax of logits with Gumbel noise (arXiv:2403.09054); logits are
# ln A but for a number that is the same for the whole row
for tau in (1.0, 2.0):
    F = np.zeros((G, N))
    for h in range(H):
        for i in range(N):
            seen = [j for j in range(i + 1) if A[h, i, j] > 0]
            x = np.array([(math.log(A[h, i, j]) - math.log(-math.log(u[h, i, j]))) / tau
                          for j in seen])
            e = np.exp(x - x.max())
            F[h // R, seen] += e / e.sum() / R
    k = 20
    recent = int(k * 0.3)
    case(f"keyformer:tau={tau:g}", k, 0, F, best(F, k, set(range(N - recent, N))))

# --- roco: mode `encoding` of EasyKV: sums of attention and of its square, divided by the
# number of queries since; sinks and the last 10 have an infinite deviation
S1, S2 = mean.sum(1), (mean**2).sum(1)
count = N - np.arange(N)
mu = S1 / count
sigma = np.sqrt(np.maximum(S2 / count - mu**2, 0))
for k, recent in ((30, 0.5), (24, 0.6)):
    kept = []
    for g in range(G):
        s = sigma[g].copy()
        s[-10:] = 1e9
        s[:4] = 1e9
        n_candidates = max(N - int(k * recent) - 4, N - k)
        candidates = sorted(range(N), key=lambda j: (s[j], j))[:n_candidates]
        leave = sorted(candidates, key=lambda j: (mu[g, j], j))[:N - k]
        kept.append(sorted(set(range(N)) - set(leave)))
    case(f"roco:recent={recent}", k, 1, mu, kept)

# --- scissorhands: steps with less than the mean attention (arXiv:2305.17118), of the stretch of
# `history` tokens at work and, by the share of the window that it still has, of the last one
history = 32
low = np.zeros((G, N, N))
for i in range(N):
    low[:, i, :i + 1] = mean[:, i, :i + 1] < 1 / (i + 1)
now, before = low[:, history:].sum(1), low[:, :history].sum(1)
score = -(now + before * (1 - (N % history) / history))
case(f"scissorhands:history={history}", 25, 1, score,
     best(score, 25, set(range(N - 10, N))))
score = -low.sum(1)
case("scissorhands", 25, 1, score, best(score, 25, set(range(N - 10, N))))

# --- raas: the last look, by pages (arXiv:2502.11147); lazyeviction: the pause since the last look
# by the longest so far (arXiv:2506.15969; the ratio is provisional)
for threshold, page in ((0.02, 4), (0.1, 1)):
    last = np.zeros((G, N))
    longest = np.zeros((G, N))
    for g in range(G):
        for j in range(N):
            t = j
            for i in range(j, N):
                if mean[g, i, j] >= threshold:
                    longest[g, j] = max(longest[g, j], i - t)
                    t = i
            last[g, j] = t
    paged = np.stack([[(last[g, j // page * page:j // page * page + page] + 1).max()
                       for j in range(N)] for g in range(G)])
    case(f"raas:threshold={threshold},page={page}", 24, 0, paged, best(paged, 24, set()))
    score = -(N - 1 - last) / np.maximum(1, longest)
    case(f"lazyeviction:threshold={threshold}", 24, 0, score, best(score, 24, set()))

below = [(h, i, j) for h in range(H) for i in range(N) for j in range(i + 1)]
print(json.dumps({"attention": [float("%.6f" % A[x]) for x in below],
           "uniform": [float("%.4f" % u[x]) for x in below], "cases": cases},
    separators=(",", ":")))

