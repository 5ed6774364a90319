#!/usr/bin/env python3
"""run_select.py - flexbudget.torch.select: the program's rules on tensors of one's own.

SPDX-License-Identifier: MIT
"""
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import torch_python  # noqa: E402

torch_python.need("torch", "numpy")
import numpy as np  # noqa: E402
import numpy_rules  # noqa: E402
import torch  # noqa: E402
from torch_python import raises  # noqa: E402

import flexbudget.torch as fb  # noqa: E402
from flexbudget import _event  # noqa: E402

LAYERS, HEADS, KV_HEADS, N, D = 3, 6, 2, 200, 16
RULES = {
    "snapkv:window=16": lambda q, k, s: numpy_rules.snapkv(q, k, s, 16),
    "tova": numpy_rules.tova,
    "knorm": numpy_rules.knorm,
    "keydiff": numpy_rules.keydiff,
    "streaming_llm": numpy_rules.streaming_llm,
    "observed_attention": numpy_rules.observed_attention,
}


def tensors(n=N, dtype=torch.float32, seed=1):
    """Keys, values, queries of every layer, as a model has them: [tokens, heads, d] turned."""
    generator = torch.Generator().manual_seed(seed)

    def make(heads):
        x = torch.randn(1, n, heads, D, generator=generator, dtype=torch.float32)
        return x.to(dtype).transpose(1, 2)

    return tuple([make(heads) for _ in range(LAYERS)] for heads in (KV_HEADS, KV_HEADS, HEADS))


def doubles(x):
    return x[0].to(torch.float64).numpy()


def check_against_numpy(rule, kept, keys, queries, k, choose=numpy_rules.select):
    n = keys[0].shape[2]
    for layer in range(LAYERS):
        scores, unscored = RULES[rule](doubles(queries[layer]), doubles(keys[layer]), D ** -0.5)
        for g, expected in enumerate(choose(scores, unscored, n, k)):
            wrong = numpy_rules.differences(kept[layer][g], expected)
            assert not wrong, f"{rule}: layer {layer}, head {g}: {sorted(wrong)}"


def every_rule_keeps_what_numpy_keeps():
    for dtype in (torch.float32, torch.bfloat16):
        keys, values, queries = tensors(dtype=dtype)
        for rule in RULES:
            kept = fb.select(rule, keys, values, queries, budget="30%")
            assert len(kept) == LAYERS and kept.entries == 60 and kept.rule.startswith(rule.split(":")[0])
            assert all(len(p) == 60 for layer in kept for p in layer)
            check_against_numpy(rule, kept, keys, queries, 60)


def a_long_context_goes_in_blocks():
    keys, values, queries = tensors(n=700)
    for rule in ("observed_attention", "snapkv:window=16"):
        kept = fb.select(rule, keys, None, queries, budget="70t")
        check_against_numpy(rule, kept, keys, queries, 70)


def a_shared_budget_is_shared_as_in_numpy():
    keys, _, queries = tensors()
    kept = fb.select("adakv(snapkv:window=16)", keys, None, queries, budget="30%")
    counts = [[len(p) for p in layer] for layer in kept]
    assert all(sum(c) == 2 * 60 for c in counts) and any(c[0] != c[1] for c in counts)
    check_against_numpy("snapkv:window=16", kept, keys, queries, 60, numpy_rules.select_adakv)


def a_window_rule_needs_the_last_queries_alone():
    keys, _, queries = tensors()
    whole = fb.select("snapkv:window=16", keys, None, queries, budget="30%")
    last = fb.select("snapkv:window=16", keys, None, [q[:, :, -16:] for q in queries], budget="30%")
    same = [torch.equal(a, b) for x, y in zip(whole, last) for a, b in zip(x, y)]
    assert all(same)


def one_layer_is_a_tensor():
    keys, _, _ = tensors()
    kept = fb.select("knorm", keys[0][0], budget="50t", protect="none")
    assert len(kept) == 1 and [len(p) for p in kept[0]] == [50, 50]
    norms = np.linalg.norm(doubles(keys[0]), axis=-1)
    assert set(kept[0][0].tolist()) == set(np.argsort(norms[0])[:50].tolist())


def random_numbers_follow_the_seed():
    keys, _, _ = tensors()
    sets = [fb.select("random", keys, budget="30%", seed=s)[1][1].tolist() for s in (1, 1, 2)]
    assert sets[0] == sets[1] != sets[2]


