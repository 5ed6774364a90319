"""_attach.py - a rule on a model of `transformers`: prefill, evict once, go on generating.

Works on every architecture whose attention goes through the registry of transformers
(`AttentionInterface`): there queries, keys and values of each layer pass by after rotary embedding,
whatever the model is. During the prefill the rule scores each layer as it passes; after it the
entries that go are dropped from the cache's own tensors, so the memory is freed. Positions go on
where the prompt ended: entries keep the rotation they were written with.

Heads that keep different numbers of entries (adakv) lie in one tensor as wide as the longest head
of the layer; the rest of a shorter head is masked and never seen. `Attached.entries` says how many
entries stay, `Attached.held` how many places the tensors have.

SPDX-License-Identifier: MIT
"""
import inspect
import sys
import threading

import torch

from ._event import Event
from ._library import Error

BASES = ("sdpa", "eager")  # they take a mask for each head
PREFIX = "flexbudget_"
CACHE = ("past_key_values", "cache")  # its name in arguments and results; later releases have the second


def _first_of(get, names):
    """The first of the names that something is known by."""
    return next((get(name) for name in names if get(name) is not None), None)


def _transformers():
    """transformers' parts that are used; imported only here, since `select` needs none of them."""
    try:
        from transformers import AttentionInterface, cache_utils, masking_utils
    except ImportError as error:
        raise Error(f"attaching needs transformers >= 4.56: {error}", "NOT_FOUND") from None
    return AttentionInterface, cache_utils, masking_utils


def _kept_layer(layer, positions):
    """A layer of a DynamicCache that has lost all entries but `positions` [kv_heads] of them."""
    _, cache_utils, _ = _transformers()

    class KeptLayer(cache_utils.DynamicLayer):
        """What stays, and behind it every token that comes. Its length is that of the text."""

        is_kept = True

        def update(self, key_states, value_states, *args, **kwargs):
            self.seen += key_states.shape[-2]
            self.keys = torch.cat([self.keys, key_states], -2)
            self.values = torch.cat([self.values, value_states], -2)
            return self.keys, self.values

        def get_seq_length(self, *args):
            return self.seen

        def get_mask_sizes(self, query, *args):
            t = query if isinstance(query, int) else query.shape[0]
            held = self.keys.shape[-2]
            return held + t, self.seen - held

        def crop(self, max_length):
            raise Error("a cache that a rule has evicted from cannot be cut back", "UNSUPPORTED")

    device, width = layer.keys.device, max(len(p) for p in positions)
    index = torch.zeros(len(positions), width, dtype=torch.int64)
    hidden = torch.ones(len(positions), width, dtype=torch.bool)
    for g, p in enumerate(positions):
        index[g, :len(p)], hidden[g, :len(p)] = p, False
    index = index.to(device)[None, :, :, None]
    new = KeptLayer.__new__(KeptLayer)
    new.__dict__.update(layer.__dict__)  # whatever else the release has there
    new.seen = layer.keys.shape[-2]
    new.keys = layer.keys.gather(2, index.expand(-1, -1, -1, layer.keys.shape[-1]))
    new.values = layer.values.gather(2, index.expand(-1, -1, -1, layer.values.shape[-1]))
    new.hidden = hidden.to(device) if hidden.any() else None  # [kv_heads, width]
    return new


