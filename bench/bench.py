"""bench.py - speed side by side with transformers, kvpress and llama.cpp, in one run; writes
build/bench.json.

Every figure is a ratio of two things measured here and now, arms in turn, medians of the repeats.
Kept sets and answers of eight cells must agree with kvpress before its time counts. A figure below
its target is printed as such; nothing fails by time.

    python3 bench/bench.py [--quick] [--prompts N] [--costs] [--torch] [--held]

Run by `make bench`. --quick leaves the sweep out; --prompts 1 runs half of it; --costs adds the cost
of contexts of 1,024 to 32,768 tokens and of more rules, budgets and samples (ours alone, some ten
minutes more). --torch measures the torch backend alone, beside transformers on the same PyTorch, and
writes build/bench-torch.json. --held compares the bytes that caches hold after eviction alone, and writes
build/bench-held.json.

SPDX-License-Identifier: MIT
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
MODEL = BUILD / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PEER = BUILD / "bench-venv" / "bin" / "python"
OURS = BUILD / "release" / "bench" / "engine_bench"
PROGRAM = BUILD / "release" / "flexbudget"
F32, Q8 = BUILD / "bench-f32.gguf", BUILD / "bench-q8_0.gguf"  # the same weights in both forms
PROMPTS, KEPT, PEER_KEPT = (BUILD / f"bench-{n}.json" for n in ("prompts", "kept", "peer-kept"))
THREADS = min(2, len(os.sched_getaffinity(0)))
CONTEXT = 2048


ARMS = {  # program, model
    "ours": ([OURS], MODEL),
    "ours q8": ([OURS], Q8),
    "ours torch": ([OURS], MODEL),
    "transformers": ([PEER, ROOT / "bench" / "peer_torch.py"], MODEL),
    "llama f32": ([PEER, ROOT / "bench" / "peer_llama.py"], F32),
    "llama q8": ([PEER, ROOT / "bench" / "peer_llama.py"], Q8),
}


def run(arm: str, *args, threads: int = THREADS) -> dict:
    """One process of an arm; its last line of output is JSON."""
    head, model = ARMS[arm]
    command = [str(x) for x in (*head, model, threads, *args)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    if arm == "ours torch":
        env |= {"FLEXBUDGET_DEVICE": "torch:cpu", "FLEXBUDGET_TORCH": str(PEER)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turn(repeats: int, *arms) -> list[float]:
    """Median seconds of each arm, run in turn so that a disturbance hits all."""
    times = [[] for _ in arms]
    for _ in range(repeats):
        for seconds, (arm, *args) in zip(times, arms):
            seconds.append(run(arm, *args)["seconds"])
    for (arm, *args), seconds in zip(arms, times):
        spread = (max(seconds) - min(seconds)) / statistics.median(seconds)
        print(f"  {arm:12} {' '.join(map(str, args)):24} {statistics.median(seconds):8.3f} s"
              f"   spread {100 * spread:.0f} %", flush=True)
    return [statistics.median(s) for s in times]


def write_prompts(n: int) -> None:
    """Prompts of 2,048 tokens of running text, each with a question."""
    path = ROOT / "tests" / "golden" / "reference" / "example_prompts.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    prompts = []
    for p in range(n):
        ids = [i for line in lines[8 * p : 8 * p + 8] for i in line["context_ids"]][:CONTEXT]
        prompts.append({"context": ids, "question": lines[8 * p]["prompt_ids"]})
    PROMPTS.write_text(json.dumps(prompts))


def check_agreement() -> tuple[int, int, int]:
    """Same entries kept and same answers, on the cells at 50 % of the first prompt."""
    ours, theirs = json.loads(KEPT.read_text())[0], json.loads(PEER_KEPT.read_text())[0]
    answers = strays = slots = 0
    for a, b in zip(ours, theirs):
        assert (a["rule"], a["budget"]) == (b["rule"], b["budget"])
        if b["kept"] is None:
            continue
        answers += a["answer"] == b["answer"]
        for mine, other in zip(a["kept"], b["kept"]):
            strays += len(set(mine) ^ set(other))
            slots += len(other)
    return answers, strays, slots


TARGETS = {
    "sweep_vs_kvpress": (30, "x"),
    "prefill_2048_vs_transformers": (1.35, "x"),
    "prefill_2048_vs_llamacpp_f32": (1.5, "x"),
    "prefill_2048_of_limit": (0.85, "of limit"),
    "decode32_vs_transformers": (5, "x"),
    "decode1_vs_llamacpp_q8": (1.0, "x"),
    "marginal_cell": (-0.03, "of a context pass and answer"),
    "signal_overhead": (-1.10, "x"),
    "peak_memory_ratio": (-1.15, "x"),
    "resident_snapkv_25": (-0.25, "of the full cache"),
    "resident_adakv_25": (-0.25, "of the full cache"),
    "h2o_vs_kvpress_observed": (4, "x"),
    "scaling_2_threads": (1.85, "x"),
    "context_growth": (-1.1, "x"),
    "kv_held_adakv_25_vs_kvpress": (-0.26, "of the bytes"),
    "torch_context_vs_eager": (-1.15, "x"),
    "torch_decode1_vs_eager": (-1.3, "x"),
    "torch_decode32_vs_eager": (-1.3, "x"),
}


def entry(key: str, value: float, ours, peer, command: str) -> dict:
    target, unit = TARGETS[key]
    met = value <= -target if target < 0 else value >= target
    return {"value": value, "target": abs(target), "better": "lower" if target < 0 else "higher",
            "met": met, "ours": ours, "peer": peer, "unit": unit, "command": command}


def flops_of_context(n: int) -> float:
    """Multiply-adds of a pass: products of the weights and of attention (30 layers of smol)."""
    return 30 * (2 * n * (576 * 960 + 576 * 576 + 3 * 576 * 1536) + 4 * 9 * 64 * n * n / 2)


def single_figures(out: dict) -> None:
    print("reading 2,048 tokens", flush=True)
    ours, theirs, llama, limit, signals = in_turn(
        3, ("ours", "context", CONTEXT), ("transformers", "context", CONTEXT), ("llama f32", "context", CONTEXT),
        ("ours", "limit", CONTEXT), ("ours", "context", CONTEXT, "signals"))
    (one,) = in_turn(1, ("ours", "context", 4 * CONTEXT))
    out["prefill_2048_vs_transformers"] = entry(
        "prefill_2048_vs_transformers", theirs / ours, ours, theirs, "context 2048")
    out["prefill_2048_vs_llamacpp_f32"] = entry(
        "prefill_2048_vs_llamacpp_f32", llama / ours, ours, llama, "context 2048")
    out["prefill_2048_of_limit"] = entry("prefill_2048_of_limit", limit / ours, ours, limit, "limit 2048")
    out["signal_overhead"] = entry("signal_overhead", signals / ours, signals, ours, "context 2048 signals")
    growth = one / ours / (flops_of_context(4 * CONTEXT) / flops_of_context(CONTEXT))
    out["context_growth"] = entry("context_growth", growth, one, ours, "context 8192")
    single = statistics.median(run("ours", "context", CONTEXT, threads=1)["seconds"] for _ in range(3))
    out["scaling_2_threads"] = entry("scaling_2_threads", single / ours, ours, single, "1 and 2 threads")
    print("decoding 32 sequences of 512 tokens", flush=True)
    ours, theirs = in_turn(5, ("ours", "decode", 32, 512, 16), ("transformers", "decode", 32, 512, 16))
    out["decode32_vs_transformers"] = entry(
        "decode32_vs_transformers", theirs / ours, ours, theirs, "decode 32 512 16")
    print("decoding one sequence of 512 tokens from 8-bit weights", flush=True)
    ours, theirs = in_turn(5, ("ours q8", "decode", 1, 512, 64, "resident"), ("llama q8", "decode", 1, 512, 64))
    out["decode1_vs_llamacpp_q8"] = entry(
        "decode1_vs_llamacpp_q8", theirs / ours, ours, theirs, "decode 1 512 64 resident")


def memory_figures(out: dict) -> None:
    """Keys and values that are left at 25 %, as each program holds them."""
    print("memory after evicting to 25 % of 2,048 tokens", flush=True)
    for key, rule in (("resident_snapkv_25", "snapkv"), ("resident_adakv_25", "adakv(snapkv)")):
        what = ("memory", CONTEXT, rule, "25%")
        shares = []
        for arm in ("ours", "transformers"):
            r = run(arm, *what)
            shares.append(r["resident_bytes"] / r["full_bytes"])
            print(f"  {arm:12} {rule:14} {r['resident_bytes'] / 2**20:8.1f} MiB of"
                  f" {r['full_bytes'] / 2**20:.1f} MiB", flush=True)
        out[key] = entry(key, shares[0], *shares, " ".join(map(str, what)))


def sweep_figures(out: dict) -> None:
    n = len(json.loads(PROMPTS.read_text()))
    print(f"sweep: 8 rules x 4 budgets x {n} prompts of 2,048 + 32 tokens", flush=True)
    runs = [run("ours", "sweep", PROMPTS, KEPT)]
    theirs = run("transformers", "sweep", PROMPTS, PEER_KEPT)
    runs += [run("ours", "sweep", PROMPTS, KEPT) for _ in range(2)]
    ours = statistics.median(r["seconds"] for r in runs)
    answers, strays, slots = check_agreement()
    print(f"  agreement at 50 %: {answers} of 7 answers equal, {strays} of {slots} kept entries differ")
    observed = [c for c in theirs["cells"] if c["rule"] == "observed_attention"]
    others = theirs["seconds"] - sum(statistics.median(c["seconds"]) for c in observed)
    print(f"  ours {ours:.2f} s, kvpress {theirs['seconds']:.1f} s"
          f" ({others:.1f} s without its eager press)", flush=True)
    out["sweep_vs_kvpress"] = entry("sweep_vs_kvpress", theirs["seconds"] / ours, ours,
                                    theirs["seconds"], "sweep")
    if answers < 7 or strays > slots / 1000:
        print("  they do not agree: the sweep's time does not count", flush=True)
        out["sweep_vs_kvpress"]["met"] = False
    out["sweep_vs_kvpress"]["agreement"] = {"answers_equal": answers, "of": 7,
                                            "kept_entries_different": strays, "kept_entries": slots}
    out["sweep_vs_kvpress"]["without_eager"] = others / (ours * 56 / 64)
    read = statistics.median(r["read_evict_answer"][0] for r in runs)
    group = statistics.median(r["read_evict_answer"][2] for r in runs)
    one = run("ours", "decode", 1, CONTEXT, 32)["seconds"] * 32
    cell = (group - one) / 31
    out["marginal_cell"] = entry("marginal_cell", cell / (read + one), cell, read + one, "sweep")
    eager = statistics.median(s for c in observed for s in c["read"])
    few = BUILD / "bench-few.json"
    few.write_text(json.dumps(json.loads(PROMPTS.read_text())[:1]))
    alone = statistics.median(  # read and evict: their press evicts on its way
        sum(run("ours", "cell", few, KEPT.with_suffix(".one.json"), "observed_attention",
                "50%")["read_evict_answer"][:2]) for _ in range(3))
    out["h2o_vs_kvpress_observed"] = entry("h2o_vs_kvpress_observed", eager / alone, alone, eager, "cell")
    arenas = run("ours", "sweep", PROMPTS, KEPT, "arenas")
    budgets = sum((0.75, 0.5, 0.25, 0.10)) * 8 * 2048 * 46080
    expected = arenas["weights"] + 2048 * 46080 + budgets
    out["peak_memory_ratio"] = entry("peak_memory_ratio", arenas["peak_rss_bytes"] / expected,
                                     arenas["peak_rss_bytes"], expected, "sweep, all in arenas")


def held_figures(out: dict) -> None:
    """Bytes of keys and values that are really there after adakv(snapkv) at 25 %: of our arena, as the
    allocator counted it, and of the tensors of kvpress's cache, which masks and frees nothing."""
    rule, budget = "adakv(snapkv)", "25%"
    print(f"bytes held after {rule} at {budget} of {CONTEXT:,} tokens", flush=True)
    device = BUILD / "bench-device.json"  # given, so that none is measured
    device.write_text(json.dumps({"name": "none", "flops_per_s": 1e12, "bytes_per_s": 1e12}))
    command = [PROGRAM, "bench", "-q", "-m", MODEL, "-j", THREADS, "--rules", f"full,{rule}", "--budgets", budget,
               "--context", CONTEXT, "--answer", 2, "--repetitions", 1, "--warmup", 0, "--profile", device, "--json"]
    done = subprocess.run([str(x) for x in command], stdout=subprocess.PIPE, text=True, check=True)
    full, ours = json.loads(done.stdout)["results"][0]["arms"]
    theirs = run("transformers", "held", CONTEXT, rule, budget)
    for name, held, all_bytes in (("ours", ours["held_bytes"] - ours["tail_bytes"], full["kept_bytes"]),
                                  ("kvpress", theirs["held"], theirs["full"])):
        print(f"  {name:12} {held / 2**20:8.2f} MiB of {all_bytes / 2**20:.2f} MiB: {100 * held / all_bytes:.1f} %",
              flush=True)
    assert full["kept_bytes"] == theirs["full"]
    held = ours["held_bytes"] - ours["tail_bytes"]
    key = "kv_held_adakv_25_vs_kvpress"
    out[key] = entry(key, held / theirs["held"], held, theirs["held"], f"held {CONTEXT} {rule} {budget}")