def the_ledger_says_what_was_done():
    keys, _, queries = tensors()
    ledger = fb.select("snapkv:window=16", keys, None, queries, budget="30%").ledger
    attention = ledger["fb_attention"]
    assert attention["calls"] == LAYERS and attention["flops"] > LAYERS * HEADS * 16 * 190 * 4 * D
    assert ledger["fb_avg_pool1d"]["flops"] > 0 and ledger["fb_mean"]["bytes"] > 0


def the_callers_torch_is_left_as_it_was():
    keys, _, _ = tensors()
    threads = torch.get_num_threads()
    torch.set_grad_enabled(True)
    keys[0].requires_grad_(True)
    fb.select("knorm", keys, budget="30%")
    assert torch.is_grad_enabled() and torch.get_num_threads() == threads
    environment = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    assert ("OMP_NUM_THREADS" in environment) == ("OMP_NUM_THREADS" in os.environ)


def what_is_switched_on_around_changes_nothing():
    from torch.utils.flop_counter import FlopCounterMode

    keys, values, queries = tensors()
    rule = "snapkv:window=16"
    plain = fb.select(rule, keys, values, queries, budget="30%")
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode(), FlopCounterMode(display=False):
        within = fb.select(rule, keys, values, queries, budget="30%")
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))  # the caller's own modes are on again
        assert torch.is_autocast_enabled("cpu")
    assert all(torch.equal(a, b) for x, y in zip(plain, within) for a, b in zip(x, y))


def threads_and_events_do_not_meet():
    keys, _, queries = tensors()
    expected = fb.select("keydiff", keys, budget="30%")
    left = fb.Event("knorm", budget="30%", layers=LAYERS)
    left.layer(0, keys[0])  # and never ends
    wrong = []

    def work():
        for _ in range(5):
            kept = fb.select("keydiff", keys, budget="30%")
            wrong.extend(1 for x, y in zip(kept, expected) for a, b in zip(x, y) if not torch.equal(a, b))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    left.close()
    left.close()
    raises(left.select, "no layer was given")


def an_event_belongs_to_one_thread():
    keys, _, _ = tensors()
    event, said = fb.Event("knorm", budget="30%", layers=LAYERS), []
    event.layer(0, keys[0])
    thread = threading.Thread(target=lambda: said.append(raises(lambda: event.layer(1, keys[1]), "thread")))
    thread.start()
    thread.join()
    assert said
    event.layer(1, keys[1])
    event.close()


def what_a_collector_in_another_thread_finds_is_closed_by_its_own():
    """An event in a cycle is closed when the collector comes by, which is in any thread."""
    keys, _, _ = tensors()
    event = fb.Event("knorm", budget="30%", layers=LAYERS)
    event.layer(0, keys[0])
    operators = _event._operators(event.devices)
    event.itself = event
    del event
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    assert len(operators.left) == 1
    fb.select("knorm", keys, budget="30%")
    assert not operators.left


def a_rule_does_not_write_into_its_signals():
    keys, _, _ = tensors()
    before = [k.clone() for k in keys]
    for rule in (lambda s: s.keys.zero_()[..., 0], lambda s: torch.exp(s.keys, out=s.keys)[..., 0],
                 lambda s: s.keys[0].add_(1)[None, :, 0]):
        raises(lambda r=rule: fb.select(r, keys, budget="30%"), "writes into a signal")
    fb.select(lambda s: s.keys.clone().zero_()[..., 0], keys, budget="30%")
    assert all(torch.equal(a, b) for a, b in zip(before, keys))


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def many_contexts_take_no_more_memory_than_one():
    keys, values, queries = tensors()

    def some(n):
        for _ in range(n):
            fb.select("adakv(snapkv:window=16)", keys, values, queries, budget="30%")
            fb.select(short_keys, keys, budget="30%")
            try:
                fb.select("h2o", keys, None, [q[:, :, -8:] for q in queries], budget="30%")
            except fb.Error:
                pass

    some(30)
    before = resident()
    some(1000 if os.environ.get("FLEXBUDGET_TEST_LONG") else 100)
    assert resident() - before < 4 << 20, resident() - before


