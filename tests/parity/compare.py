"""compare.py - why two kept sets differ: equal scores, scores nearly so, or something wrong.

SPDX-License-Identifier: MIT
"""
import numpy as np

CLOSE, CLOSE_ENTRIES, ROUNDING = 1e-4, 2e-5, 1e-6


class Finding:
    """Positions that differ: between equal scores, between near ones, and others; what is
    shown instead of the last if that is a decision of ours."""

    def __init__(self, ties=0, near=0, wrong=0, decision=None, margin=None):
        self.ties, self.near, self.wrong, self.decision = ties, near, wrong, decision
        self.margin = margin

    def as_json(self):
        return {name: value for name, value in vars(self).items() if value}


def groups(choice, shape):
    """Of [layers, kv heads, n] the parts in which scores are chosen among."""
    layers, heads, _ = shape
    if choice == "head":
        return [(layer, head) for layer in range(layers) for head in range(heads)]
    return [(layer,) for layer in range(layers)] if choice in ("layer", "block") else [()]


def tolerance(noise, kept_scores, scores):
    if noise == "range":
        return 5 * CLOSE
    if noise == "lowest":
        return CLOSE * (kept_scores - scores.min() + 1e-3)
    return 0 if noise == "parts" else CLOSE * np.abs(kept_scores)


def by_score(noise, scores, theirs, ours):
    """"equal" if their scores of both sets are the same numbers, "near" if nearly, else None."""
    a, b = np.sort(scores[theirs]).astype(float), np.sort(scores[ours]).astype(float)
    if len(a) != len(b):
        return None
    if (a == b).all():
        return "equal"
    return "near" if (np.abs(a - b) <= tolerance(noise, a, scores)).all() else None


def has_equal(numbers, others):
    """Which numbers are, but for rounding, one of the others."""
    if others.size == 0:
        return np.zeros(numbers.shape, bool)
    others = np.sort(others, axis=None)
    at = np.searchsorted(others, numbers).clip(1, max(1, others.size - 1))
    gap = np.minimum(np.abs(numbers - others[at - 1]), np.abs(numbers - others[at % others.size]))
    return gap <= ROUNDING * np.abs(numbers)


def tied(scores, theirs):
    """Positions with the score of one that they decided otherwise about."""
    return np.where(theirs, has_equal(scores, scores[~theirs]), has_equal(scores, scores[theirs]))


def of_blocks(scores, size):
    """[heads, n] of each entry the mean over its block, summed over heads."""
    total = scores.sum(0, dtype=float)
    starts = np.arange(0, len(total), size)
    sizes = np.diff(np.append(starts, len(total)))
    mean = np.add.reduceat(total, starts) / sizes
    return np.broadcast_to(np.repeat(mean, sizes), scores.shape)


def margin_of(scores, theirs):
    """Of a choice the distance between the last that stayed and the first that left."""
    if theirs.all() or not theirs.any():
        return None
    return float(scores[theirs].min()) - float(scores[~theirs].max())


def explain_part(found, pair, scores, theirs, ours, flips):
    """Adds what one choice among scores differs by."""
    differ = theirs != ours
    why = by_score(pair.noise, scores, theirs, ours) if pair.choice in ("head", "layer", "all") else None
    if why == "equal":
        found.ties += int(differ.sum())
    elif why == "near":
        found.near += int(differ.sum())
    else:
        ties = differ & tied(scores, theirs) if pair.choice else np.zeros_like(differ)
        rest = differ & ~ties
        if pair.choice == "block":
            ties |= rest & tied(of_blocks(scores, pair.block), theirs)
            rest &= ~ties
        near = rest & flips() if rest.any() else rest
        found.ties += int(ties.sum())
        found.near += int(near.sum())
        found.wrong += int((rest & ~near).sum())


def explain(pair, outcome, ours, flips):
    """`flips` is called only where scores alone do not say why."""
    found, margins = Finding(), []
    scores = np.stack([outcome.scores[i] for i in sorted(outcome.scores)]) if pair.choice else ours
    for at in groups(pair.choice, ours.shape):
        theirs = outcome.kept[at]
        if pair.choice == "head":
            margins.append(margin_of(scores[at], theirs))
        if (theirs != ours[at]).any():
            explain_part(found, pair, scores[at], theirs, ours[at], lambda: flips()[at])
    found.margin = min((m for m in margins if m is not None), default=None)
    return found


def is_other_number(pair, theirs, ours, is_whole):
    """In every head one set is in the other, but for a last, shorter span, and about as large."""
    whole = ours.shape[-1] // pair.span * pair.span
    a, b = theirs[..., :whole], ours[..., :whole]
    more, less = (a & ~b).sum(-1), (b & ~a).sum(-1)
    most = ours.shape[-1] if pair.slack == 0 and not is_whole else pair.slack
    return (theirs != ours).any() and (more * less == 0).all() and max(more.max(), less.max()) <= most


def is_cut(pair, theirs, ours):
    """What only we keep is of the window, in the block in which that begins."""
    first = ours.shape[-1] - pair.window
    end = -(-first // pair.block) * pair.block
    only = (ours & ~theirs).any((0, 1))
    return only[first:end].any() and not only[:first].any() and not only[end:].any()


def sets(pair, outcome, ours, is_shrunk, is_whole, flips):
    """`is_whole`: the share that stays is a whole number of entries."""
    theirs, n = outcome.kept, ours.shape[-1]
    differ = theirs != ours
    if pair.number and is_other_number(pair, theirs, ours, is_whole):
        return Finding(decision=pair.number)
    if pair.shrunk and is_shrunk and differ.any() and not differ[..., :n - pair.window].any():
        return Finding(decision=pair.shrunk)
    found = explain(pair, outcome, ours, flips)
    if found.wrong and pair.cut and is_cut(pair, theirs, ours):
        return Finding(decision=pair.cut)
    return found


def numbers_of(outcome):
    """Of each layer keys and then values [kv heads, kept, head size], by position."""
    return [np.stack([head[np.argsort(p)] for head, p in zip(part[0].numpy(), positions)])
            for layer, positions in zip(outcome.cache.layers, outcome.positions)
            for part in (layer.keys, layer.values)]


def rows_apart(outcome, others):
    """Rows of keys and values that differ by more than rounding from `others`, the same numbers
    one behind the other."""
    out, at = [], 0
    for theirs in numbers_of(outcome):
        gap = np.abs(theirs - others[at:at + theirs.size].reshape(theirs.shape)).max(-1)
        out.append((gap > CLOSE_ENTRIES * np.abs(theirs).max()).ravel())
        at += theirs.size
    return np.concatenate(out)
