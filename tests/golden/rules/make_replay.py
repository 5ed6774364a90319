#!/usr/bin/env python3
"""Scores and kept sets of rules that read the context again, for tests/golden/test_rules_golden_replay.c.

usage: make_replay.py OUT.json      (torch, transformers, kvpress 0.5.5; from the top of the repository)

KVzipPress and KVComposePress of kvpress on the tiny Llama of tests/golden/families, whose tokenizer has the letters
of the texts that KVzip puts before a piece.
"""
import json
import logging
import pathlib
import shutil
import sys
import tempfile

import torch
from kvpress import KVzipPress
from kvpress.presses.kvcompose_press import KVComposePress
from transformers import DynamicCache, LlamaForCausalLM

MODEL = pathlib.Path("tests/golden/families/llama_untied")
N, RATIO = 90, 0.6
IDS = torch.randint(3, 127, (1, N), generator=torch.Generator().manual_seed(5))


class Zip(KVzipPress):
    """Keeps what it has scored."""

    def compress_post(self, model):
        self.seen = self.score_val[:, 0].clone()
        super().compress_post(model)
        mask = torch.ones(self.seen.shape, dtype=torch.bool)
        for layer, module in enumerate(model.model.layers):
            _, head, position = module.self_attn.masked_key_indices
            mask[layer, head, position] = False
        self.kept = mask


class Compose(KVComposePress):
    def prepare_important_masks(self):
        super().prepare_important_masks()
        self.seen = self.scores.clone()
        self.kept = torch.stack([torch.stack(layer) for layer in self.important_mask_per_kv_head])


CASES = [
    ("kvzip", "flat(kvzip)", Zip(RATIO)),
    ("kvzip:piece=40", "flat(kvzip:piece=40)", Zip(RATIO, chunk_size=40)),
    ("kvzip:piece=89", "adakv(kvzip:piece=89,safeguard=0)", Zip(RATIO, chunk_size=89, layerwise=True)),
    ("kvzip:plus=1", "flat(kvzip:plus=1)", Zip(RATIO, kvzip_plus_normalization=True)),
    ("kvzip:piece=40,plus=1", "flat(kvzip:piece=40,plus=1)",
     Zip(RATIO, chunk_size=40, kvzip_plus_normalization=True)),
    ("kvcompose", "composite(kvcompose)", Compose(compression_ratio=RATIO)),
]


def folder_for_transformers(to):
    """The model, with the fields that `tokenizers` wants."""
    shutil.copytree(MODEL, to, dirs_exist_ok=True)
    path = pathlib.Path(to) / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["decoder"] |= {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    (pathlib.Path(to) / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


def run(folder, press):
    implementation = "eager" if isinstance(press, Compose) else "sdpa"
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=implementation)
    with torch.no_grad(), press(model.eval()):
        model.model(input_ids=IDS, past_key_values=DynamicCache())
    return press.seen, press.kept


def main():
    logging.disable(logging.WARNING)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        folder_for_transformers(folder)
        for rule, shared, press in CASES:
            seen, kept = run(folder, press)
            cases.append({"rule": rule, "scores": [float(f"{x:.7g}") for x in seen.flatten().tolist()],
                          "shared": shared,
                          "kept": [row.nonzero().flatten().tolist() for layer in kept for row in layer]})
            assert kept.sum() == 4 * N * (1 - RATIO), kept.sum()
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write('{"ids":' + json.dumps(IDS[0].tolist()) + f',\n"k":{round(N * (1 - RATIO))},\n"cases":[\n')
        f.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "]}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
