"""pairs.py - which press of kvpress 0.5.5 and which of our expressions keep the same entries.

PAIRS must agree. DELIBERATE are our defaults where they are meant to differ; each has a pair
above that follows the press. NOT_COMPARED says why of every other press.

SPDX-License-Identifier: MIT
"""
import kvpress as K


class Press:
    """How to build a press at a ratio, and how to say so."""

    def __init__(self, kind, inner=None, then=None, **settings):
        self.kind, self.inner, self.then, self.settings = kind, inner, then or {}, settings

    def build(self, ratio):
        if self.inner:
            return self.kind(self.inner.build(ratio), **self.settings)
        made = self.kind(compression_ratio=ratio, **self.settings)
        for name, value in self.then.items():
            setattr(made, name, value)
        return made

    def __str__(self):
        said = [str(self.inner)] if self.inner else []
        said += [f"{k}={v}" for k, v in (self.settings | self.then).items() if k != "delimiter_token_id"]
        name = self.kind.__name__.removesuffix("Press")
        return f"{name}({', '.join(said)})" if said else name


class Pair:
    """A press and a rule.

    choice  whose scores are ordered together: those of a "head", a "layer" or of "all"; those
            of "block" neighbours and all heads as one; "" where the set is not the best scores
    noise   what scores are perturbed by, in units of 2e-4: "score" of themselves, "lowest" of
            the distance from the lowest, "range" 5 absolutely (z-scores of a nearly singular
            system), "parts" of those that lagkv ranks
    block   neighbours whose scores are averaged, hence perturbed together as well
    count   what the press counts itself, so that our budget is its number of entries
    shift   of presses that count all heads together: what is added to the ratio at which they
            keep as much as if they counted head by head, so that it is not rounded away
    what    "entries": keys and values are compared too; "compact": those renumbered
    cut     the decision by which more of the last `window` tokens stay, in the block they begin in
    eager   whether the press reads attention that transformers computed
    shrunk  the decision by which others of the last `window` tokens stay, where less stays than
            is protected
    number  the decision by which its number of entries is not ours, by at most `slack` in a
            head (slack 0: by any, where the share of the text is no whole number), or in a last,
            shorter `span` of so many tokens
    """

    def __init__(self, press, rule, choice="head", noise="score", block=0, count=False, shift=0.0,
                 what="set", shrunk=None, number=None, slack=1, span=1,
                 window=0, cut=None, eager=False):
        self.press, self.choice, self.noise, self.block = press, choice, noise, block
        self.decision, self.rounding = None, "kvpress"
        self.count, self.shift, self.what = count, shift, what
        self.shrunk, self.number, self.slack, self.span = shrunk, number, slack, span
        self.window, self.cut, self.eager = window, cut, eager
        self.rule = rule

    def label(self):
        """How a table calls it."""
        if self.rule.startswith("compactor"):
            return "compactor, as kvpress"
        return self.rule + (", compact" if self.what == "compact" else "")

    def build(self, n, ratio):
        if self.shift:
            ratio = (n - max(1, int(n * (1 - ratio)))) / n + self.shift
        return self.press.build(ratio)

    def rule_at(self, ratio):
        """The expression; `{ratio}` in it is what leaves."""
        return self.rule.replace("{ratio}", f"{ratio:g}")


class Deliberate(Pair):
    """Our default beside a press that it is meant to differ from, and by which decision."""

    def __init__(self, press, rule, decision, rounding="kvpress"):
        super().__init__(press, rule)
        self.decision, self.rounding = decision, rounding

    def label(self):
        rule = "compactor" if self.rule.startswith("compactor") else self.rule
        return f"{rule}, {'exact' if self.rounding == 'exact' else 'default'}"


COMPACTOR = "compactor(noncausal:tail={tail},skip_first=8,skip_last=4,leverage:skip_first=8,skip_last=4,lift=0"
SNAPKV, EXPECTED, KNORM = Press(K.SnapKVPress), Press(K.ExpectedAttentionPress), Press(K.KnormPress)
KEYDIFF = Press(K.KeyDiffPress)
# without a text, the window that the delimiter would set
FINCH = {"window_size": 32, "delimiter_token_id": -1}

