"""Logits of real GGUF models by transformers, ids by llama.cpp; writes tests/golden/models/NAME.json.

    V/bin/pip install transformers==5.2.0 gguf torch xllamacpp
    V/bin/python tests/real/make_models.py NAME MODEL.gguf

The weights are dequantised to float32 by the `gguf` package inside transformers, and so is the arithmetic.

SPDX-License-Identifier: MIT
"""

import hashlib
import json
import sys
import urllib.request
from importlib.metadata import version
from pathlib import Path

import torch
import transformers
import xllamacpp
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "data" / "texts" / "us_founding_documents.txt"
N, POSITIONS, TOP = 2000, [0, 31, 300, 699, 1200, 1999], 24


def tokens_of(path: Path, text: str) -> list[int]:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = 256
    parameters.n_parallel = 1
    parameters.warmup = False
    parameters.enable_chat_template = False
    server = xllamacpp.Server(parameters)
    body = json.dumps({"content": text, "add_special": True, "parse_special": False}).encode()
    request = urllib.request.Request(server.listening_address + "/tokenize", data=body,
                                     headers={"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request).read())["tokens"]


@torch.no_grad()
def main():
    name, path = sys.argv[1], Path(sys.argv[2]).resolve()
    ids = tokens_of(path, TEXT.read_text())[:N]
    assert len(ids) == N
    torch.set_num_threads(2)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    rows = []
    hidden = model.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    for position in POSITIONS:
        logits = model.lm_head(hidden[position]).double()
        top = torch.topk(logits, TOP)
        rows.append({"position": position, "top_ids": top.indices.tolist(),
                     "top_logits": [float(f"{x:.9g}") for x in top.values.tolist()],
                     "largest": float(logits.abs().max()), "logsumexp": float(torch.logsumexp(logits, 0))})
    out = {"model": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
           "made_with": {"transformers": transformers.__version__, "torch": torch.__version__,
                         "gguf": version("gguf"), "xllamacpp": version("xllamacpp")},
           "text": TEXT.name, "ids": ids, "rows": rows}
    target = ROOT / "tests" / "golden" / "models" / f"{name}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(out) + "\n")


main()
