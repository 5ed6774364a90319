"""Tiny models whose layers with windows turn otherwise than a plain reading would have it:
what transformers makes of the ids of tiny.json; writes NAME/ and windows.json.

    python3 -m venv V && V/bin/pip install transformers==5.2.0 torch && V/bin/python make_windows.py

SPDX-License-Identifier: MIT
"""

import json
import shutil
from pathlib import Path

import safetensors
import torch
import transformers
from safetensors.torch import save_file
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).parent
IDS = json.loads((HERE / "tiny.json").read_text())["ids"]
STORED = [0, 48, 95]
GREEDY = 16
SHAPE = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "tie_word_embeddings": True,
         "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MODELS = {
    "qwen3_mixed": (
        Qwen3ForCausalLM,
        Qwen3Config(**SHAPE, use_sliding_window=True, sliding_window=24,
                    layer_types=["full_attention", "sliding_attention"],
                    rope_parameters={"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
                                     "original_max_position_embeddings": 128}),
        "one layer of two has a window; both have the one rotary embedding, stretched by yarn"),
    "gemma3_sliding": (
        Gemma3ForCausalLM,
        Gemma3TextConfig(**SHAPE, query_pre_attn_scalar=48, sliding_window=20,
                         layer_types=["sliding_attention", "sliding_attention"],
                         rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                                          "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}),
        "every layer has a window, so every layer has the local rotary base"),
}


def fill(model, adds_one):
    """Random weights that bfloat16 holds; norms are about 1."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                value = 0.1 * torch.randn(weight.shape) + (0 if adds_one else 1)
            elif "embed_tokens" in name:
                value = 0.15 * torch.randn(weight.shape)
            else:
                value = 1.5 * torch.randn(weight.shape) / weight.shape[1] ** 0.5
            weight.copy_(value.to(torch.bfloat16).float())


def record_attention(module, seen):
    """Every call of the attention of `module` adds its rotated keys and its values to `seen`."""
    plain = module.eager_attention_forward

    def recording(layer, query, key, value, *args, **kwargs):
        seen.append((key[0].transpose(0, 1)[STORED], value[0].transpose(0, 1)[STORED]))
        return plain(layer, query, key, value, *args, **kwargs)

    module.eager_attention_forward = recording


def reference(model, seen):
    with torch.no_grad():
        out = model(torch.tensor([IDS]), output_hidden_states=True, use_cache=False)
    tensors = {"logits": out.logits[0]}
    for i, states in enumerate(out.hidden_states):
        tensors[f"hidden_states.{i}"] = states[0][STORED]
    for i, (key, value) in enumerate(seen):
        tensors[f"layer{i}.key_post_rope"] = key
        tensors[f"layer{i}.value"] = value
    return {name: t.contiguous().clone() for name, t in tensors.items()}


def greedy(model):
    ids = list(IDS)
    with torch.no_grad():
        for _ in range(GREEDY):
            ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[len(IDS):]


def make(name, kind, config, note):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    config._attn_implementation = "eager"
    model = kind(config).eval()
    fill(model, kind is Gemma3ForCausalLM)
    seen = []
    record_attention(__import__(kind.__module__, fromlist=["eager_attention_forward"]), seen)
    tensors = reference(model, seen)
    continuation = greedy(model)
    save_file(tensors, folder / "reference.safetensors")
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    shutil.copy(HERE / "qwen3" / "tokenizer.json", folder / "tokenizer.json")
    return {"greedy16": continuation, "note": note, "kept": {}}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    models = {name: make(name, *rest) for name, rest in MODELS.items()}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__,
                "safetensors": safetensors.__version__}
    out = {"versions": versions, "models": models}
    (HERE / "windows.json").write_text(json.dumps(out, indent=1) + "\n")


main()
