"""peer_torch.py - times of transformers and kvpress on the weights of a GGUF file, as JSON.

    peer_torch.py MODEL.gguf THREADS sweep PROMPTS.json OUT.json
    peer_torch.py MODEL.gguf THREADS memory TOKENS RULE BUDGET
    peer_torch.py MODEL.gguf THREADS context TOKENS [eager]
    peer_torch.py MODEL.gguf THREADS decode SEQUENCES TOKENS STEPS [eager]
    peer_torch.py MODEL.gguf THREADS held TOKENS RULE BUDGET

The weights are unpacked to float32 once; the model runs in float32, sdpa, and eager only where that
is asked for or a press demands it. One cell of the sweep is what kvpress's own pipeline does: the context with the
press, the question in one forward, then greedy tokens one by one. `held` is the bytes of the cache's tensors after a press, and without one.

SPDX-License-Identifier: MIT
"""

import contextlib
import json
import resource
import sys
import time

import gguf
import numpy as np
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

RATIOS = {"75%": 0.25, "50%": 0.5, "25%": 0.75, "10%": 0.9}
ANSWER = 32


def unrotate(rows: np.ndarray, heads: int) -> np.ndarray:
    """GGUF's Llama interleaves the rotary pairs of q and k; transformers keeps halves."""
    out, width = rows.shape
    pairs = rows.reshape(heads, out // heads // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(out, width)


def load(path: str) -> LlamaForCausalLM:
    reader = gguf.GGUFReader(path)

    def field(name: str):
        return reader.fields["llama." + name].contents()

    tensors = {
        t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors
    }
    heads, kv_heads = field("attention.head_count"), field("attention.head_count_kv")
    config = LlamaConfig(
        vocab_size=tensors["token_embd.weight"].shape[0],
        hidden_size=field("embedding_length"),
        intermediate_size=field("feed_forward_length"),
        num_hidden_layers=field("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=field("context_length"),
        rms_norm_eps=field("attention.layer_norm_rms_epsilon"),
        rope_theta=field("rope.freq_base"),
        rope_parameters={"rope_type": "default", "rope_theta": field("rope.freq_base")},
        tie_word_embeddings="output.weight" not in tensors,
    )
    names = {
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
    }
    state = {
        "model.embed_tokens.weight": tensors["token_embd.weight"],
        "model.norm.weight": tensors["output_norm.weight"],
        "lm_head.weight": tensors.get("output.weight", tensors["token_embd.weight"]),
    }
    for name, rows in tensors.items():
        if not name.startswith("blk."):
            continue
        _, layer, kind, _ = name.split(".")
        if kind in ("attn_q", "attn_k"):
            rows = unrotate(rows, heads if kind == "attn_q" else kv_heads)
        state[f"model.layers.{layer}.{names[kind]}.weight"] = rows
    model = LlamaForCausalLM(config)
    model.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in state.items()})
    model.generation_config.eos_token_id = int(reader.fields["tokenizer.ggml.eos_token_id"].contents())
    return model.eval()


def presses():
    import kvpress as kv

    return {
        "random": lambda r: kv.RandomPress(r),
        "streaming_llm": lambda r: kv.StreamingLLMPress(r),
        "knorm": lambda r: kv.KnormPress(r),
        "keydiff": lambda r: kv.KeyDiffPress(r),
        "tova": lambda r: kv.TOVAPress(r),
        "snapkv": lambda r: kv.SnapKVPress(r),
        "adakv(snapkv)": lambda r: kv.AdaKVPress(kv.SnapKVPress(r)),
        "observed_attention": lambda r: kv.ObservedAttentionPress(r),
    }


def run_cell(model, name, press, context, question):
    """One cell; the answer's ids, the cache, and the seconds of the context with the press."""
    model.set_attn_implementation("eager" if name == "observed_attention" else "sdpa")
    for layer in model.model.layers:  # AdaKV leaves its mask behind
        layer.self_attn.masked_key_indices = None
    cache = DynamicCache()
    n, q = context.shape[1], question.shape[1]
    start = time.perf_counter()
    with press(model):
        model.model(input_ids=context, past_key_values=cache)
    read = time.perf_counter() - start
    position = torch.arange(n, n + q)[None]
    out = model(question, past_key_values=cache, position_ids=position, logits_to_keep=1)
    answer, end = [], model.generation_config.eos_token_id
    for step in range(ANSWER):
        token = int(out.logits[0, -1].argmax())
        if token == end:
            break
        answer.append(token)
        if step == ANSWER - 1:
            break
        position = torch.tensor([[n + q + step]])
        out = model(torch.tensor([[token]]), past_key_values=cache, position_ids=position)
    return answer, cache, read