def torch_figures(out: dict) -> None:
    """The second backend and transformers, both on the same PyTorch; its fused attention beside."""
    for key, what in (("context", ("context", CONTEXT)), ("decode1", ("decode", 1, CONTEXT, 32)),
                      ("decode32", ("decode", 32, 512, 16))):
        print(f"torch backend: {' '.join(map(str, what))}; eager, then fused attention", flush=True)
        ours, eager, _ = in_turn(3, ("ours torch", *what), ("transformers", *what, "eager"),
                                 ("transformers", *what))
        name = f"torch_{key}_vs_eager"
        out[name] = entry(name, ours / eager, ours, eager, " ".join(map(str, what)))


def costs() -> dict:
    """Ours alone: seconds and peak memory by length of a context, and of a sweep of one prompt by
    rules, budgets and samples."""
    out: dict = {"context": [], "sweep": []}
    print("\ncontext      seconds    tokens/s   peak memory", flush=True)
    for n in (1024, 2048, 4096, 8192, 16384, 32768):
        r = run("ours", "context", n)
        out["context"].append({"tokens": n, **r})
        print(f"{n:7}{r['seconds']:13.2f}{n / r['seconds']:12.0f}{r['peak_rss_bytes'] / 2**20:11.0f} MiB",
              flush=True)
    print("rules  budgets  prompts    seconds   seconds a cell   peak memory", flush=True)
    prompts = json.loads(PROMPTS.read_text())
    few = BUILD / "bench-few.json"
    for rules, budgets, samples in ((1, 1, 1), (1, 4, 1), (4, 1, 1), (4, 4, 1), (8, 4, 1), (8, 4, 2)):
        few.write_text(json.dumps(prompts[:samples]))
        r = run("ours", "sweep", few, KEPT, rules, budgets)
        out["sweep"].append({"rules": rules, "budgets": budgets, "prompts": samples, **r})
        print(f"{rules:5}{budgets:9}{samples:9}{r['seconds']:11.2f}{r['seconds'] / rules / budgets / samples:17.3f}"
              f"{r['peak_rss_bytes'] / 2**20:10.0f} MiB", flush=True)
    return out


