/* list.h - every setting of an experiment, once: the YAML keys, the options of `run`.
 *
 *     FB_SETTING(id, key, name, letter, type, initial, low, high, words, later,
 *                argument, group, unhashed, help)
 *
 * The order is that of the effective file and of the help.
 *
 * SPDX-License-Identifier: MIT
 */
#define WHAT       "What to compare"
#define HOW        "Under which conditions"
#define SCORE      "How it is judged"
#define RESULTS    "What is stored"
#define MACHINE    "On this machine (changes no result)"

FB_SETTING(name, "name", "name", 0, TEXT, "experiment", 0, 0, NULL, NULL,
           "NAME", WHAT, false, "name of the experiment")
FB_SETTING(question, "question", "question", 0, TEXT, "", 0, 0, NULL, NULL,
           "TEXT", WHAT, false, "what it should answer, in a sentence")
FB_SETTING(model, "model.file", "model", 'm', TEXT, "", 0, 0, NULL, NULL,
           "FILE", WHAT, false, "GGUF file, a name in the models folder, or 'builtin'")
FB_SETTING(model_sha256, "model.sha256", NULL, 0, TEXT, "auto", 0, 0, NULL, NULL,
           "HASH", WHAT, false, "the file must have this hash; auto: as found")
FB_SETTING(cache, "model.cache", "cache", 0, WORD, "f32", 0, 0, "f32|f16|bf16", NULL,
           "TYPE", HOW, false, "type of keys and values: f32, f16 or bf16 (rounded when written)")
FB_SETTING(template, "model.template", "template", 0, TEXT, "auto", 0, 0, NULL, NULL,
           "FAMILY", HOW, false, "chat template: auto (the file's own), none, or a family: chatml, gemma, llama3, ...")
FB_SETTING(bos, "model.bos", "bos", 0, WORD, "auto", 0, 0, "auto|off", "on",
           "WHEN", HOW, false, "begin-of-text token: auto (as the model says) or off")
FB_SETTING(date, "model.date", NULL, 0, LATER, "", 0, 0, NULL, NULL,
           "DATE", HOW, false, "templates that print a date have one of their own, 26 Jul 2024")
FB_SETTING(tasks, "tasks", "tasks", 't', TASKS, "", 0, 0, NULL, NULL,
           "LIST", WHAT, false, "tasks, with parameters as needle:length=512")
FB_SETTING(bad_records, "data.bad_records", "bad-records", 0, WORD, "refuse", 0, 0, "refuse|skip", NULL,
           "HOW", WHAT, false, "records of a data file that cannot be used: refuse or skip")
FB_SETTING(samples, "samples", "samples", 'n', INT, "all", 1, 1000000, "all", NULL,
           "N", WHAT, false, "at most so many documents per task: the first N of a fixed order")
FB_SETTING(rules, "rules", "rules", 'r', RULES, "", 0, 0, NULL, NULL,
           "LIST", WHAT, false, "rule expressions, 'label: expression' (no = or , in a label), or ./FILE.so: the rules in it")
FB_SETTING(rule_files, "rule_files", NULL, 0, TEXTS, "", 0, 0, NULL, NULL,
           "LIST", WHAT, false, "shared objects whose rules have names here; those in `rules` are added")
FB_SETTING(baseline, "baseline", "baseline", 0, TEXT, "auto", 0, 0, NULL, NULL,
           "RULE", SCORE, false, "the rule that others are tested against; auto: random, else the first")
FB_SETTING(reference, "reference", "reference", 0, TEXT, "full", 0, 0, NULL, NULL,
           "RULE", SCORE, false, "what quality is lost from")
FB_SETTING(budgets, "budgets", "budgets", 'b', TEXTS, "", 0, 0, NULL, NULL,
           "LIST", WHAT, false, "10% of the full cache, 256t per head, 64MiB; ranges 10%..50%+10%, 5%..80%*2")
FB_SETTING(seeds, "seeds", "seeds", 0, INTS, "1", 0, 9e15, NULL, NULL,
           "LIST", WHAT, false, "only rules that draw random numbers use them")
FB_SETTING(tuned_on, "tuned_on", NULL, 0, LATER, "", 0, 0, NULL, NULL,
           "LIST", WHAT, false, "samples cannot be set aside for tuning")
FB_SETTING(factors, "plan.factors", NULL, 0, LATER, "", 0, 0, NULL, NULL,
           "GRID", WHAT, false, "write the rules of the grid as a list")
FB_SETTING(claims, "claims", NULL, 0, LATER, "", 0, 0, NULL, NULL,
           "LIST", WHAT, false, "every verdict counts as exploratory")
FB_SETTING(kind, "protocol.kind", "protocol", 0, WORD, "prefill", 0, 0, "prefill|stream", NULL,
           "KIND", HOW, false, "prefill: read all, evict once, then ask; stream: evict while reading, never above the budget")
FB_SETTING(query, "protocol.query", "query", 0, WORD, "agnostic", 0, 0, "agnostic|aware", NULL,
           "WHEN", HOW, false, "agnostic: evict before the question is seen; aware: after")
FB_SETTING(protect_question, "protocol.protect_question", "protect-question", 0, FLAG, "on", 0, 0, NULL, NULL,
           "on|off", HOW, false, "under aware: the question's own entries stay, whatever the rule")
FB_SETTING(positions, "protocol.positions", "positions", 0, WORD, "original", 0, 0, "original|compact", NULL,
           "HOW", HOW, false, "original: entries keep their own positions; compact: those left are renumbered")
