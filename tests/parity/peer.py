"""peer.py - runs presses of kvpress on a model, and says what each kept and how surely.

SPDX-License-Identifier: MIT
"""
import kvpress as K
import numpy as np
import torch
from transformers import DynamicCache

import compare
import models

NOISE, SHAKE, RUNS = 2e-4, 1e-6, 12


class Outcome:
    """kept [layers, kv heads, n]; the scores that a press chose by, of each layer, if it has
    such; its cache, and of the entries there the positions [layers][kv heads]."""

    def __init__(self, kept, scores, cache, positions):
        self.kept, self.scores, self.cache, self.positions = kept, scores, cache, positions


def scorer_of(press):
    """The press whose scores are chosen by: the outermost that has some."""
    while not hasattr(press, "score") and hasattr(press, "press"):
        press = press.press
    return press if hasattr(press, "score") else None


def innermost(press):
    while hasattr(press, "press"):
        press = press.press
    return press


def noisy(scores, pair, random):
    """Scores perturbed as `pair` says."""
    noise = torch.randn(scores.shape, generator=random)
    if pair.block:
        n_blocks = -(-scores.shape[-1] // pair.block)
        shared = torch.randn((*scores.shape[:-1], n_blocks), generator=random)
        noise = noise + shared.repeat_interleave(pair.block, -1)[..., :scores.shape[-1]]
    noise = NOISE * noise
    if pair.noise == "range":
        return scores + 5 * noise
    if pair.noise == "lowest":
        return scores + noise * (scores - scores.amin() + 1e-3)
    return scores * (1 + noise)


def before(press, name, action):
    """From now on `action` comes before the method `name`."""
    plain = getattr(press, name)

    def both(*rest, **more):
        action()
        return plain(*rest, **more)

    setattr(press, name, both)


def perturb(press, pair, random):
    """From now on the innermost scores of `press` are perturbed."""
    def change(holder, name):
        setattr(holder, name, noisy(getattr(holder, name), pair, random))

    if isinstance(press, K.KVzipPress):
        before(press, "compress_post", lambda: change(press, "score_val"))
    elif isinstance(press, K.KVComposePress):
        before(press, "enhance_scores", lambda: change(press, "scores"))
    else:
        inner = innermost(press)
        name = "_get_states_score" if pair.noise == "parts" else "score"
        plain = getattr(inner, name)
        setattr(inner, name, lambda *a, **k: noisy(plain(*a, **k), pair, random))


def shake_merge(press, random):
    """From now on MergingPress looks for the most similar of keys that are rounded otherwise."""
    plain = press.merge

    def merge(keys, values, indices):
        noise = SHAKE * torch.randn(keys.shape, generator=random)
        return keys, plain(keys * (1 + noise), values, indices)[1]

    press.merge = merge


def seed_layers(press):
    """LeverageScorePress draws a matrix in every layer: from a seed of the layer."""
    compress = press.compress

    def seeded(module, *rest, **more):
        torch.manual_seed(models.seed_of(module.layer_idx))
        return compress(module, *rest, **more)

    press.compress = seeded


def record_scores(press):
    """Layer by layer what `press` chooses by."""
    seen = {}
    if isinstance(press, K.KVzipPress):
        before(press, "compress_post", lambda: seen.update(enumerate(press.score_val[:, 0].clone())))
    elif isinstance(press, K.KVComposePress):
        before(press, "compute_important_per_layer", lambda: seen.update(enumerate(press.scores.clone())))
    elif scorer := scorer_of(press):
        plain = scorer.score

        def record(module, *rest, **more):
            scores = plain(module, *rest, **more)
            seen[module.layer_idx] = scores[0].clone()
            return scores

        scorer.score = record
    return seen


def rows(tensor):
    return [row.tobytes() for row in tensor.contiguous().numpy()]


class Peer:
    """A model of transformers and its full caches of the first n ids."""

    def __init__(self, model, ids):
        self.model, self.ids, self.full = model, ids, {}
        self.layers = [layer.self_attn for layer in model.model.layers]

    def forward(self, n):
        """The cache after the first n ids."""
        cache = DynamicCache()
        self.model(self.ids[None, :n], past_key_values=cache, logits_to_keep=1)
        return cache

    def places(self, n, attention):
        """Of each layer and kv head the position of a row of keys, or of values."""
        if (n, attention) not in self.full:
            self.full[n, attention] = [
                [{row: p for part in (layer.keys, layer.values) for p, row in enumerate(rows(part[0, g]))}
                 for g in range(layer.keys.shape[1])] for layer in self.forward(n).layers]
            if any(len(head) != 2 * n for layer in self.full[n, attention] for head in layer):
                raise ValueError("two entries are alike")
        return self.full[n, attention]

    def stayed(self, module, n):
        """Positions, head by head, for presses that only mask what would leave."""
        kept = np.ones((module.config.num_key_value_heads, n), bool)
        _, head, position = module.masked_key_indices
        kept[head.numpy(), position.numpy()] = False
        return [np.flatnonzero(row) for row in kept]

    def gathered(self, layer, places):
        """For presses that move what stays: found by its keys, or by its values if those turned."""
        out = []
        for g, place in enumerate(places):
            keys = rows(layer.keys[0, g])
            found = keys if all(row in place for row in keys) else rows(layer.values[0, g])
            out.append(np.array([place[row] for row in found]))
        return out

    @torch.no_grad()
    def run(self, pair, n, ratio, random=None, shake=None):
        """The press on the first n ids, as anybody runs it; None if it refuses. With `random`
        its scores are perturbed, with `shake` the keys that it merges by."""
        attention = "eager" if pair.eager else "sdpa"
        press = pair.build(n, ratio)
        if random is not None:
            perturb(press, pair, random)
        if shake is not None:
            shake_merge(press, shake)
        seed_layers(press)
        scores = record_scores(press)
        for module in self.layers:
            module.masked_key_indices = None
        self.model.set_attn_implementation(attention)
        try:
            places = self.places(n, attention)
            with press(self.model):
                cache = self.forward(n)
        except AssertionError:
            return None
        finally:
            self.model.set_attn_implementation("sdpa")
        at = [self.gathered(cache.layers[i], places[i]) if module.masked_key_indices is None
              else self.stayed(module, n) for i, module in enumerate(self.layers)]
        for module in self.layers:
            module.masked_key_indices = None
        kept = np.zeros((len(at), len(at[0]), n), bool)
        for i, layer in enumerate(at):
            for g, positions in enumerate(layer):
                kept[i, g, positions] = True
                if kept[i, g].sum() != len(positions):
                    raise ValueError("an entry is there twice")
        return Outcome(kept, {i: s.numpy() for i, s in scores.items()}, cache, at)

    def flips(self, pair, n, ratio, kept):
        """Positions that change when the press's own scores are perturbed a little."""
        random = torch.Generator().manual_seed(977)
        out = np.zeros_like(kept)
        for _ in range(RUNS):
            out |= self.run(pair, n, ratio, random).kept != kept
        return out

    def shaken(self, pair, n, ratio, outcome):
        """Rows of keys and values that change with how the keys are rounded."""
        random = torch.Generator().manual_seed(977)
        out = False
        for _ in range(RUNS if isinstance(pair.build(n, ratio), K.MergingPress) else 0):
            again = compare.numbers_of(self.run(pair, n, ratio, shake=random))
            out = out | compare.rows_apart(outcome, np.concatenate([part.ravel() for part in again]))
        return out