PAIRS = [
    Pair(Press(K.StreamingLLMPress), "streaming_llm:sink=4"),
    Pair(KNORM, "knorm"),
    Pair(KEYDIFF, "keydiff"),
    Pair(Press(K.CURPress), "cur:edge=kvpress"),
    Pair(Press(K.CURPress, leverage_type="key"), "cur:type=key,edge=kvpress"),
    Pair(Press(K.CURPress, leverage_type="value"), "cur:type=value,edge=kvpress"),
    Pair(Press(K.CURPress, leverage_type="kv_avg"), "cur:type=kv_avg,edge=kvpress"),
    Pair(Press(K.LagKVPress), "lagkv", noise="parts"),
    Pair(Press(K.LagKVPress, lag_size=32), "lagkv:lag=32", noise="parts"),
    Pair(Press(K.LagKVPress, lag_size=32, cross_scoring=True), "lagkv:lag=32,cross=1"),
    Pair(Press(K.TOVAPress), "tova"),
    Pair(SNAPKV, "snapkv"),
    Pair(Press(K.SnapKVPress, window_size=16), "snapkv:window=16"),
    Pair(Press(K.FinchPress, then=FINCH), "finch:window=32"),
    Pair(Press(K.FinchPress, normalize_scores=False, then=FINCH), "finch:window=32,normalise=0"),
    Pair(Press(K.ObservedAttentionPress), "observed_attention", eager=True),
    Pair(EXPECTED, "expected_attention"),
    Pair(Press(K.ExpectedAttentionPress, use_covariance=False, epsilon=0.02),
         "expected_attention:covariance=0,epsilon=0.02"),
    Pair(Press(K.CapPress), "cap"),
    Pair(Press(K.NonCausalAttnPress), "noncausal:tail=kvpress", noise="lowest"),
    Pair(Press(K.LeverageScorePress), "leverage:lift=0", noise="range"),
    Pair(Press(K.CompactorPress),
         COMPACTOR.format(tail="kvpress") + ",weight=fixed,fixed={ratio})", noise="range"),
    Pair(Press(K.KVzipPress), "flat(kvzip)", choice="all", shift=1e-9),
    Pair(Press(K.KVzipPress, kvzip_plus_normalization=True), "flat(kvzip:plus=1)", choice="all", shift=1e-9),
    Pair(Press(K.KVzipPress, chunk_size=100), "flat(kvzip:piece=100)", choice="all", shift=1e-9),
    Pair(Press(K.KVzipPress, layerwise=True), "adakv(kvzip,safeguard=0)", choice="layer", shift=1e-9),
    Pair(Press(K.KVComposePress), "composite(kvcompose)", shift=-1e-9, eager=True),
    Pair(Press(K.KVComposePress, structured=False), "flat(kvcompose)", choice="all", shift=-1e-9, eager=True),
    Pair(Press(K.AdaKVPress, SNAPKV), "adakv(snapkv)", choice="layer"),
    Pair(Press(K.AdaKVPress, EXPECTED), "adakv(expected_attention)", choice="layer"),
    Pair(Press(K.AdaKVPress, KEYDIFF), "adakv(keydiff)", choice="layer"),
    Pair(Press(K.CriticalKVPress, SNAPKV), "critical(snapkv)", window=64, shrunk="few"),
    Pair(Press(K.CriticalKVPress, EXPECTED), "critical(expected_attention)"),
    Pair(Press(K.CriticalAdaKVPress, SNAPKV), "adakv(critical(snapkv,safeguard=0.2))", choice="",
         window=64, shrunk="few"),
    Pair(Press(K.PyramidKVPress), "pyramid(snapkv,form=kvpress)", count=True, number="D8", slack=0),
    Pair(Press(K.PyramidKVPress, window_size=4, beta=10), "pyramid(snapkv:window=4,beta=10,form=kvpress)",
         count=True, number="D8", slack=0),
    Pair(Press(K.ChunkKVPress, SNAPKV), "chunk(snapkv,fill=none,cut=first)", choice="block", block=20,
         count=True, number="D10", slack=20),
    Pair(Press(K.ChunkKVPress, KEYDIFF), "chunk(keydiff,fill=none,cut=first)", choice="block", block=20,
         count=True, number="D10", slack=20),
    Pair(Press(K.EntropyGatedChunkKVPress, SNAPKV), "entropy_chunk(snapkv)", choice="block", block=10,
         window=64, cut="gate"),
    Pair(Press(K.EntropyGatedChunkKVPress, EXPECTED), "entropy_chunk(expected_attention)", choice="block", block=10),
    Pair(Press(K.ChunkPress, KNORM, chunk_length=128), "span(knorm,size=128)", choice="", count=True,
         span=128, number="span"),
    Pair(Press(K.BlockPress, KEYDIFF), "block(keydiff)", choice=""),
    Pair(Press(K.BlockPress, KNORM), "block(knorm)", choice=""),
    Pair(Press(K.MergingPress, KNORM), "merging(knorm)", what="entries"),
    Pair(Press(K.MergingPress, SNAPKV), "merging(snapkv)", what="entries"),
    Pair(Press(K.KeyRerotationPress, KNORM), "knorm", what="compact"),
    Pair(Press(K.KeyRerotationPress, SNAPKV), "snapkv", what="compact"),
]