def main() -> None:
    out: dict = {}
    prompts = int(sys.argv[sys.argv.index("--prompts") + 1]) if "--prompts" in sys.argv else 2
    if not Q8.exists() and "--held" not in sys.argv:
        subprocess.run([PEER, ROOT / "bench" / "make_gguf.py", MODEL, F32, Q8], check=True)
    write_prompts(prompts)
    if "--torch" in sys.argv:
        torch_figures(out)
    elif "--held" in sys.argv:
        held_figures(out)
    else:
        held_figures(out)
        single_figures(out)
        memory_figures(out)
        if "--quick" not in sys.argv:
            sweep_figures(out)
    if "--costs" in sys.argv:
        (BUILD / "bench-costs.json").write_text(json.dumps(costs(), indent=1) + "\n")
    name = next((f"bench-{part}.json" for part in ("torch", "held") if f"--{part}" in sys.argv), "bench.json")
    (BUILD / name).write_text(json.dumps(out, indent=1) + "\n")
    print(f"\n{'figure':32}{'value':>9}{'target':>11}  met   ours / peer")
    for key, e in out.items():
        sign = "<=" if e["better"] == "lower" else ">="
        print(f"{key:32}{e['value']:9.3f}{sign:>5}{e['target']:6.2f}  {'yes' if e['met'] else 'NO ':4}"
              f"  {e['ours']:.3g} / {e['peer']:.3g}")


if __name__ == "__main__":
    main()
