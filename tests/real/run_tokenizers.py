#!/usr/bin/env python3
"""run_tokenizers.py - our ids against Hugging Face `tokenizers` on random texts.

usage: FLEXBUDGET_TEST_MODEL=MODEL.gguf FLEXBUDGET_BUILD=build/release run_tokenizers.py

The vocabulary and merges are the file's own. For every pre-tokenizer that the program
knows, a copy of the file's tokenizer is written under that name, and a Hugging Face
tokenizer is put together from the published definition of that name; both encode the
same random texts, with special tokens recognised and without. Ids must be equal. Two
kinds of text may differ, and those that do are counted:
  - with a code point that PCRE2's Unicode does not know yet (added later);
  - (qwen2) where the package's NFC, of an older Unicode, orders marks otherwise than
    Python's, which is ours.

And what the program writes around a user's turn must be what Jinja makes of the file's
own chat template. The packages go into a virtual environment under build/.

SPDX-License-Identifier: MIT
"""
import os
import random
import struct
import subprocess
import sys
import unicodedata
import venv

PACKAGES = ["tokenizers>=0.22,<0.24", "gguf==0.19.0", "jinja2>=3,<4"]
SEED, STRINGS = 1, 10000
DIGITS3, DIGITS1 = r"\p{N}{1,3}", r"\p{N}"
MODERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEFAULT = [r"[\p{P}$+<=>^~|]+",
           r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
           r"\p{N}+", "[0-9][0-9][0-9]"]
NAMES = ["smollm", "gpt-2", "llama-bpe", "qwen2", "default"]


def enter_environment(home, packages):
    """Starts the script again with the interpreter, in folder `home`, that has the packages."""
    python = os.path.join(home, "bin", "python")
    if os.path.realpath(sys.prefix) == os.path.realpath(home):
        return
    if not os.path.exists(os.path.join(home, "ready")):
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", *packages], check=True)
        open(os.path.join(home, "ready"), "w").close()
    os.execv(python, [python, *sys.argv])


# ---- two tokenizers of one vocabulary ----------------------------------------------


def read_vocabulary(path):
    from gguf import GGUFReader

    fields = GGUFReader(path).fields
    return {k: fields["tokenizer.ggml." + k].contents()
            for k in ("tokens", "token_type", "merges", "bos_token_id", "eos_token_id")}


def write_gguf(path, name, vocabulary):
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(vocabulary["tokens"])
    writer.add_token_types(vocabulary["token_type"])
    writer.add_token_merges(vocabulary["merges"])
    writer.add_bos_token_id(vocabulary["bos_token_id"])
    writer.add_eos_token_id(vocabulary["eos_token_id"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def hugging_face(name, vocabulary):
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers
    from tokenizers import pre_tokenizers as pre

    tokens = vocabulary["tokens"]
    merges = [tuple(m.split(" ")) for m in vocabulary["merges"]]
    t = Tokenizer(models.BPE({s: i for i, s in enumerate(tokens)}, merges,
                             ignore_merges=name == "llama-bpe"))
    if name == "smollm":
        t.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True),
                                        pre.ByteLevel(add_prefix_space=False)])
    elif name == "gpt-2":
        t.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    else:
        patterns = {"llama-bpe": [MODERN % DIGITS3], "qwen2": [MODERN % DIGITS1],
                    "default": DEFAULT}[name]
        t.pre_tokenizer = pre.Sequence(
            [pre.Split(Regex(p), behavior="isolated") for p in patterns]
            + [pre.ByteLevel(add_prefix_space=False, use_regex=False)])
        if name == "qwen2":
            t.normalizer = normalizers.NFC()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False)
                          for s, kind in zip(tokens, vocabulary["token_type"])
                          if kind == 3])
    t.add_tokens([AddedToken(s, normalized=False)
                  for s, kind in zip(tokens, vocabulary["token_type"]) if kind == 4])
    return t


# ---- texts ---------------------------------------------------------------------------

WORDS = ("the The THE of and to in is was don't DON'T I'll we've he'd 'S 'Re ’tis café "
         "naïve Zürich Привет мир Καλημέρα שלום مرحبا नमस्ते สวัสดี 日本語 中文 한국어 "
         "e\u0301 A\u030a \u1112\u1161\u11ab ½ ² Ⅷ ٣٤ ४ ①② 20 1984 3.14 0xFF x1 1e-10 "
         "😀 👍🏽 👩\u200d👩\u200d👧 🇫🇷 <|im_start|> <|im_end|> <|im_start|user <|endoftext|> "
         "'ſ 'ſt ǅ ŉ ﬁ K \u0130 \u017f __init__ --- ... ??? !!! ``` :: -> != /* */").split()