DELIBERATE = [
    Deliberate(KNORM, "knorm", "D9", rounding="exact"),
    Deliberate(Press(K.CURPress), "cur", "D32"),
    Deliberate(Press(K.NonCausalAttnPress), "noncausal", "D19"),
    Deliberate(Press(K.CompactorPress), COMPACTOR.format(tail="exact") + ")", "D19"),
    Deliberate(Press(K.PyramidKVPress), "pyramid(snapkv)", "D8"),
    Deliberate(Press(K.ChunkKVPress, SNAPKV), "chunk(snapkv)", "D10"),
    Deliberate(Press(K.ChunkPress, KEYDIFF, chunk_length=128), "span(keydiff,size=128)", "local"),
]

DECISIONS = {
    "few": "less stays than is protected: we keep the newest, then sinks, then the newest of the others; this press "
           "chooses among them by its own score",
    "D8": "the line of a pyramid begins at n * (1 - ratio), whole or not, and is rounded layer by layer there; here it is "
          "that of whole entries, and every total is exact",
    "D9": "int(n * (1 - ratio)) in doubles keeps 99 of 1000 at 0.9; here n * keep is exact",
    "D10": "chunks are counted there, so that more or less than the budget stays; here what is left is filled by tokens",
    "D19": "what pads a last, shorter chunk takes part there; here it is left out and the chunk scaled",
    "D32": "a last, shorter block of neighbours is raised there; here it is scaled by its length",
    "span": "a last span of fewer tokens keeps at least one there; here what it may keep is given to the largest rests",
    "gate": "a chunk that the window begins in may be cut to four entries there; here the window stays",
    "local": "every span is scored alone there; here the inner rule scores the whole text",
}

NOT_COMPARED = {
    "RandomPress": "D34: draws from torch's generator, with a seed the same positions in every layer; `random` is a hash "
                   "of seed, layer, head and position",
    "SimLayerKVPress": "lazy: a threshold decides there how much stays, a budget here",
    "ThinKPress": "drops channels of keys, no entries",
    "CAMPress": "while decoding",
    "DecodingPress": "while decoding: protocol `stream`",
    "CompressionRatioDecodingPress": "while decoding: protocol `stream`",
    "PrefillDecodingPress": "one press for the text and one for the answer",
    "ComposedPress": "two presses in turn",
    "PerLayerCompressionPress": "a table of ratios given from outside",
    "DMSPress": "a threshold decides how much stays",
    "KVgradPress": "needs gradients",
    **{name: "needs weights or tables that were trained or measured beforehand" for name in (
        "DuoAttentionPress", "QFilterPress", "ExpectedAttentionStatsPress", "KVzapPress", "FastKVzipPress",
        "RestoreKVPress", "LUKVPress")},
    **{name: "no press of its own" for name in ("BasePress", "ScorerPress")},
}


def unknown_presses():
    """Presses of the installed kvpress about which nothing is said here."""
    said = set(NOT_COMPARED)
    for row in PAIRS + DELIBERATE:
        press = row.press
        while press:
            said.add(press.kind.__name__)
            press = press.inner
    return sorted(name for name in K.__all__ if name.endswith("Press") and name not in said)