def kept_positions(model, name, ratio, cache, full):
    """Positions of the entries that stayed, by finding each key among all keys: the nearest,
    for the eager kernel's keys are not the very bits of the other's."""
    slots = []
    for layer, block in enumerate(cache.layers):
        attention = model.model.layers[layer].self_attn
        masked = getattr(attention, "masked_key_indices", None)
        keys = full.layers[layer].keys
        for head in range(keys.shape[1]):
            if masked is not None:
                gone = set(masked[2][masked[1] == head].tolist())
                slots.append([p for p in range(keys.shape[2]) if p not in gone])
                continue
            n_kept = int(keys.shape[2] * (1 - ratio))  # question and answer come behind
            apart = torch.cdist(block.keys[0, head, :n_kept], keys[0, head],
                                compute_mode="donot_use_mm_for_euclid_dist").min(dim=1)
            assert apart.values.max() < 1e-2, f"{name}: a key that is none of layer {layer}"
            slots.append(sorted(apart.indices.tolist()))
    return slots


@torch.no_grad()
def sweep(model, prompts_path, out_path):
    table, results, cells = presses(), [], []
    with open(prompts_path) as f:
        prompts = json.load(f)
    for p, prompt in enumerate(prompts):
        context = torch.tensor([prompt["context"]])
        question = torch.tensor([prompt["question"]])
        full = DynamicCache()
        model.set_attn_implementation("sdpa")
        model.model(input_ids=context, past_key_values=full)
        rows = []
        for name, make in table.items():
            for budget, ratio in RATIOS.items():
                seconds, read, repeats = [], [], 3 if p == 0 and budget == "50%" else 1
                for _ in range(repeats):
                    start = time.perf_counter()
                    answer, cache, pass_seconds = run_cell(model, name, make(ratio), context, question)
                    seconds.append(time.perf_counter() - start)
                    read.append(pass_seconds)
                kept = None
                if p == 0 and budget == "50%" and name != "random":
                    kept = kept_positions(model, name, ratio, cache, full)
                rows.append({"rule": name, "budget": budget, "answer": answer, "kept": kept})
                cells.append({"prompt": p, "rule": name, "budget": budget, "seconds": seconds,
                              "read": read})
                print(f"kvpress {len(cells)}/{32 * len(prompts)} {name} {budget} {seconds[0]:.1f} s", file=sys.stderr, flush=True)
        results.append(rows)
    with open(out_path, "w") as f:
        json.dump(results, f)
    return {"seconds": sum(sorted(c["seconds"])[len(c["seconds"]) // 2] for c in cells), "cells": cells}


def cache_bytes(cache):
    """What its tensors hold, not what is shown of them."""
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
            for layer in cache.layers for t in (layer.keys, layer.values)}
    return sum(held.values())


@torch.no_grad()
def memory(model, n, name, budget):
    """The cache once the press has done its work, beside a full one."""
    ids = torch.randint(0, model.config.vocab_size, (1, n))
    full, cache = DynamicCache(), DynamicCache()
    model.model(input_ids=ids, past_key_values=full)
    with presses()[name](RATIOS[budget])(model):
        model.model(input_ids=ids, past_key_values=cache)
    return {"full_bytes": cache_bytes(full), "resident_bytes": cache_bytes(cache)}


@torch.no_grad()
def context_pass(model, n):
    ids = torch.randint(0, model.config.vocab_size, (1, n))
    for _ in range(2):  # the second counts
        start = time.perf_counter()
        model.model(input_ids=ids, past_key_values=DynamicCache())
        seconds = time.perf_counter() - start
    return {"seconds": seconds}


@torch.no_grad()
def decode(model, sequences, n, steps):
    ids = torch.randint(0, model.config.vocab_size, (1, n)).repeat(sequences, 1)
    cache = DynamicCache()
    for first in range(0, n, 128):
        model.model(input_ids=ids[:, first : first + 128], past_key_values=cache)
    token = ids[:, :1]
    model(token, past_key_values=cache)
    start = time.perf_counter()
    for _ in range(steps):
        token = model(token, past_key_values=cache).logits[:, -1:].argmax(-1)
    return {"seconds": (time.perf_counter() - start) / steps}


def cache_bytes(model, ids, press):
    """Bytes of the storage behind the keys and values, whatever part of it a view shows."""
    cache = DynamicCache()
    with press(model) if press is not None else contextlib.nullcontext():
        model.model(input_ids=ids, past_key_values=cache)
    return sum(t.untyped_storage().nbytes() for layer in cache.layers for t in (layer.keys, layer.values))


@torch.no_grad()
def held(model, n, name, budget):
    ids = torch.randint(0, model.config.vocab_size, (1, n))
    press = presses()[name](RATIOS[budget])
    return {"full": cache_bytes(model, ids, None), "held": cache_bytes(model, ids, press)}


def main():
    path, threads, what, *rest = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    model = load(path)
    if rest[-1] == "eager":
        model.set_attn_implementation(rest.pop())
    if what == "sweep":
        result = sweep(model, *rest)
    elif what == "memory":
        result = memory(model, int(rest[0]), *rest[1:])
    elif what == "context":
        result = context_pass(model, int(rest[0]))
    elif what == "held":
        result = held(model, int(rest[0]), *rest[1:])
    else:
        result = decode(model, *(int(x) for x in rest))
    result["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result["torch"] = torch.__version__
    print(json.dumps(result))


if __name__ == "__main__":
    main()