def _mask(layer, query, key):
    """What the t newest tokens see of a kept layer: [1, heads, t, held] of bool, or None for all."""
    t, held = query.shape[2], key.shape[2]
    if t == 1 and layer.hidden is None:
        return None
    last = torch.arange(held - t, held, device=key.device)
    seen = torch.arange(held, device=key.device)[None] <= last[:, None]  # [t, held]
    seen = seen[None].expand(key.shape[1], -1, -1).clone()
    if layer.hidden is not None:
        width = layer.hidden.shape[1]
        seen[:, :, :width] &= ~layer.hidden[:, None]
    return seen.repeat_interleave(query.shape[1] // key.shape[1], 0)[None]


def _base(name, module):
    """The model's own attention."""
    if name == "eager":
        function = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
        if function is not None:
            return function
        raise Error(f"{type(module).__name__} has no eager attention of the usual form; load the model with "
                    "attn_implementation='sdpa'", "UNSUPPORTED")
    interface, _, _ = _transformers()
    return interface()[name]


def _attention(name):
    """An attention function for the registry: shows the layer to the rule, then does what `name` does."""

    def forward(module, query, key, value, attention_mask, **kwargs):
        attached = getattr(module, "_flexbudget", None)
        if attached is not None:
            attached.see(module, query, key, value, kwargs)
            layer = attached.kept_layer(module)
            if layer is not None:
                attention_mask = _mask(layer, query, key)
                if name == "eager" and attention_mask is not None:
                    lowest = torch.finfo(query.dtype).min
                    attention_mask = torch.zeros_like(attention_mask, dtype=query.dtype).masked_fill(
                        ~attention_mask, lowest)
        return _base(name, module)(module, query, key, value, attention_mask, **kwargs)

    return forward


def _register():
    """Our names in the registries: the same masks as the attention that they stand for."""
    interface, _, masking_utils = _transformers()
    masks = masking_utils.AttentionMaskInterface()
    for name in BASES:
        interface.register(PREFIX + name, _attention(name))
        masking_utils.AttentionMaskInterface.register(PREFIX + name, masks[name])


class _Pass(threading.local):
    """The forward pass at work, of each thread that runs the model."""

    event = cache = None

    def __reduce__(self):  # a copy of the model begins anew
        return _Pass, ()


class Attached:
    """A rule on a model. `kept` is what the last prefill left; `detach` gives the model back."""

    def __init__(self, model, rule, budget, protect, seed):
        if not hasattr(getattr(model, "config", None), "_attn_implementation"):
            raise Error(f"a {type(model).__name__} is no model of transformers")
        self.model, self.rule = model, rule
        self.options = {"budget": budget, "protect": protect, "seed": seed}
        self.kept = None
        self.now = _Pass()
        self.signature = inspect.signature(model.forward)
        self.original = model.config._attn_implementation
        if str(self.original).startswith(PREFIX):
            raise Error("the model has a rule already; detach() that one first")
        if getattr(model.config, "is_encoder_decoder", False):
            raise Error(f"{type(model).__name__} has an encoder; a rule evicts from causal models", "UNSUPPORTED")
        if self.original not in BASES:
            raise Error(f"the model's attention is '{self.original}', which has no mask for each head; load it with "
                        "attn_implementation='sdpa' or 'eager'", "UNSUPPORTED")
        self.layers = self._evictable()
        self._open_rule().check()  # a rule or a budget that makes no sense is refused now
        self.modules = [m for m in model.modules() if isinstance(getattr(m, "layer_idx", None), int)]
        _register()
        model.set_attn_implementation(PREFIX + self.original)
        if model.config._attn_implementation != PREFIX + self.original:
            raise Error(f"{type(model).__name__} does not take its attention from transformers' registry",
                        "UNSUPPORTED")
        for module in self.modules:
            module._flexbudget = self
        self.hooks = [model.register_forward_pre_hook(self._before, with_kwargs=True),
                      model.register_forward_hook(self._after, with_kwargs=True)]

    def detach(self):
        """The model as it was; may be called again."""
        if not self.hooks:
            return
        for hook in self.hooks:
            hook.remove()
        for module in self.modules:
            del module._flexbudget
        self.hooks, self.modules = [], []
        self.model.set_attn_implementation(self.original)
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.detach()

    @property
    def entries(self):
        """Entries that the last prefill left, over all layers and kv heads."""
        return sum(len(p) for layer in self._positions() for p in layer)

    @property
    def held(self):
        """Places that their tensors have: more than `entries` where heads differ."""
        return sum(max(len(p) for p in layer) * len(layer) for layer in self._positions())

    def _positions(self):
        if self.kept is None:
            raise Error("the model has not read a prompt yet")
        return self.kept.positions

    # --- the model's layers ---

    def _evictable(self):
        """Indices of layers whose cache grows with the text; those with a window are not evicted from."""
        _, cache_utils, _ = _transformers()
        layers = cache_utils.DynamicCache(config=self.model.config).layers
        found = [i for i, layer in enumerate(layers) if type(layer) is cache_utils.DynamicLayer]
        if not found:
            raise Error(f"no layer of {type(self.model).__name__} has a cache that grows with the text", "UNSUPPORTED")
        return found

    def _open_rule(self):
        devices = tuple(dict.fromkeys(str(p.device) for p in self.model.parameters() if not p.is_meta))
        return Event(self.rule, layers=len(self.layers), devices=devices, **self.options)

    def _close(self):
        if self.now.event is not None:
            self.now.event.close()
        self.now.event = None

    # --- a forward pass of the model ---

    def _before(self, model, args, kwargs):
        """A pass of several tokens on an empty cache is a prefill."""
        given = self.signature.bind_partial(*args, **kwargs).arguments
        given = given | given.get("kwargs", {})
        ids = given.get("input_ids")
        ids = given.get("inputs_embeds") if ids is None else ids
        self._close()
        self.now.cache = _first_of(given.get, CACHE)
        if ids is None or (self.now.cache is not None and self.now.cache.get_seq_length() > 0):
            return
        self._check(given, ids)
        self.now.event = self._open_rule()

    def _check(self, given, ids):
        _, cache_utils, _ = _transformers()
        mask = given.get("attention_mask")
        if ids.shape[0] != 1:
            raise Error(f"{ids.shape[0]} sequences; a rule evicts from one at a time", "UNSUPPORTED")
        if given.get("use_cache") is False:
            raise Error("use_cache=False leaves nothing to evict from")
        if self.now.cache is not None and type(self.now.cache) is not cache_utils.DynamicCache:
            raise Error(f"the cache is a {type(self.now.cache).__name__}; a DynamicCache can be evicted from",
                        "UNSUPPORTED")
        if isinstance(mask, torch.Tensor) and (mask.dim() != 2 or not mask.bool().all()):
            raise Error("a prompt with padding or a mask of its own; a rule reads plain causal attention",
                        "UNSUPPORTED")

    def see(self, module, query, key, value, about):
        """From the attention function: one layer on its way through the prefill."""
        if self.now.event is None or module.layer_idx not in self.layers:
            return
        odd = [k for k in ("softcap", "s_aux", "position_bias") if about.get(k) is not None]
        layer = self.layers.index(module.layer_idx)
        if odd and not callable(self.rule):
            query = None  # a rule that reads attention is told that there is none
        try:
            self.now.event.layer(layer, key, value, query, about.get("scaling"))
        except Error as error:
            if not odd:
                raise
            raise Error(f"{error} (attention with '{odd[0]}' is not plain)", error.status) from None

    def kept_layer(self, module):
        """The layer of the cache that the module reads, if a rule has evicted from it."""
        layers = getattr(self.now.cache, "layers", ())
        if module.layer_idx < len(layers) and getattr(layers[module.layer_idx], "is_kept", False):
            return layers[module.layer_idx]
        return None

    def _after(self, model, args, kwargs, output):
        """After the prefill: the sets are selected and the rest is dropped."""
        cache, self.now.cache = self.now.cache, None  # whose memory is the caller's to keep
        if self.now.event is None:
            return
        cache = cache if cache is not None else _first_of(lambda name: getattr(output, name, None), CACHE)
        if cache is None:
            raise Error("the model gave no cache to evict from; call it with use_cache=True")
        self.kept = self.now.event.select()
        for layer, positions in zip(self.layers, self.kept.positions):
            cache.layers[layer] = _kept_layer(cache.layers[layer], positions)
        self._close()


def attach(model, rule, budget, *, protect=(4, 16), seed=0):
    """Puts a rule on a causal language model of transformers, any architecture.

    Each time the model reads a prompt on an empty cache (`model.generate` does), the rule scores its
    entries, the budget decides which stay, and generation goes on with those. Returns an `Attached`;
    its `detach()` ends it, and it may stand in a `with`.
    """
    return Attached(model, rule, budget, protect, seed)
