"""_event.py - one context and the rule that is to evict from it: layers pass by, then sets are selected.

SPDX-License-Identifier: MIT
"""
import contextlib
import ctypes
import operator
import os
import threading
import weakref
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ._ledger import Counting
from ._library import About, Error, Facts, Outside, check, library

DTYPES = {torch.float32: 0, torch.float16: 3, torch.bfloat16: 4}  # fb_dtype
PUBLISHED, NONE = 1, 2  # fb_protect_kind


@dataclass
class Signals:
    """One layer of a context, as a function of yours sees it: what it returns are scores
    [heads, n], [kv_heads, n] or [1, n]; higher stays longer, +inf always, -inf last."""

    layer: int
    n_layers: int
    heads: int
    kv_heads: int
    head_dim: int
    n: int
    keys: torch.Tensor  # [kv_heads, n, head_dim], after rotary embedding
    values: torch.Tensor  # [kv_heads, n, value_dim], or None
    queries: torch.Tensor  # [heads, t, head_dim] of the last t tokens, or None
    scale: float  # of the logits q k^T


@dataclass
class Kept:
    """The positions that stay: `kept[layer][kv_head]`, a tensor of int64 on the host."""

    positions: list = field(repr=False)
    rule: str  # canonical: every parameter written out
    entries: int  # per head under an equal split
    n_protected: int  # of them
    fallback: bool  # fewer tokens than the rule needs: sinks and recents instead
    shrunk: bool  # some head may keep fewer entries than are protected
    ledger: dict = field(repr=False)  # work by operator: calls, flops, bytes

    def __getitem__(self, layer):
        return self.positions[layer]

    def __len__(self):
        return len(self.positions)


# --- operators, once per thread and list of devices ---

_of_thread = threading.local()
_files = []  # shared objects of rules, which all of them know


class _Operators:
    """An fb_guest; closed when its thread and the last event on it are gone."""

    def __init__(self, devices):
        self.thread, self.left, self.n_files = threading.get_ident(), [], 0
        self.handle = ctypes.c_void_p()
        check(library().fb_guest_open(ctypes.byref(self.handle), torch.__path__[0].encode(),
                                      ("torch:" + ",".join(devices)).encode()))
        weakref.finalize(self, _close_operators, self.handle, self.left).atexit = False

    def load(self, path):
        """A file of rules; one that is there already is left."""
        check(library().fb_guest_load(self.handle, path))

    def load_files(self):
        """Those that have come since."""
        while self.n_files < len(_files):
            self.load(_files[self.n_files])
            self.n_files += 1


def _close_left(left):
    """The events that another thread has forgotten."""
    while left:
        library().fb_event_close(left.pop())


def _close_operators(handle, left):
    _close_left(left)
    library().fb_guest_close(handle)


def _operators(devices):
    """Those of a tuple of device names."""
    opened = _of_thread.__dict__.setdefault("opened", {})
    if devices not in opened:
        opened[devices] = _Operators(devices)
    _close_left(opened[devices].left)
    opened[devices].load_files()
    return opened[devices]


def load(path):
    """Rules of a shared object (`examples/rule`): expressions know their names from now on, in every thread.

    It is machine code, and runs with the rights of this process.
    """
    path = os.fsencode(path)
    if b"\0" in path:
        raise Error(f"{path!r} is no path")
    path = os.path.abspath(path)
    _operators(("cpu",)).load(path)
    if path not in _files:
        _files.append(path)


