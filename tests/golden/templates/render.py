#!/usr/bin/env python3
"""render.py - what chat templates write around a user's first turn.

usage: render.py FOLDER      (transformers 5.2.0; jinja2)

FOLDER holds the templates' texts, NAME.jinja for each NAME below; where they are from
says README.md. They are rendered by transformers' own function. Writes templates.json.
SPDX-License-Identifier: MIT
"""
import hashlib
import json
import os
import sys
from importlib.metadata import version

from transformers.utils.chat_template_utils import render_jinja_template

# name: family, BOS, end of a text
NAMES = {
    "smollm2": ("chatml", "<|im_start|>", "<|im_end|>"),
    "chatml": ("chatml", "", "<|im_end|>"),
    "qwen1.5": ("chatml", "", "<|im_end|>"),
    "qwen2": ("chatml", "", "<|im_end|>"),
    "qwen2.5": ("chatml", "", "<|im_end|>"),
    "qwen3": ("chatml", "", "<|im_end|>"),
    "gemma2": ("gemma", "<bos>", "<eos>"),
    "gemma3": ("gemma", "<bos>", "<eos>"),
    "llama2-a": ("llama2", "<s>", "</s>"),
    "llama2-b": ("llama2", "<s>", "</s>"),
    "llama3-a": ("llama3", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3-b": ("llama3", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3.1": ("llama3.1", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3.2": ("llama3.1", "<|begin_of_text|>", "<|eot_id|>"),
    "mistral-v0.1": ("mistral", "<s>", "</s>"),
    "mistral-v0.2": ("mistral", "<s>", "</s>"),
    "mistral-v0.3": ("mistral-v3", "<s>", "</s>"),
    "mistral-nemo": ("mistral-nemo", "<s>", "</s>"),
    "phi3-mini-a": ("phi3", "<s>", "<|endoftext|>"),
    "phi3-mini-b": ("phi3", "<s>", "<|endoftext|>"),
    "phi3-medium": ("phi3", "<s>", "<|endoftext|>"),
    "phi3.5-mini": ("phi3", "<s>", "<|endoftext|>"),
    "phi4-mini-a": ("phi4-mini", "<|endoftext|>", "<|endoftext|>"),
    "phi4-mini-b": ("phi4-mini", "<|endoftext|>", "<|endoftext|>"),
    "zephyr": ("zephyr", "<s>", "</s>"),
}
MARK = "USERTEXT"
DATE = "26 Jul 2024"  # what the templates write themselves where nobody gives them one


def render(folder, name):
    family, bos, eos = NAMES[name]
    with open(os.path.join(folder, name + ".jinja"), encoding="utf-8", newline="") as f:
        text = f.read()
    [shown], _ = render_jinja_template(
        conversations=[[{"role": "user", "content": MARK}]], chat_template=text,
        add_generation_prompt=True, bos_token=bos, eos_token=eos, date_string=DATE)
    before, after = shown.split(MARK)
    shortened = text[:-1] if text.endswith("\n") else text
    return {"name": name, "family": family, "bos": bos,
            "sha256": hashlib.sha256(shortened.encode()).hexdigest(),
            "ends_in_newline": text != shortened, "before": before, "after": after}


def main():
    rows = [render(sys.argv[1], name) for name in NAMES]
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "templates.json"), "w", encoding="utf-8") as f:
        json.dump({"transformers": version("transformers"), "jinja2": version("jinja2"),
                   "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
