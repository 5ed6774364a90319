"""models.py - the small models of `make parity`: two random layers each, as folders.

Weights are scaled so that attention is not flat. A text is a permutation of all ids: no id
comes twice, hence no two entries are alike and no two scores equal by nature.

SPDX-License-Identifier: MIT
"""
import json

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY, POSITIONS, LAYERS, SKETCH = 2048, 2048, 2, 48
# query heads, kv heads, head size, width
SHAPES = [(3, 1, 64, 96), (4, 2, 32, 96), (9, 3, 64, 216), (8, 8, 32, 192)]
NORM, PROJECTION, QUERY_KEY = 0.2, 1.1, 1.7


def name_of(shape):
    return f"{shape[0]}/{shape[1]}"


def new_model(shape, seed):
    heads, kv_heads, size, width = shape
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=width, intermediate_size=width,
        num_hidden_layers=LAYERS, num_attention_heads=heads, num_key_value_heads=kv_heads,
        head_dim=size, max_position_embeddings=POSITIONS, rms_norm_eps=1e-5,
        tie_word_embeddings=True, bos_token_id=0, eos_token_id=1, pad_token_id=1,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, attn_implementation="sdpa")
    model = LlamaForCausalLM(config).float().eval()
    random = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=random)
        if weight.ndim == 1:
            weight.copy_(1 + NORM * noise)
        elif "embed" in name:
            weight.copy_(noise)
        else:
            scale = QUERY_KEY if "q_proj" in name or "k_proj" in name else PROJECTION
            weight.copy_(scale / weight.shape[1] ** 0.5 * noise)
    return model


def write_tokenizer(folder):
    """Bytes are the first ids, the rest are words of two of them that no merge makes."""
    signs = [chr(i if 33 <= i < 127 or 161 <= i < 173 or 174 <= i else 0) for i in range(256)]
    spare = iter(range(256, 512))
    signs = [s if s != "\0" else chr(next(spare)) for s in signs]
    words = [a + b for a in signs[:8] for b in signs]
    vocabulary = {sign: i for i, sign in enumerate(signs)}
    vocabulary |= {w: 256 + i for i, w in enumerate(words[:VOCABULARY - 256])}
    level = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", **level},
        "post_processor": None, "decoder": {"type": "ByteLevel", **level},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocabulary, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def sketch(shape, layer):
    """The random matrix of LeverageScorePress in a layer, as it draws it behind this seed."""
    torch.manual_seed(seed_of(layer))
    return torch.randn(1, shape[1], shape[2], SKETCH) * (1 / SKETCH ** 0.5)


def seed_of(layer):
    return 1234 + layer


@torch.no_grad()
def make(folder, shape, seed):
    """Writes the model, `ids.txt` and `sketch.npy`; the model as transformers reads it back."""
    folder.mkdir(parents=True, exist_ok=True)
    new_model(shape, seed).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_tokenizer(folder)
    ids = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(seed))
    (folder / "ids.txt").write_text(" ".join(map(str, ids.tolist())) + "\n")
    drawn = torch.stack([sketch(shape, layer)[0] for layer in range(LAYERS)])
    np.save(folder / "sketch.npy", drawn.numpy())
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.config._name_or_path = str(folder)
    return model, ids
