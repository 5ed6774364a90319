"""torch.py - the rules of FlexBudget on your own tensors and models, in your own process.

    kept = flexbudget.torch.select("snapkv:window=32", keys, values, queries, budget="25%")
    kept[layer][kv_head]          # positions that stay, ascending

    flexbudget.torch.attach(model, "snapkv:window=32", budget="25%")
    model.generate(ids, ...)      # prefill, evict once, go on

Scores and sets are made by the same C sources as in the program, over the operators of the PyTorch
that is loaded here. A rule may also be a function of yours in plain PyTorch, `rule(signals) -> scores`.

SPDX-License-Identifier: MIT
"""
import torch

from ._attach import Attached, attach
from ._event import Event, Kept, Signals, load
from ._library import Error

__all__ = ["Attached", "Error", "Event", "Kept", "Signals", "attach", "load", "select"]


def _listed(x, name):
    """A tensor is one layer."""
    try:
        return [x] if isinstance(x, torch.Tensor) else list(x)
    except TypeError:
        raise Error(f"{name} are a {type(x).__name__}, not a tensor or a list of them") from None


def _layers(x, name, n):
    """A tensor for each layer: of a list its items, of None nothing."""
    if x is None:
        return [None] * n
    x = _listed(x, name)
    if len(x) != n:
        raise Error(f"{name} of {len(x)} layers and keys of {n}")
    return x


def select(rule, keys, values=None, queries=None, *, budget, protect=(4, 16), scale=None, seed=0):
    """Which entries of a context stay under a rule and a budget.

    rule      an expression ("adakv(snapkv:window=32)"), or a function of yours: signals -> scores
    keys      [kv_heads, n, d] of one layer, or a list with those of every layer; after rotary embedding
    values    alike, where the rule reads values
    queries   [heads, t, d] of the last t tokens, after rotary embedding, where it reads attention
    budget    "25%", "256t" (entries per head) or "64MiB"
    protect   (sink, recent) for every rule, "published" for the rule's own, or "none"
    scale     of the logits q k^T; 1 / sqrt(d) unless given
    """
    keys = _listed(keys, "keys")
    n = len(keys)
    if n == 0:
        raise Error("keys of at least one layer are needed")
    values, queries = _layers(values, "values", n), _layers(queries, "queries", n)
    devices = tuple(dict.fromkeys(str(x.device) for x in keys if isinstance(x, torch.Tensor)))
    with Event(rule, budget=budget, layers=n, protect=protect, seed=seed, devices=devices) as event:
        for layer in range(n):
            event.layer(layer, keys[layer], values[layer], queries[layer], scale)
        return event.select()