def what_makes_no_sense_is_refused_in_a_sentence():
    keys, values, queries = tensors()
    raises(lambda: fb.select("snapvk", keys, budget="30%"), "unknown rule 'snapvk'", "did you mean 'snapkv'")
    raises(lambda: fb.select("snapkv:windw=3", keys, budget="30%"), "windw")
    raises(lambda: fb.select("knorm", keys, budget="much"), "budget 'much' is not understood")
    raises(lambda: fb.select("knorm", keys, budget="5B"), "below one entry per head")
    raises(lambda: fb.select("oracle", keys, None, queries, budget="30%"), "oracle", "still to come")
    raises(lambda: fb.select("snapkv", keys, budget="30%"), "layer 0", "queries")
    raises(lambda: fb.select("snapkv", keys, None, [q[:, :, -8:] for q in queries], budget="30%"), "8 tokens", "64")
    raises(lambda: fb.select("h2o", keys, None, [q[:, :, -8:] for q in queries], budget="30%"), "200")
    raises(lambda: fb.select("knorm", [keys[0], keys[1][:, :, :100]], budget="30%"), "layer 1", "[2, 100, 16]")
    raises(lambda: fb.select("snapkv", keys, None, [q[:, :5] for q in queries], budget="30%"), "5 query heads")
    raises(lambda: fb.select("knorm", keys[0][0, 0], budget="30%"), "shape")
    raises(lambda: fb.select("knorm", [k.double() for k in keys], budget="30%"), "float64")
    raises(lambda: fb.select("knorm", [k.to("meta") for k in keys], budget="30%"), "meta")
    raises(lambda: fb.select("knorm", [], budget="30%"), "at least one layer")
    raises(lambda: fb.select("knorm", keys, budget="30%", protect="most"), "protect")
    for protect in ("12", (1.5, 2), (-1, 2), (2**64 + 4, 16), (float("inf"), 1)):
        raises(lambda p=protect: fb.select("knorm", keys, budget="30%", protect=p), "protect", "(4, 16)")
    raises(lambda: fb.select("knorm\0and more", keys, budget="30%"), "not understood")
    raises(lambda: fb.select("knorm", None, budget="30%"), "keys are a NoneType")
    raises(lambda: fb.select("knorm", keys[0][..., :0], budget="30%"), "width 0")
    raises(lambda: fb.select("full", keys, budget="30%"), "keeps all")
    raises(lambda: fb.select(7, keys, budget="30%"), "rule")
    keys[1][0, 1, 7, 3] = float("nan")
    raises(lambda: fb.select("knorm", keys, budget="30%"), "knorm", "layer 1", "head 1", "entry 7", "NaN")
    fb.select("knorm", tensors()[0], budget="30%")  # and what comes next works


# --- rules of one's own ---


def short_keys(signals):
    """knorm, written by somebody else."""
    return -signals.keys.float().norm(dim=-1)


def last_query(signals):
    """Per query head: attention of the last query."""
    group = signals.heads // signals.kv_heads
    keys = signals.keys.repeat_interleave(group, 0)
    return torch.softmax(torch.bmm(signals.queries[:, -1:], keys.transpose(1, 2)) * signals.scale, -1)[:, 0]


def a_function_selects_as_the_rule_it_writes_down():
    keys, values, queries = tensors()
    mine, ours = (fb.select(r, keys, values, queries, budget="30%") for r in (short_keys, "knorm"))
    assert all(torch.equal(a, b) for x, y in zip(mine, ours) for a, b in zip(x, y))
    assert mine.rule == "short_keys"
    kept = fb.select(last_query, keys, values, queries, budget="30%", protect="none")
    assert all(len(p) == 60 for layer in kept for p in layer)


def a_functions_work_is_in_the_ledger():
    keys, values, queries = tensors()
    ledger = fb.select(last_query, keys, values, queries, budget="30%").ledger
    product = ledger["aten::bmm"]
    assert product["calls"] == LAYERS and product["flops"] == LAYERS * HEADS * N * D * 2, product
    assert product["bytes"] == LAYERS * 4 * (HEADS * D + HEADS * N * D + HEADS * N)
    assert ledger["aten::_softmax"]["flops"] == LAYERS * HEADS * N
    assert ledger["aten::transpose"]["flops"] == ledger["aten::transpose"]["bytes"] == 0
    assert ledger["fb_topk"]["calls"] == LAYERS


