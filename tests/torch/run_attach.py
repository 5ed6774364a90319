#!/usr/bin/env python3
"""run_attach.py - flexbudget.torch.attach: rules on models that our own engine does not know.

The models are made here, from a configuration and random numbers. SPDX-License-Identifier: MIT
"""
import copy
import os
import pathlib
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import torch_python  # noqa: E402

torch_python.need("torch", "numpy", "transformers")
os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
import numpy_rules  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from torch_python import raises  # noqa: E402

import flexbudget.torch as fb  # noqa: E402

N, K = 120, 48  # tokens, entries per head at 40 %
SMALL = {"vocab_size": 97, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 6,
         "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
GROUPED = SMALL | {"num_key_value_heads": 2}
FAMILIES = {
    "GPTNeoX": SMALL,
    "Olmo2": GROUPED,
    "Starcoder2": GROUPED | {"sliding_window": None, "use_sliding_window": False},
    "Cohere": GROUPED,
}


def make(family, attention="sdpa", **changes):
    """A model of random numbers, with some structure in its attention."""
    torch.manual_seed(7)
    config = getattr(transformers, family + "Config")(**FAMILIES[family] | changes)
    model = getattr(transformers, family + "ForCausalLM")._from_config(config, attn_implementation=attention)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.normal_(0, 0.3 if "embed" not in name else 1)
    return model.eval()


def prompt(n=N):
    return torch.randint(2, 97, (1, n), generator=torch.Generator().manual_seed(3))


def captured(model, ids):
    """Queries, keys, values of every layer, seen by an attention function of the test's own."""
    seen = {}
    original = model.config._attn_implementation
    base = transformers.AttentionInterface()["sdpa"]

    def watch(module, query, key, value, mask, **kwargs):
        seen[module.layer_idx] = (query, key, value, kwargs["scaling"])
        return base(module, query, key, value, mask, **kwargs)

    transformers.AttentionInterface.register("watching", watch)
    transformers.AttentionMaskInterface.register("watching", transformers.AttentionMaskInterface()["sdpa"])
    model.set_attn_implementation("watching")
    with torch.no_grad():
        model(ids)
    model.set_attn_implementation(original)
    return seen


def doubles(x):
    return x[0].double().numpy()


def every_architecture_keeps_what_the_rule_keeps_in_numpy():
    rules = {"snapkv:window=16": lambda q, k, s: numpy_rules.snapkv(q, k, s, 16), "keydiff": numpy_rules.keydiff,
             "tova": numpy_rules.tova, "knorm": numpy_rules.knorm, "streaming_llm": numpy_rules.streaming_llm,
             "observed_attention": numpy_rules.observed_attention}
    for family in FAMILIES:
        model, ids = make(family), prompt()
        seen = captured(model, ids)
        for rule, formula in rules.items():
            with fb.attach(model, rule, "40%") as attached:
                model.generate(ids, max_new_tokens=3, do_sample=False)
            assert attached.entries == attached.held == 3 * K * seen[0][1].shape[1]
            for layer, (q, k, _, scale) in seen.items():
                scores, unscored = formula(doubles(q), doubles(k), scale)
                for g, expected in enumerate(numpy_rules.select(scores, unscored, N, K)):
                    wrong = numpy_rules.differences(attached.kept[layer][g], expected)
                    assert not wrong, f"{family}, {rule}: layer {layer}, head {g}: {wrong}"


def the_caches_tensors_hold_what_stays_and_no_more():
    model, ids = make("Olmo2"), prompt()
    with torch.no_grad():
        full = model(ids, use_cache=True).past_key_values
        with fb.attach(model, "snapkv:window=16", "40%") as attached:
            cache = model(ids, use_cache=True).past_key_values
    for layer in range(3):
        assert cache.layers[layer].keys.shape == (1, 2, K, 8)
        for g, positions in enumerate(attached.kept[layer]):
            assert torch.equal(cache.layers[layer].keys[0, g], full.layers[layer].keys[0, g, positions])
            assert torch.equal(cache.layers[layer].values[0, g], full.layers[layer].values[0, g, positions])
    assert cache.get_seq_length() == N


def with_the_whole_budget_nothing_changes():
    for family in FAMILIES:
        for attention in ("sdpa", "eager"):
            model, ids = make(family, attention), prompt()
            plain = model.generate(ids, max_new_tokens=8, do_sample=False, output_logits=True,
                                   return_dict_in_generate=True)
            with fb.attach(model, "snapkv", "100%"):
                ours = model.generate(ids, max_new_tokens=8, do_sample=False, output_logits=True,
                                      return_dict_in_generate=True)
            assert torch.equal(plain.sequences, ours.sequences), family
            for a, b in zip(plain.logits, ours.logits):
                assert torch.allclose(a, b, rtol=1e-4, atol=1e-4), family
            assert model.config._attn_implementation == attention


def masked_logits(model, ids, new, visible):
    """What the model says where entries that went are masked in the full cache, position by position.
    visible [kv heads or 1, n], the same in every layer."""
    groups = model.config.num_attention_heads // visible.shape[0]
    with torch.no_grad():
        cache = model(ids, use_cache=True).past_key_values
        said = []
        for i in range(new.shape[1]):
            held = ids.shape[1] + i + 1
            mask = torch.zeros(1, visible.shape[0], 1, held)
            mask[:, :, :, :ids.shape[1]] = torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, :, None]
            out = model(new[:, i:i + 1], past_key_values=cache, attention_mask=mask.repeat_interleave(groups, 1),
                        position_ids=torch.tensor([[held - 1]]), cache_position=torch.tensor([held - 1]))
            said.append(out.logits[0, -1])
    return torch.stack(said)