FB_SETTING(protect, "protocol.protect", "protect", 0, PROTECT, "4+16", 0, 0, NULL, NULL,
           "SINK+RECENT", HOW, false, "first and last tokens that every rule keeps; or none, published")
FB_SETTING(rounding, "protocol.rounding", "rounding", 0, WORD, "exact", 0, 0, "exact|kvpress", NULL,
           "HOW", HOW, false, "of a ratio: exact, or in doubles as kvpress does")
FB_SETTING(chunk, "protocol.chunk", "chunk", 0, INT, "64", 1, 65536, NULL, NULL,
           "TOKENS", HOW, false, "stream: tokens read at a time, inside the budget")
FB_SETTING(interval, "protocol.interval", "interval", 0, INT, "64", 0, 65536, NULL, NULL,
           "TOKENS", HOW, false, "stream: evict before so many tokens of an answer; 0: question and answer stand beside the budget")
FB_SETTING(rescore, "protocol.rescore", "rescore", 0, WORD, "all", 0, 0, "all|new", NULL,
           "WHICH", HOW, false, "stream: entries scored at an eviction: all, or new: those that have no score yet")
FB_SETTING(layers, "protocol.layers", NULL, 0, LATER, "", 0, 0, NULL, NULL,
           "WHICH", HOW, false, "rules evict from all layers without a window")
FB_SETTING(metadata, "memory.metadata", "metadata", 0, WORD, "charged", 0, 0, "charged|free", NULL,
           "HOW", HOW, false, "state of rules is charged to the budget or free (none lives on under prefill)")
FB_SETTING(compute, "compute.mode", "compute", 0, WORD, "cap", 0, 0, "cap|matched|report", NULL,
           "MODE", HOW, false, "extra work of a rule: cap:5%, what costs more stands apart; matched:5%, windows and the like are lowered until it fits; report, only shown")
FB_SETTING(quota, "compute.quota", NULL, 0, PERCENT, "5%", 0, 1000, NULL, NULL,
           "PCT", HOW, false, "of the plain context pass")
FB_SETTING(decoding, "answer.decoding", NULL, 0, WORD, "greedy", 0, 0, "greedy", "sampled",
           "HOW", HOW, false, "greedy: the most likely token each time")
FB_SETTING(max_tokens, "answer.max_tokens", "max-tokens", 0, INT, "task", 1, 100000, "task", NULL,
           "N", HOW, false, "limit of a free answer; task: as the task says")
FB_SETTING(tail, "answer.tail", NULL, 0, LATER, "", 0, 0, NULL, NULL,
           "TOKENS", HOW, false, "the tail is as long as the question and the answer")
FB_SETTING(device, "device", "device", 0, DEVICE, "cpu", 0, 0, NULL, NULL,
           "NAME", HOW, false, "cpu: this program's own kernels; torch:cpu, torch:cuda:0 and the like: an installed PyTorch; layers over several as torch:cuda:0,cuda:1")
FB_SETTING(precision, "precision", "precision", 0, WORD, "f32", 0, 0, "f32|bf16|f16", NULL,
           "TYPE", HOW, false, "of weights under a device of torch: f32, bf16 or f16; cpu has f32")
FB_SETTING(confidence, "statistics.confidence", "confidence", 0, PERCENT, "95%", 50, 99.99, NULL, NULL,
           "PCT", SCORE, false, "level of the intervals")
FB_SETTING(resamples, "statistics.resamples", "resamples", 0, INT, "10000", 100, 1000000, NULL, NULL,
           "N", SCORE, false, "bootstrap replicates of an interval")
FB_SETTING(correction, "statistics.correction", "correction", 0, WORD, "holm", 0, 0, "holm", "bh|none",
           "HOW", SCORE, false, "correction for many comparisons: holm, none other is built yet")
FB_SETTING(margin, "statistics.margin", "margin", 0, REAL, "task", 0, 1e6, "task", NULL,
           "X", SCORE, false, "smallest difference that matters; task: as the task says")
FB_SETTING(kept, "store.kept", "keep-sets", 0, WORD, "first", 0, 0, "none|first|all", NULL,
           "WHICH", RESULTS, false, "kept positions: none, of the first document of each task, all")
FB_SETTING(prompts, "store.prompts", "prompts", 0, FLAG, "on", 0, 0, NULL, NULL,
           "on|off", RESULTS, false, "store texts and answers; off: only their hashes")
FB_SETTING(threads, "threads", "threads", 'j', INT, "auto", 1, 1024, "auto", NULL,
           "N", MACHINE, true, "threads; auto: the CPUs that affinity and cgroup allow")
FB_SETTING(isa, "isa", "isa", 0, WORD, "auto", 0, 0, "auto|plain|avx2|avx512|neon", NULL,
           "NAME", MACHINE, true, "instruction set of the kernels: auto, plain, avx2, avx512 or neon; the bits are the same")
FB_SETTING(weights, "weights", "weights", 0, WORD, "unpacked", 0, 0, "unpacked|resident", NULL,
           "FORM", MACHINE, true, "in memory: unpacked (f32), or resident (about as in the file, less memory); the bits are the same")
FB_SETTING(torch, "torch", "torch", 0, TEXT, "auto", 0, 0, NULL, NULL,
           "PLACE", MACHINE, true, "directory of the PyTorch package, or a Python that has it; auto: of the virtual environment, else of python3")
FB_SETTING(memory, "memory.limit", "memory", 0, SIZE, "auto", 1 << 20, 0, "auto", NULL,
           "SIZE", MACHINE, true, "what the process may use, as 512MiB; auto: what is free, less a fifth for others")

#undef WHAT
#undef HOW
#undef SCORE
#undef RESULTS
#undef MACHINE