SPACES = [" ", " ", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\n ",
          "\u00a0", "\u3000", "\u2028", "\u180e", "\u200b", "\x0b", "\x85", "\x1c", ""]


def random_character(rng):
    limit = rng.choice([0x80, 0x80, 0x800, 0x800, 0x3000, 0x3000, 0x10000, 0x20000,
                        0x110000 if rng.randrange(8) == 0 else 0x10000])
    while True:
        c = rng.randrange(limit)
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def random_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 12)):
        kind = rng.randrange(10)
        if kind < 5:
            parts.append(rng.choice(WORDS))
        elif kind < 6:
            parts.append(rng.choice("abcxyz019 '\n.-\x04") * rng.randrange(1, 40))
        elif kind < 9:
            parts += [random_character(rng) for _ in range(rng.randrange(1, 8))]
        parts.append(rng.choice(SPACES))
    return "".join(parts)


# ---- comparison ----------------------------------------------------------------------


def ours(dump, gguf, texts):
    """Per text: holds a code point that PCRE2 does not know; ids with special tokens
    recognised; ids without."""
    data = b"".join(struct.pack("<I", len(b)) + b for b in (s.encode() for s in texts))
    run = subprocess.run([dump, gguf], input=data, stdout=subprocess.PIPE, check=True)
    lines = run.stdout.decode().split("\n")
    for i in range(len(texts)):
        special = lines[2 * i].split()
        is_new = special[:1] == ["u"]
        yield (is_new, [int(x) for x in special[is_new:]],
               [int(x) for x in lines[2 * i + 1].split()])


def is_excused(name, text, is_new):
    from tokenizers import normalizers

    return is_new or (name == "qwen2" and normalizers.NFC().normalize_str(text)
                      != unicodedata.normalize("NFC", text))


def compare(name, dump, vocabulary, texts):
    gguf = os.path.join(os.path.dirname(dump), f"tokenizer-{name}.gguf")
    write_gguf(gguf, name, vocabulary)
    theirs = hugging_face(name, vocabulary)
    wrong = excused = excused_different = 0
    for text, (is_new, special, plain) in zip(texts, ours(dump, gguf, texts)):
        may_differ = is_excused(name, text, is_new)
        theirs.encode_special_tokens = False
        is_equal = theirs.encode(text).ids == special
        theirs.encode_special_tokens = True
        is_equal &= theirs.encode(text).ids == plain
        excused += may_differ
        excused_different += may_differ and not is_equal
        if not is_equal and not may_differ:
            wrong += 1
            if wrong <= 3:
                print(f"{name}: {text!r}\n  theirs {theirs.encode(text).ids}\n"
                      f"  ours   {plain}")
    print(f"{name}: {len(texts)} texts, {wrong} differ; of {excused} that may differ "
          f"{excused_different} do")
    os.remove(gguf)
    return wrong


def template_differs(dump, model):
    from gguf import GGUFReader
    from jinja2 import Environment

    text = GGUFReader(model).fields["tokenizer.chat_template"].contents()
    jinja = Environment(trim_blocks=True, lstrip_blocks=True)
    rendered = jinja.from_string(text).render(
        messages=[{"role": "user", "content": "\0"}], add_generation_prompt=True)
    shown = subprocess.run([dump, "--template", model], stdout=subprocess.PIPE, check=True)
    is_equal = shown.stdout.decode() == rendered
    print(f"template: {'equal' if is_equal else 'differs'}")
    return not is_equal


def main():
    model = os.environ["FLEXBUDGET_TEST_MODEL"]
    folder = os.path.abspath(os.environ["FLEXBUDGET_BUILD"])
    dump = os.path.join(folder, "tests", "real", "dump_ids")
    enter_environment(os.path.join(os.path.dirname(folder), "venv-tokenizers"), PACKAGES)
    rng = random.Random(SEED)
    vocabulary = read_vocabulary(model)
    texts = [random_text(rng) for _ in range(STRINGS)]
    wrong = [compare(name, dump, vocabulary, texts) for name in NAMES]
    wrong.append(template_differs(dump, model))
    print(f"{wrong.count(0)} passed, {len(wrong) - wrong.count(0)} failed")
    sys.exit(any(wrong))


if __name__ == "__main__":
    main()
