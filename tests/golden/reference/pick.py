#!/usr/bin/env python3
"""Picks the part of the reference vectors that the tests read. Standard library only.

usage: pick.py REFERENCE DATA OUT

REFERENCE holds the output of the generator described in README.md, DATA the example
prompts and results. Binary files are copied as they are; JSON is cut to the prompts,
presses and fields that a test asks for, and written one record a line.
"""
import json
import os
import shutil
import sys

PROMPTS = ["p32", "p300", "p1500"]
KEPT_PROMPTS = ["p300", "p1500"]
SCORED = "p300"  # of the other the tests read the kept sets alone
PRESSES = ["knorm", "keydiff", "tova", "snapkv", "snapkv_w16", "streaming_llm",
           "observed_attention", "adakv_snapkv", "cur", "lagkv", "lagkv_l32",
           "lagkv_l32_cross", "finch_w32", "expected_attention",
           "expected_attention_mean_eps", "adakv_expected_attention", "cap",
           "criticalkv_snapkv", "critical_adakv_snapkv", "noncausal_attn", "leverage",
           "compactor"]
GENERATED = PRESSES[:8]
SKETCH = "leverage_sketch_Phi.npy"
WRAPPED = ["pyramidkv", "pyramidkv_w4_b10", "chunkkv_snapkv", "entropy_chunkkv_snapkv",
           "chunk_knorm"]  # the scores are an inner rule's
PRESSES = PRESSES + WRAPPED
RENUMBERED = "keyrerotation_knorm"  # keeps what knorm keeps, at new positions
# The others turn all queries of a window to the current position, or score by places of a
# cache that is no longer in the order of the text.
DECODED = ["knorm", "keydiff", "tova", "ratio_knorm", "prefill_snapkv_decode_knorm"]
PRESS_FIELDS = ["class", "note", "values", "n_kept", "attention"]


def load(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


def dump(value, *path):
    """One line per entry of an outer list or object."""
    def line(x):
        return json.dumps(x, separators=(",", ":"), ensure_ascii=False)
    with open(os.path.join(*path), "w", encoding="utf-8") as f:
        if isinstance(value, list):
            f.write("[\n" + ",\n".join(line(x) for x in value) + "\n]\n")
        else:
            rows = (line(k) + ":" + line(v) for k, v in value.items())
            f.write("{\n" + ",\n".join(rows) + "\n}\n")


def pick_logits(ref, out):
    prompts = load(ref, "prompts.json")
    dump({p: prompts[p] for p in PROMPTS}, out, "prompts.json")
    logits = load(ref, "logits", "logits.json")["prompts"]
    for p in PROMPTS:
        del logits[p]["tensors"]
        shutil.copy(os.path.join(ref, "logits", p + ".safetensors"), out)
    dump({p: logits[p] for p in PROMPTS}, out, "logits.json")


def pick_kept(ref, out):
    for p in KEPT_PROMPTS:
        src, dst = os.path.join(ref, "kept", p), os.path.join(out, "kept", p)
        os.makedirs(dst, exist_ok=True)
        presses = load(src, "manifest.json")["presses"]
        dump({x: {f: presses[x][f] for f in PRESS_FIELDS} for x in PRESSES},
             dst, "manifest.json")
        for x in PRESSES:
            for end in ["kept.npy", "near.json"] + ["scores.npy"] * (p == SCORED and x not in WRAPPED):
                name = os.path.join(src, f"{x}.{end}")
                if os.path.exists(name):
                    shutil.copy(name, dst)
    shutil.copy(os.path.join(ref, "kept", SKETCH), os.path.join(out, "kept"))


def pick_generation(ref, out):
    g = load(ref, "generation.json")
    cases = [{"prompt": c["prompt"], "press": c["press"], "ratio": c["ratio"],
              "tokens": c["tokens"],
              "steps": [{f: s[f] for f in ["top_ids", "top_logits", "logsumexp"]}
                        for s in c["steps"]]}
             for c in g["cases"] if c["press"] in GENERATED + ["none", RENUMBERED]]
    for name in ["generation.json", "generation_compact.json"]:
        own = [c for c in cases if (c["press"] == RENUMBERED) == ("compact" in name)]
        dump({"question_ids": g["question_ids"], "cases": own}, out, name)


def pick_decoding(ref, out):
    d = load(ref, "decoding.json")
    os.makedirs(os.path.join(out, "decoding"), exist_ok=True)
    cases = {x: {"press": d["cases"][x]["press"], "base_press": d["cases"][x]["base_press"],
                 "tokens": d["cases"][x]["tokens"],
                 "events": [{f: e[f] for f in ["tokens_seen", "cache_before", "cache_after"]}
                            for e in d["cases"][x]["events"]],
                 "logit": [s["top_logits"][0] for s in d["cases"][x]["steps"]],
                 "logsumexp": [s["logsumexp"] for s in d["cases"][x]["steps"]]}
             for x in DECODED}
    for x in DECODED:
        shutil.copy(os.path.join(ref, "decoding", x + ".kept.npy"), os.path.join(out, "decoding"))
    dump({"prompt": d["prompt"], "question_ids": d["question_ids"], "cases": cases},
         out, "decoding.json")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    _, reference, data, target = sys.argv
    os.makedirs(target, exist_ok=True)
    pick_logits(reference, target)
    pick_kept(reference, target)
    pick_generation(reference, target)
    pick_decoding(reference, target)
    for name in ["example_prompts.jsonl", "example_results.jsonl"]:
        shutil.copy(os.path.join(data, name), target)