def ours_logits(model, ids, new, steps):
    """The same with the rule attached; the new tokens in pieces of `steps`."""
    with torch.no_grad():
        cache = model(ids, use_cache=True).past_key_values
        said = [model(piece, past_key_values=cache).logits[0] for piece in new.split(steps, 1)]
    return torch.cat(said)


def ragged(signals):
    """High scores in head 0 early, in head 1 late: the same in every layer."""
    at = torch.arange(signals.n, dtype=torch.float32)
    return torch.stack([(at * 7.3).sin() * 3, (at * 5.1).cos()])


def generation_goes_on_as_if_the_others_were_masked():
    new = prompt(30)[:, 18:30]
    for family in FAMILIES:
        for attention in ("sdpa", "eager"):
            model, ids = make(family, attention), prompt()
            visible = torch.zeros(1, N, dtype=torch.bool)
            with fb.attach(model, "streaming_llm", "40%") as attached:
                said = [ours_logits(model, ids, new, steps) for steps in (1, 5)]
            visible[0, attached.kept[0][0]] = True
            expected = masked_logits(make(family, "eager"), ids, new, visible)
            for s in said:
                assert torch.allclose(s, expected, rtol=1e-3, atol=1e-3), (family, (s - expected).abs().max())


def heads_of_different_lengths_are_masked_not_mixed():
    new = prompt(30)[:, 18:30]
    for attention in ("sdpa", "eager"):
        model, ids = make("Olmo2", attention), prompt()
        with fb.attach(model, "adakv(snapkv:window=16)", "40%") as attached:
            cache_free = [ours_logits(model, ids, new, steps) for steps in (1, 5)]
        counts = [[len(p) for p in layer] for layer in attached.kept]
        assert all(sum(c) == 2 * K for c in counts) and any(c[0] != c[1] for c in counts), counts
        assert attached.entries == 3 * 2 * K < attached.held
        assert torch.allclose(cache_free[0], cache_free[1], rtol=1e-3, atol=1e-3)
    check_ragged_against_a_mask()


def check_ragged_against_a_mask():
    """A model of one layer, whose heads keep different numbers of entries."""
    new, ids = prompt(30)[:, 18:30], prompt()
    model = make("Olmo2", "sdpa", num_hidden_layers=1)
    with fb.attach(model, "adakv(keydiff)", "40%") as attached:
        said = ours_logits(model, ids, new, 1)
    kept = attached.kept[0]
    assert len(kept[0]) != len(kept[1])
    visible = torch.zeros(2, N, dtype=torch.bool)
    for g in range(2):
        visible[g, kept[g]] = True
    expected = masked_logits(make("Olmo2", "eager", num_hidden_layers=1), ids, new, visible)
    assert torch.allclose(said, expected, rtol=1e-3, atol=1e-3), (said - expected).abs().max()


def layers_with_a_window_are_left_alone():
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    FAMILIES["Cohere2"] = GROUPED | {"sliding_window": 32, "layer_types": types}
    try:
        model, ids = make("Cohere2"), prompt()
        with fb.attach(model, "snapkv:window=16", "40%") as attached:
            out = model(ids, use_cache=True)
            model.generate(ids, max_new_tokens=40, do_sample=False)
    finally:
        del FAMILIES["Cohere2"]
    assert len(attached.kept) == 1 and out.past_key_values.layers[1].keys.shape[2] == K
    assert out.past_key_values.layers[0].keys.shape[2] in (31, 32)


def a_function_runs_on_a_model_and_is_counted():
    model, ids = make("GPTNeoX"), prompt()

    def newest_by_norm(signals):
        return -signals.keys.norm(dim=-1) + torch.arange(signals.n) * 1e-3

    with fb.attach(model, newest_by_norm, "40%") as attached:
        out = model.generate(ids, max_new_tokens=4, do_sample=False)
    assert out.shape[1] == N + 4 and attached.kept.rule == "newest_by_norm"
    assert attached.kept.ledger["aten::linalg_vector_norm"]["calls"] == 3


