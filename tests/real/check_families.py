#!/usr/bin/env python3
"""check_families.py - our ids against other programs, on real vocabularies of several
families.

usage: check_families.py MODELS_FOLDER BUILD_FOLDER      (build/models build/release)

Not part of `make test-real`: it wants 750 MB of models and packages.

1. Each GGUF of the folder through llama.cpp (PyPI: xllamacpp) and through us: the 77
   strings of tests/golden/tokenizer and 10,000 random texts of run_tokenizers.py, with
   control tokens recognised and without.
2. The same texts through Hugging Face `tokenizers` put together from the file's own
   vocabulary and merges, for byte-level files.
3. The vocabularies that llama.cpp keeps for its own tests (PyPI: the source of
   llama-cpp-python), with the ids that it keeps beside them.

What may differ, and why, is counted by reason; anything else is wrong:
  named    a token that llama.cpp makes a control token for its text, though the file has
           another kind: </s> is a tag of HTML to Gemma and an ordinary word to Qwen;
  and in byte-level files
  unicode  a code point that PCRE2's Unicode does not know; llama.cpp takes such ones for
           no symbol either;
  nfc      text that NFC changes: llama.cpp does not compose (qwen2), Hugging Face does;
  bytes    a byte that has no token: llama.cpp leaves it out behind merging, Hugging Face
           and we before.

SPDX-License-Identifier: MIT
"""
import glob
import json
import os
import random
import subprocess
import sys
import tarfile
import unicodedata
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import run_tokenizers as shared  # noqa: E402

PACKAGES = ["tokenizers>=0.22,<0.24", "gguf==0.19.0", "xllamacpp==2026.10.11549",
            "scikit-build-core"]  # pip asks it for the name of the source
SOURCE = "llama-cpp-python==0.3.36"
GOLDEN = os.path.join(HERE, "..", "golden", "tokenizer", "tokenization.json")
# Vocabularies of llama.cpp's tests that are of a family of ours.
VOCABULARIES = ["llama-spm", "phi-3", "llama-bpe", "qwen2", "gpt-2"]
SEPARATOR = "\n__ggml_vocab_test__\n"


# Of llama.cpp's list of texts that end a generation.
NAMED = ["</s>", "<|endoftext|>", "<|im_end|>", "<end_of_turn>", "<|end|>"]
MARKS = ("<bos> <eos> <s> </s> <start_of_turn> <end_of_turn> <unused7> <table> </h1> <unk> "
         "<|im_start|> <|im_end|> <|endoftext|> <tool_call> </tool_call> <|fim_prefix|> "
         "<|user|> [INST] <0x41> \n \n\n \t\t \u2581 \u2581\u2581").split(" ")


def marked_text(rng):
    """Tokens of several families, at random places."""
    parts = []
    for _ in range(rng.randrange(1, 6)):
        parts += [shared.random_text(rng)[:12], rng.choice(MARKS)]
    return "".join(parts)


# ---- llama.cpp ------------------------------------------------------------------------


