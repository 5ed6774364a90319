"""Rotary frequencies of every kind, from transformers' own functions; writes rope.json.

    python3 -m venv V && V/bin/pip install transformers==5.2.0 torch && V/bin/python make_rope.py

SPDX-License-Identifier: MIT
"""

import json
from pathlib import Path

import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

SHORT = [1 + 0.05 * i for i in range(16)]
LONG = [1 + 0.9 * i for i in range(16)]
CASES = [  # parameters, trained length of the config, lengths of texts
    ({"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}, 512, [96]),
    ({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}, 512, [96, 512, 700, 4096]),
    ({"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 512}, 2048, [96]),
    ({"rope_type": "yarn", "rope_theta": 1e4, "factor": 16.0, "original_max_position_embeddings": 64,
      "beta_fast": 20.0, "beta_slow": 2.0, "truncate": False}, 1024, [96]),
    ({"rope_type": "yarn", "rope_theta": 1e4, "factor": 40.0, "original_max_position_embeddings": 4096,
      "mscale": 1.0, "mscale_all_dim": 0.707}, 163840, [96]),
    ({"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 64}, 512, [96]),
    ({"rope_type": "llama3", "rope_theta": 5e5, "factor": 32.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}, 131072, [96]),
    ({"rope_type": "longrope", "rope_theta": 1e4, "short_factor": SHORT, "long_factor": LONG,
      "original_max_position_embeddings": 64}, 1024, [64, 65]),
    ({"rope_type": "longrope", "rope_theta": 1e4, "short_factor": SHORT, "long_factor": LONG,
      "original_max_position_embeddings": 64, "attention_factor": 1.25}, 1024, [96]),
    # what is stated holds; null is the quotient of the lengths; only yarn and longrope have a factor of attention
    ({"rope_type": "longrope", "rope_theta": 1e4, "short_factor": SHORT, "long_factor": LONG, "factor": 8.0,
      "original_max_position_embeddings": 64}, 1024, [96]),
    ({"rope_type": "yarn", "rope_theta": 1e6, "factor": None, "original_max_position_embeddings": 512}, 4096, [96]),
    ({"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 512,
      "attention_factor": 1.5}, 2048, [96]),
    ({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}, 512, [96, 400]),
    ({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0, "attention_factor": 1.5}, 512, [96]),
    ({"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0, "attention_factor": 1.5}, 512, [96]),
    ({"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 64, "attention_factor": 1.5}, 512, [96]),
]


def main():
    cases = []
    for parameters, trained, lengths in CASES:
        for length in lengths:
            config = LlamaConfig(hidden_size=128, num_attention_heads=4, head_dim=32, vocab_size=64,
                                 max_position_embeddings=trained, rope_parameters=dict(parameters))
            if "original_max_position_embeddings" in parameters:
                config.original_max_position_embeddings = parameters["original_max_position_embeddings"]
            function = ROPE_INIT_FUNCTIONS[parameters["rope_type"]]
            frequency, size = function(config, torch.device("cpu"), seq_len=length)
            cases.append({"parameters": json.dumps(parameters), "trained": trained, "length": length,
                          "frequency": [float(f) for f in frequency], "size": float(size)})
    out = {"transformers": transformers.__version__, "torch": torch.__version__, "cases": cases}
    Path(__file__).with_name("rope.json").write_text(json.dumps(out, indent=1) + "\n")


main()