@contextlib.contextmanager
def _plain(devices):
    """The library's calls are computed as they are written, whatever is switched on around them: autocast,
    modes that watch or change operators. Gradients, which it switches off for the thread, are put back."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        for kind in {device.split(":")[0] for device in devices}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(_disable_current_modes())
        yield


def _protection(protect):
    """(kind, sink, recent) of `protect`: (sink, recent), "published" or "none"."""
    if protect in ("none", None):
        return NONE, 0, 0
    if protect == "published":
        return PUBLISHED, 0, 0
    try:
        sink, recent = (operator.index(x) for x in protect)
        if 0 <= sink < 1 << 31 and 0 <= recent < 1 << 31:
            return 0, sink, recent
    except (TypeError, ValueError):
        pass
    raise Error(f"protect={protect!r} is not understood; write (sink, recent) as (4, 16), 'published' or 'none'")


def _tensor(x, name, layer):
    """A tensor [heads, n, d], or [1, heads, n, d] without its first dimension."""
    if not isinstance(x, torch.Tensor):
        raise Error(f"layer {layer}: {name} is a {type(x).__name__}, not a tensor")
    if x.dim() == 4 and x.shape[0] == 1:
        x = x[0]
    if x.dim() != 3:
        raise Error(f"layer {layer}: {name} has the shape {list(x.shape)}; [heads, tokens, width] of one sequence "
                    "was expected")
    if x.dtype not in DTYPES or x.layout != torch.strided or x.is_meta:
        raise Error(f"layer {layer}: {name} is {x.dtype} on {x.device}; dense f32, f16 or bf16 is read", "UNSUPPORTED")
    return x.detach().resolve_neg()


def _close_event(handle, operators):
    """Of an event that nobody holds any more; its operators are alive until here. In another thread, where the
    collector may run at any time, they may be at work: their own closes it then."""
    if operators.thread == threading.get_ident():
        library().fb_event_close(handle)
    else:
        operators.left.append(handle)


class Event:
    """A rule that is to evict from one context: `layer` for each layer in order, then `select`, in one thread."""

    def __init__(self, rule, *, budget, layers, protect=(4, 16), seed=0, devices=None):
        if not (isinstance(rule, str) or callable(rule)):
            raise Error(f"a rule is an expression or a function, not a {type(rule).__name__}")
        if isinstance(rule, str) and "\0" in rule:
            raise Error(f"rule {rule!r} is not understood")
        self.rule, self.budget, self.layers, self.seed = rule, str(budget), layers, seed
        self.protection, self.devices = _protection(protect), devices
        self.ledger = {}
        self.handle = self.n = None
        self._finalizer = self._thread = None

    @property
    def name(self):
        """The rule for sentences: its expression or the name of its function."""
        return self.rule if isinstance(self.rule, str) else getattr(self.rule, "__name__", "rule")

    def _open(self, keys, values, queries):
        kv_heads, self.n, width = keys.shape
        kind, sink, recent = self.protection
        given = None if isinstance(self.rule, str) else self.name.encode()
        about = About(rule=self.rule.encode() if given is None else None, given=given, budget=self.budget.encode(),
                      protect=kind, sink=sink, recent=recent, layers=self.layers,
                      heads=kv_heads if queries is None else queries.shape[0], kv_heads=kv_heads, head_dim=width,
                      tokens=self.n, value_dim=width if values is None else values.shape[2],
                      dtype=DTYPES[keys.dtype], seed=self.seed)
        self.about = about
        out = ctypes.c_void_p()
        operators = _operators(self.devices)
        check(library().fb_event_open(ctypes.byref(out), operators.handle, ctypes.byref(about)))
        self.handle, self._thread = out, operators.thread
        self._finalizer = weakref.finalize(self, _close_event, out, operators)
        self._finalizer.atexit = False

    def _check_thread(self):
        if self.handle is not None and self._thread != threading.get_ident():
            raise Error("an event belongs to the thread that gave it its first layer")

    def check(self):
        """Refuses a rule or a budget that makes no sense, before there is any tensor."""
        with Event(self.rule, budget=self.budget, layers=self.layers, devices=self.devices) as event:
            like = torch.empty(1, 1, 1).expand(1, 1 << 30, 1)
            with _plain(self.devices):
                event._open(like, like, like)

    def _outside(self, x):
        """How a tensor is described to the library, where it lies."""
        if str(x.device) not in self.devices:
            raise Error(f"a tensor on {x.device}, where {', '.join(self.devices)} was expected")
        return Outside(x.data_ptr(), DTYPES[x.dtype], self.devices.index(str(x.device)),
                       (ctypes.c_int64 * 3)(*x.shape), (ctypes.c_int64 * 3)(*x.stride()))

    def layer(self, layer, keys, values=None, queries=None, scale=None):
        """Scores a layer: keys [kv_heads, n, d], values alike, queries [heads, t, d] of the last t tokens."""
        self._check_thread()
        keys = _tensor(keys, "keys", layer)
        values = None if values is None else _tensor(values, "values", layer)
        queries = None if queries is None else _tensor(queries, "queries", layer)
        scale = max(1, keys.shape[2]) ** -0.5 if scale is None else scale
        if self.devices is None:
            self.devices = (str(keys.device),)
        with _plain(self.devices):
            if self.handle is None:
                self._open(keys, values, queries)
            if not isinstance(self.rule, str):
                self._score(layer, keys, values, queries, scale)
                return
            tensors = [None if x is None else ctypes.byref(self._outside(x)) for x in (queries, keys, values)]
            check(library().fb_event_layer(self.handle, layer, *tensors, scale))

    def _score(self, layer, keys, values, queries, scale):
        """A function's scores of a layer, counted."""
        about = self.about
        signals = Signals(layer, about.layers, about.heads, about.kv_heads, about.head_dim, self.n, keys, values,
                          queries, scale)
        with Counting(self.name, self.ledger, [x for x in (keys, values, queries) if x is not None]):
            scores = self.rule(signals)
        if not isinstance(scores, torch.Tensor) or scores.dim() != 2:
            what = list(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
            raise Error(f"rule '{self.name}' returned {what}; scores [rows, {self.n}] were expected", "DEFECT")
        scores = scores.detach().to(torch.float32)[None].contiguous()
        check(library().fb_event_scores(self.handle, layer, ctypes.byref(self._outside(scores))))

    def select(self):
        """The kept sets, after every layer; closes the event."""
        if self.handle is None:
            raise Error("no layer was given yet")
        self._check_thread()
        facts, slots = Facts(), []
        with _plain(self.devices):
            check(library().fb_event_select(self.handle, ctypes.byref(facts)))
        for layer in range(self.layers):
            slots.append([self._kept(layer, g) for g in range(self.about.kv_heads)])
        kept = Kept(slots, library().fb_event_rule(self.handle).decode(), facts.entries, facts.n_protected,
                    bool(facts.fallback), bool(facts.shrunk), self._work())
        self.close()
        return kept

    def _kept(self, layer, kv_head):
        n = ctypes.c_int64()
        positions = library().fb_event_kept(self.handle, layer, kv_head, ctypes.byref(n))
        return torch.tensor(positions[:n.value], dtype=torch.int64)

    def _work(self):
        """The ledger: of a function what it called, and for all what the library did."""
        name, calls = ctypes.c_char_p(), ctypes.c_int64()
        flops, nbytes, index = ctypes.c_double(), ctypes.c_double(), 0
        while library().fb_event_work(self.handle, index, *(ctypes.byref(x) for x in (name, calls, flops, nbytes))):
            if calls.value > 0:
                self.ledger["fb_" + name.value.decode()] = {"calls": calls.value, "flops": int(flops.value),
                                                            "bytes": int(nbytes.value)}
            index += 1
        return self.ledger

    def close(self):
        """Lets go of the library's part, as forgetting the event does; may be called again."""
        if self._finalizer is not None:
            self._finalizer()
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
