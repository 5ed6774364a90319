"""peer_llama.py - llama.cpp, as its Python package calls it; the last line is JSON.

    python peer_llama.py MODEL.gguf THREADS context TOKENS
    python peer_llama.py MODEL.gguf THREADS decode SEQUENCES TOKENS STEPS

SPDX-License-Identifier: MIT
"""

import ctypes
import json
import resource
import sys
import time

import llama_cpp as ll
import numpy as np


SILENT = ll.llama_log_callback(lambda *_: None)  # the library keeps no reference of its own


def open_context(path: str, threads: int, tokens: int, sequences: int):
    ll.llama_backend_init()
    ll.llama_log_set(SILENT, ctypes.c_void_p())
    model = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
    params = ll.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = tokens, 2048, 512
    params.n_seq_max = sequences
    params.n_threads = params.n_threads_batch = threads
    return model, ll.llama_init_from_model(model, params)


def feed(context, ids, position: int, sequence: int, last_only: bool) -> None:
    batch = ll.llama_batch_init(len(ids), 0, 1)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i] = int(token), position + i
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        batch.logits[i] = not last_only or i == len(ids) - 1
    batch.n_tokens = len(ids)
    assert ll.llama_decode(context, batch) == 0
    ll.llama_batch_free(batch)


def read(path: str, threads: int, n: int) -> float:
    """Seconds to read n tokens, the second time; logits of the last one only."""
    model, context = open_context(path, threads, n, 1)
    vocabulary = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))
    ids = np.random.default_rng(1).integers(0, vocabulary, n)
    for _ in range(2):
        ll.llama_memory_clear(ll.llama_get_memory(context), True)
        start = time.perf_counter()
        for first in range(0, n, 2048):
            feed(context, ids[first : first + 2048], first, 0, True)
        ll.llama_synchronize(context)
    return time.perf_counter() - start


def decode(path: str, threads: int, n: int, steps: int) -> float:
    """Seconds a token of one sequence that already holds n."""
    model, context = open_context(path, threads, n + steps + 8, 1)
    vocabulary = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))
    ids = np.random.default_rng(1).integers(0, vocabulary, n)
    for first in range(0, n, 512):
        feed(context, ids[first : first + 512], first, 0, True)
    token = int(ids[0])
    feed(context, [token], n, 0, True)
    start = time.perf_counter()
    for step in range(steps):
        feed(context, [token], n + 1 + step, 0, True)
        logits = np.ctypeslib.as_array(ll.llama_get_logits(context), shape=(vocabulary,))
        token = int(logits.argmax())
    return (time.perf_counter() - start) / steps


def main() -> None:
    path, threads, what, *rest = sys.argv[1:]
    if what == "context":
        seconds = read(path, int(threads), int(rest[0]))
    else:
        assert int(rest[0]) == 1, "one sequence"
        seconds = decode(path, int(threads), int(rest[1]), int(rest[2]))
    print(json.dumps({"seconds": seconds, "llama_cpp_python": ll.__version__,
                      "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


main()