def a_custom_operator_is_refused_by_name_on_a_model():
    model, ids = make("GPTNeoX"), prompt()

    @torch.library.custom_op("others::norm", mutates_args=())
    def norm(x: torch.Tensor) -> torch.Tensor:
        return x.norm(dim=-1)

    with fb.attach(model, lambda s: -norm(s.keys), "40%"):
        raises(lambda: model.generate(ids, max_new_tokens=2), "'others::norm'", "aten")


def what_cannot_be_attached_says_why():
    model, ids = make("Olmo2"), prompt()
    before = model.config._attn_implementation
    raises(lambda: fb.attach(model, "snapvk", "40%"), "unknown rule 'snapvk'")
    raises(lambda: fb.attach(model, "snapkv", "lots"), "budget 'lots'")
    raises(lambda: fb.attach(model, "oracle", "40%"), "still to come")
    assert model.config._attn_implementation == before
    with fb.attach(model, "snapkv", "40%") as attached:
        raises(lambda: attached.entries, "has not read a prompt")
        raises(lambda: fb.attach(model, "knorm", "40%"), "has a rule already")
        raises(lambda: model(ids.repeat(2, 1)), "2 sequences")
        raises(lambda: model(ids, use_cache=False), "use_cache=False")
        mask = torch.ones_like(ids)
        mask[0, :5] = 0
        raises(lambda: model(ids, attention_mask=mask), "padding")
        raises(lambda: model(ids, past_key_values=transformers.StaticCache(config=model.config, max_cache_len=200)),
               "StaticCache")
        cache = model(ids, use_cache=True).past_key_values
        raises(lambda: cache.crop(10), "cut back")
    every = ["sliding_attention"] * 3
    model = make("Olmo2")
    model.config.layer_types, model.config.sliding_window = every, 32
    raises(lambda: fb.attach(model, "snapkv", "40%"), "grows with the text")


def a_model_can_be_used_again_and_again():
    model, ids = make("Olmo2"), prompt()
    plain = model.generate(ids, max_new_tokens=6, do_sample=False)
    with fb.attach(model, "snapkv:window=16", "40%") as attached:
        first = model.generate(ids, max_new_tokens=6, do_sample=False)
        kept = attached.kept
        again = model.generate(ids, max_new_tokens=6, do_sample=False)
        short = model.generate(ids[:, :12], max_new_tokens=2, do_sample=False)
    assert torch.equal(first, again) and attached.kept is not kept
    assert attached.kept.fallback and short.shape[1] == 14
    assert torch.equal(model.generate(ids, max_new_tokens=6, do_sample=False), plain)
    assert not any(hasattr(m, "_flexbudget") for m in model.modules())


def threads_may_run_one_model():
    model, ids = make("Olmo2"), prompt()
    said = []
    with fb.attach(model, "snapkv:window=16", "40%"):
        expected = model.generate(ids, max_new_tokens=6, do_sample=False)
        threads = [threading.Thread(target=lambda: said.append(model.generate(ids, max_new_tokens=6, do_sample=False)))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(said) == 4 and all(torch.equal(s, expected) for s in said)


def a_detached_rule_leaves_the_next_one_alone():
    model, ids = make("Olmo2"), prompt()
    first = fb.attach(model, "knorm", "40%")
    first.detach()
    with fb.attach(model, "snapkv:window=16", "40%") as second:
        first.detach()
        model.generate(ids, max_new_tokens=2, do_sample=False)
        assert second.held == 3 * 2 * K
        copied = copy.deepcopy(model)
        assert copied.generate(ids, max_new_tokens=2, do_sample=False).shape[1] == N + 2


def the_examples_of_the_readme_run():
    text = (torch_python.ROOT / "python/README.md").read_text()
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert len(blocks) == 4
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        torch_python.example_rule(pathlib.Path(folder))
        os.chdir(folder)
        try:
            for block in blocks:
                exec(compile(block, "python/README.md", "exec"), {"__name__": "example"})
        finally:
            os.chdir(before)


torch_python.main([
    every_architecture_keeps_what_the_rule_keeps_in_numpy, the_caches_tensors_hold_what_stays_and_no_more,
    with_the_whole_budget_nothing_changes, generation_goes_on_as_if_the_others_were_masked,
    heads_of_different_lengths_are_masked_not_mixed, layers_with_a_window_are_left_alone,
    a_function_runs_on_a_model_and_is_counted, a_custom_operator_is_refused_by_name_on_a_model,
    what_cannot_be_attached_says_why, threads_may_run_one_model, a_detached_rule_leaves_the_next_one_alone, a_model_can_be_used_again_and_again,
    the_examples_of_the_readme_run,
])