def an_operator_outside_aten_is_refused_by_name():
    keys, _, _ = tensors()

    @torch.library.custom_op("mine::hidden_norm", mutates_args=())
    def hidden_norm(x: torch.Tensor) -> torch.Tensor:
        return x.norm(dim=-1)

    library = torch.library.Library("parts", "DEF")
    library.define("norm(Tensor x) -> Tensor")
    library.impl("norm", lambda x: x.norm(dim=-1), "CompositeImplicitAutograd")

    raises(lambda: fb.select(lambda s: -hidden_norm(s.keys), keys, budget="30%"), "'mine::hidden_norm'", "aten")
    raises(lambda: fb.select(lambda s: -torch.ops.mine.hidden_norm.default(s.keys), keys, budget="30%"),
           "'mine::hidden_norm'")
    raises(lambda: fb.select(lambda s: -torch.ops.parts.norm(s.keys), keys, budget="30%"), "'parts::norm'")


def numbers_are_not_taken_out_of_tensors():
    keys, _, _ = tensors()
    outside = (lambda s: torch.from_numpy(s.keys.numpy().sum(-1)), lambda s: torch.tensor(s.keys[:, :, 0].tolist()),
               lambda s: s.keys[..., 0] + s.keys.data_ptr(), lambda s: torch.tensor(np.asarray(s.keys[..., 0])))
    for rule in outside:
        raises(lambda r=rule: fb.select(r, keys, budget="30%"), "takes numbers out of PyTorch")


def a_function_that_returns_nonsense_is_named():
    keys, _, _ = tensors()
    raises(lambda: fb.select(lambda s: None, keys, budget="30%"), "NoneType")
    raises(lambda: fb.select(lambda s: s.keys, keys, budget="30%"), "[2, 200, 16]")
    raises(lambda: fb.select(lambda s: s.keys[:, :9, 0], keys, budget="30%"), "scores", "200")
    raises(lambda: fb.select(lambda s: s.keys[:1, :, 0].repeat(5, 1), keys, budget="30%"), "[5, 200]")
    raises(lambda: fb.select(lambda s: s.keys[..., 0] * float("nan"), keys, budget="30%"), "NaN")


def rules_of_a_file_are_known_by_name():
    keys, values, _ = tensors()
    raises(lambda: fb.select("fading", keys, values, budget="30%"), "unknown rule 'fading'")
    with tempfile.TemporaryDirectory() as folder:
        path = torch_python.example_rule(pathlib.Path(folder))
        fb.load(path)
        fb.load(path)
        kept = fb.select("fading:life=64", keys, values, budget="30%", protect="none")
        adaptive = []
        thread = threading.Thread(target=lambda: adaptive.append(fb.select("adakv(normalise(fading,by=rank))", keys, values, budget="30%")))
        thread.start()  # whose operators are its own
        thread.join()
    assert adaptive[0].rule.startswith("adakv(normalise(fading:life=256,")
    assert kept.rule == "fading:life=64"
    for layer in range(LAYERS):  # log of the value's length, and a natural logarithm per 64 tokens
        score = values[layer][0].double().norm(dim=-1).log() + torch.arange(N) / 64
        for g in range(KV_HEADS):
            best = score[g].topk(60)
            expected = set(best.indices.tolist()), best.values[-1].item(), score[g].numpy()
            assert not numpy_rules.differences(kept[layer][g], expected)
    raises(lambda: fb.load(__file__), "cannot be loaded as a shared object")
    raises(lambda: fb.load("nowhere.so"), "nowhere.so': cannot open")


torch_python.main([
    every_rule_keeps_what_numpy_keeps, a_long_context_goes_in_blocks, a_shared_budget_is_shared_as_in_numpy,
    a_window_rule_needs_the_last_queries_alone, one_layer_is_a_tensor, random_numbers_follow_the_seed,
    the_ledger_says_what_was_done, the_callers_torch_is_left_as_it_was, what_is_switched_on_around_changes_nothing,
    threads_and_events_do_not_meet, an_event_belongs_to_one_thread,
    what_a_collector_in_another_thread_finds_is_closed_by_its_own, a_rule_does_not_write_into_its_signals, many_contexts_take_no_more_memory_than_one,
    what_makes_no_sense_is_refused_in_a_sentence,
    a_function_selects_as_the_rule_it_writes_down, a_functions_work_is_in_the_ledger,
    an_operator_outside_aten_is_refused_by_name, numbers_are_not_taken_out_of_tensors,
    a_function_that_returns_nonsense_is_named, rules_of_a_file_are_known_by_name,
])