class LlamaCpp:
    def __init__(self, path):
        import xllamacpp

        p = xllamacpp.CommonParams()
        p.model.path = path
        p.n_ctx, p.n_parallel, p.warmup, p.enable_chat_template = 256, 1, False, False
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
        self.server = xllamacpp.Server(p)

    def encode(self, text, special):
        data = {"content": text, "parse_special": special, "add_special": False}
        request = urllib.request.Request(
            self.server.listening_address + "/tokenize", data=json.dumps(data).encode(),
            headers={"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request).read())["tokens"]


def lacks_a_byte(vocabulary, text):
    """A byte of the text that is no token; in GPT-2's alphabet it is U+0100 and up."""
    tokens, hidden = vocabulary["set"], 0x100
    for byte in range(256):
        shown = 0x21 <= byte <= 0x7E or (byte >= 0xA1 and byte != 0xAD)
        letter = chr(byte if shown else hidden)
        hidden += not shown
        if letter not in tokens and bytes([byte]) in text.encode():
            return True
    return False


def is_named(vocabulary, text):
    """It has a token that llama.cpp makes a control token, whatever the file says."""
    return any(name in text and name in vocabulary["set"] and
               vocabulary["token_type"][vocabulary["tokens"].index(name)] != 3
               for name in NAMED)


def reason_of(vocabulary, text, is_new):
    """Why llama.cpp may give other ids than we do; None: it may not."""
    if is_named(vocabulary, text):
        return "named"
    if vocabulary["model"] != "gpt2":
        return None
    if is_new:
        return "unicode"
    if vocabulary["pre"] == "qwen2" and unicodedata.normalize("NFC", text) != text:
        return "nfc"
    return "bytes" if lacks_a_byte(vocabulary, text) else None


# ---- the checks -----------------------------------------------------------------------


def read_vocabulary(path):
    from gguf import GGUFReader

    fields = GGUFReader(path).fields
    names = ("model", "pre", "tokens", "token_type", "merges", "bos_token_id",
             "eos_token_id")
    found = {k: fields["tokenizer.ggml." + k].contents() for k in names
             if "tokenizer.ggml." + k in fields}
    return {"set": set(found["tokens"]), **found}


def compare(title, texts, mine, theirs, reason):
    """`theirs(text, special)`; `reason(text, is_new)`."""
    wrong, excused = 0, {}
    for text, (is_new, special, plain) in zip(texts, mine):
        for ours, flag in ((special, True), (plain, False)):
            other = theirs(text, flag)
            if other == ours:
                continue
            why = reason(text, is_new)
            if why is not None:
                excused[why] = excused.get(why, 0) + 1
                continue
            wrong += 1
            if wrong <= 3:
                print(f"{title} ({flag}): {text!r}\n  theirs {other}\n  ours   {ours}")
    print(f"{title}: {len(texts)} texts twice, {wrong} differ without a reason; "
          f"with one: {excused or 'none'}", flush=True)
    return wrong


def check_model(dump, path, texts):
    vocabulary = read_vocabulary(path)
    name = os.path.basename(path)
    mine = list(shared.ours(dump, path, texts))
    llama = LlamaCpp(path)
    wrong = compare(f"{name} / llama.cpp", texts, mine, llama.encode,
                    lambda *a: reason_of(vocabulary, *a))
    if vocabulary["model"] == "gpt2":
        theirs = shared.hugging_face(vocabulary["pre"], vocabulary)

        def encode(text, special):
            theirs.encode_special_tokens = not special
            return theirs.encode(text).ids

        wrong += compare(f"{name} / tokenizers", texts, mine, encode,
                         lambda text, is_new: "unicode" if shared.is_excused(
                             vocabulary["pre"], text, is_new) else None)
    return wrong


def fetch_source(folder):
    """Unpacks llama.cpp's vocabularies into `folder`."""
    if not glob.glob(os.path.join(folder, "*.gguf")):
        os.makedirs(folder, exist_ok=True)
        if not glob.glob(os.path.join(folder, "*.tar.gz")):
            subprocess.run([sys.executable, "-m", "pip", "download", "-qq", "--no-deps",
                            "--no-build-isolation", "--no-binary", ":all:", "-d",
                            folder, SOURCE], check=True)
        archive = glob.glob(os.path.join(folder, "*.tar.gz"))[0]
        with tarfile.open(archive) as tar:
            for member in tar:
                base = os.path.basename(member.name)
                if "/models/ggml-vocab-" in member.name or "/models/templates/" in member.name:
                    with open(os.path.join(folder, base), "wb") as out:
                        out.write(tar.extractfile(member).read())
    return folder


def check_vocabulary(dump, folder, name):
    path = os.path.join(folder, f"ggml-vocab-{name}.gguf")
    with open(path + ".inp", encoding="utf-8", newline="") as f:
        texts = f.read().split(SEPARATOR)[:-1]
    with open(path + ".out", encoding="utf-8") as f:
        lines = f.read().split("\n")
    wrong = 0
    for text, line, (_, special, _) in zip(texts, lines, shared.ours(dump, path, texts)):
        if special != [int(i) for i in line.split()]:
            wrong += 1
            print(f"{name}: {text!r}\n  theirs {line.split()}\n  ours   {special}")
    print(f"{name}: {len(texts)} texts of llama.cpp's tests, {wrong} differ", flush=True)
    return wrong


def main():
    models, build = sys.argv[1:3]
    dump = os.path.join(os.path.abspath(build), "tests", "real", "dump_ids")
    shared.enter_environment(os.path.join(os.path.dirname(os.path.abspath(build)), "venv-families"), PACKAGES)
    rng = random.Random(shared.SEED)
    with open(GOLDEN, encoding="utf-8") as f:
        texts = [row["text"] for row in json.load(f)["strings"]]
    texts += [shared.random_text(rng) for _ in range(shared.STRINGS)]
    texts += [marked_text(rng) for _ in range(1000)]
    source = fetch_source(os.path.join(os.path.dirname(os.path.abspath(build)), "llama-cpp"))
    wrong = [check_vocabulary(dump, source, name) for name in VOCABULARIES]
    for path in sorted(glob.glob(os.path.join(models, "*.gguf"))):
        wrong.append(check_model(dump, path, texts))
    print(f"{wrong.count(0)} passed, {len(wrong) - wrong.count(0)} failed")
    sys.exit(any(wrong))


if __name__ == "__main__":
    main()
