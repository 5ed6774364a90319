#!/usr/bin/env python3
"""Answers under kvpress's DecodingPress where the context is shorter than its target.

usage: make_decoding.py FOLDER/MODEL.gguf PROMPTS.json > decoding_interval.json

The first 200 tokens of p300, the question of decoding.json, 40 greedy tokens by kvpress's own
pipeline. Every 8 forward passes (the question is one) the cache is compressed to 204 entries a
head. Written: per press the tokens, per step the largest logit and logsumexp, and what was
kept by the last compression in layers 0, 15 and 29, as positions [3][kv heads].
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import kvpress as K
import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

CONTEXT, QUESTION, TOKENS = 200, [198, 198, 504, 1867, 1194], 40
PRESSES = {"knorm": (K.KnormPress, 0), "keydiff": (K.KeyDiffPress, 0), "tova": (K.TOVAPress, 8)}


class Tracker:
    """Which tokens the entries of each layer and head are, followed through compressions."""

    def __init__(self, press, kv_heads):
        self.place, self.seen, self.kept, self.heads = {}, {}, {}, kv_heads
        self.inner, press.compress = press.compress, self.compress

    def compress(self, module, hidden, keys, values, attentions, kwargs):
        out = self.inner(module, hidden, keys, values, attentions, kwargs)
        layer, n = module.layer_idx, keys.shape[2]
        place = self.place.get(layer, np.zeros((self.heads, 0), int))
        new = n - place.shape[1]
        first = self.seen.get(layer, 0)
        place = np.concatenate([place, np.tile(np.arange(first, first + new), (self.heads, 1))], 1)
        self.seen[layer] = first + new
        rows = [{row.numpy().tobytes(): place[g, j] for j, row in enumerate(keys[0, g])} for g in range(self.heads)]
        self.place[layer] = np.array([[rows[g][row.numpy().tobytes()] for row in out[0][0, g]]
                                      for g in range(self.heads)])
        self.kept[layer] = np.sort(self.place[layer], 1).tolist()
        return out


def main(gguf, prompts):
    torch.set_num_threads(1)
    folder, name = os.path.split(gguf)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32,
                                                 attn_implementation="sdpa").eval()
    # its ids are not used: kvpress's pipeline wants one to decode with
    pipe = K.KVPressTextGenerationPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(folder, gguf_file=name))
    with open(prompts) as file:
        context = json.load(file)["p300"]["ids"][:CONTEXT]
    cases = {}
    for label, (base, buffer) in PRESSES.items():
        press = K.DecodingPress(base(), compression_interval=8, target_size=204, hidden_states_buffer_size=buffer)
        tracker, logits = Tracker(press, model.config.num_key_value_heads), []
        hook = model.register_forward_hook(lambda _m, _a, out: logits.append(out.logits[0, -1].double()))
        with torch.no_grad():
            pipe._forward({"context_ids": torch.tensor([context]), "questions_ids": [torch.tensor([QUESTION])]},
                          max_new_tokens=TOKENS, press=press, cache=DynamicCache())
        hook.remove()
        cases[label] = {"tokens": [int(x.argmax()) for x in logits], "logit": [float(f"{x.max():.8g}") for x in logits],
                        "logsumexp": [float(f"{torch.logsumexp(x, 0):.9g}") for x in logits],
                        "seen": tracker.seen[0], "kept": [tracker.kept[l] for l in (0, 15, 29)]}
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__, "context": CONTEXT,
                      "question_ids": QUESTION, "cases": cases}, separators=(",", ":")))


if __name__ == "__main__":
    main(*sys.argv[1:])
