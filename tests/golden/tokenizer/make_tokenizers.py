#!/usr/bin/env python3
"""make_tokenizers.py - small tokenizers of every kind that we read, with their ids.

usage: make_tokenizers.py REPOSITORY     (tokenizers 0.22.2, sentencepiece 0.2)

Writes tests/golden/tokenizer/made/NAME/ (tokenizer.json, or tokenizer.model with
tokenizer_config.json) and made/ids.json: for the 77 strings of tokenization.json and 60
random ones, what the package gives. SPDX-License-Identifier: MIT
"""
import io
import json
import os
import random
import shutil
import sys
from importlib.metadata import version

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers

ROOT = sys.argv[1]
HERE = os.path.join(ROOT, "tests", "golden", "tokenizer")
MADE = os.path.join(HERE, "made")
MARK = "\u2581"
ENDING = "'s|'t|'re|'ve|'m|'ll|'d"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
MODERN = (r"(?i:" + ENDING + r")|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          + TAIL)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+%s|[^\r\n\p{L}\p{N}]?" + UPPER
         + "+" + LOWER + r"*%s|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL)


# ---- texts ----------------------------------------------------------------------------


def golden_strings():
    with open(os.path.join(HERE, "tokenization.json"), encoding="utf-8") as f:
        return [row["text"] for row in json.load(f)["strings"]]


def random_string(rng):
    words = ("the and don't I'LL café Zürich Привет 日本語 한국어 ½ Ⅷ 1984 x1 <s> </s> <em> "
             "<sep> e\u0301 ﬁ Ａ \u2581 don’t __init__ == :: 😀 \u180e 'ſ").split()
    spaces = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", ""]
    parts = []
    for _ in range(rng.randrange(1, 7)):
        if rng.randrange(4) == 0:
            parts.append(chr(rng.choice([rng.randrange(0x20, 0x7F),
                                         rng.randrange(0xA1, 0x530),
                                         rng.randrange(0x3040, 0x30FF)])))
        else:
            parts.append(rng.choice(words))
        parts.append(rng.choice(spaces))
    return "".join(parts)


def all_texts():
    rng = random.Random(7)
    fixed = ["Hello", " Hello", "  Hello", "\nHello", "", " ", "  ", "<s>", "<s> a", "a <s>",
             "a <sep> b", "a<sep>b", "<em>x</em>", " <em>  x", "<s><s>a", "\n\n\n", "\t\t"]
    return golden_strings() + fixed + [random_string(rng) for _ in range(60)]


def corpus():
    """Lines to train on: a public-domain text, and the strings themselves."""
    with open(os.path.join(ROOT, "data", "texts", "devils_dictionary.txt"),
              encoding="utf-8") as f:
        lines = f.read().split("\n")[:3000]
    return lines + golden_strings() * 3


# ---- Hugging Face ---------------------------------------------------------------------


def byte_level(steps, normalizer=None, ignore_merges=False, prefix=False, regex=True):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer is not None:
        t.normalizer = normalizer
    last = pre.ByteLevel(add_prefix_space=prefix, use_regex=regex)
    t.pre_tokenizer = pre.Sequence(steps + [last]) if steps else last
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=520, initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False))
    return t


def partial(fuse):
    """Tokens for the bytes of ASCII texts alone; the others are unknown."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse))
    t.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    ascii_lines = (line for line in corpus() if line.isascii() and line.isprintable())
    t.train_from_iterator(ascii_lines, trainers.BpeTrainer(
        vocab_size=300, show_progress=False, special_tokens=["<unk>"]))
    return t


def split(pattern, behaviour="isolated", invert=False):
    return pre.Split(Regex(pattern), behavior=behaviour, invert=invert)


def characters(normalizer, pre_tokenizer, decoder, fallback=True, fuse=True):
    """A SentencePiece-like model: characters, merges, tokens of bytes."""
    specials = ["<unk>", "<s>", "</s>"]
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=fallback, fuse_unk=fuse))
    t.normalizer = normalizers.Sequence([normalizers.Replace(" ", MARK)])
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=500, limit_alphabet=120, show_progress=False,
        special_tokens=specials + [f"<0x{b:02X}>" for b in range(256)] if fallback
        else specials))
    state = json.loads(t.to_str())
    state["added_tokens"] = state["added_tokens"][:3]  # bytes are not looked for
    state["normalizer"] = None
    t = Tokenizer.from_str(json.dumps(state))
    if normalizer is not None:
        t.normalizer = normalizer
    if pre_tokenizer is not None:
        t.pre_tokenizer = pre_tokenizer
    t.decoder = decoder
    return t


def add_tokens(t):
    t.add_special_tokens(["<s>", "</s>"])
    t.add_tokens([AddedToken("<sep>", lstrip=True, rstrip=True, normalized=False),
                  AddedToken("<em>", rstrip=True, normalized=False),
                  AddedToken("\n\n", normalized=False),
                  AddedToken("日本", normalized=True)])


LLAMA_DECODER = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]


def hugging_face():
    replace = normalizers.Replace(" ", MARK)
    stripping = decoders.Sequence(LLAMA_DECODER + [decoders.Strip(" ", 1, 0)])
    keeping = decoders.Sequence(LLAMA_DECODER)
    meta = pre.Metaspace(replacement=MARK, prepend_scheme="first", split=False)
    always = pre.Metaspace(replacement=MARK, prepend_scheme="always", split=True)
    made = {
        "gpt-2": byte_level([]),
        "prefixed": byte_level([], prefix=True),
        "smollm": byte_level([pre.Digits(individual_digits=True)]),
        "llama3": byte_level([split(MODERN % r"\p{N}{1,3}")], ignore_merges=True,
                             regex=False),
        "qwen2": byte_level([split(MODERN % r"\p{N}")], normalizers.NFC(), regex=False),
        "tekken": byte_level([split(CASED % ("", "", r"\p{N}"))], regex=False),
        "o200k": byte_level([split(CASED % (f"(?i:{ENDING})?", f"(?i:{ENDING})?",
                                            r"\p{N}{1,3}"), "removed", True)],
                            regex=False),
        "partial": partial(False),
        "partial-fused": partial(True),
        "llama2": characters(normalizers.Sequence([normalizers.Prepend(MARK), replace]),
                             None, stripping),
        "mistral": characters(None, meta, stripping),
        "metaspace": characters(None, always, decoders.Sequence([
            decoders.ByteFallback(), decoders.Metaspace(
                replacement=MARK, prepend_scheme="always", split=True)])),
        "gemma": characters(replace, pre.Split(" ", "merged_with_previous"), keeping),
        "unknown": characters(normalizers.Sequence([normalizers.NFKC(), replace]), None,
                              keeping, fallback=False, fuse=False),
        "fused": characters(replace, None, keeping, fallback=False, fuse=True),
    }
    for t in made.values():
        add_tokens(t)
    made["llama3"].post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B",
                                      special_tokens=[("<s>",
                                                       made["llama3"].token_to_id("<s>"))])])
    return made


def with_pairs(state):
    """Merges as newer versions write them, or as older ones do."""
    merges = state["model"]["merges"]
    if state["model"]["ignore_merges"]:
        state["model"]["merges"] = [" ".join(m) if isinstance(m, list) else m for m in merges]
    return state


def put_hugging_face(name, t, texts):
    os.makedirs(os.path.join(MADE, name))
    with open(os.path.join(MADE, name, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(with_pairs(json.loads(t.to_str())), f, ensure_ascii=False,
                  separators=(",", ":"))
    rows = []
    for text in texts:
        t.encode_special_tokens = False
        special = t.encode(text, add_special_tokens=False).ids
        t.encode_special_tokens = True
        plain = t.encode(text, add_special_tokens=False).ids
        rows.append(row(text, special, plain, t.decode(special, skip_special_tokens=False)))
    return {"kind": "tokenizers", "size": t.get_vocab_size(), "rows": rows}


def row(text, special, plain, decoded):
    r = {"ids": " ".join(map(str, special))}
    if plain != special:
        r["plain"] = " ".join(map(str, plain))
    if "\ufffd" in decoded or "\u2047" in decoded:
        r["broken"] = True  # bytes that are no UTF-8, SentencePiece's unknown token
    elif decoded != text:
        r["decoded"] = decoded
    return r


# ---- SentencePiece --------------------------------------------------------------------


def sentencepiece_model(**options):
    out = io.BytesIO()
    lines = [line.replace("\n", " ") for line in corpus() if line.strip() and "\0" not in line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, model_type="bpe",
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        character_coverage=0.98, minloglevel=2, num_threads=1, **options)
    return out.getvalue()


def put_sentencepiece(name, model, config, texts):
    os.makedirs(os.path.join(MADE, name))
    with open(os.path.join(MADE, name, "tokenizer.model"), "wb") as f:
        f.write(model)
    if config is not None:
        with open(os.path.join(MADE, name, "tokenizer_config.json"), "w") as f:
            json.dump(config, f)
    p = sentencepiece.SentencePieceProcessor(model_proto=model)
    rows = [row(s, p.encode(s), p.encode(s), p.decode(p.encode(s))) for s in texts]
    return {"kind": "sentencepiece", "size": p.get_piece_size(), "rows": rows}


def main():
    texts = all_texts()
    shutil.rmtree(MADE, ignore_errors=True)
    os.makedirs(MADE)
    made = {name: put_hugging_face(name, t, texts) for name, t in hugging_face().items()}
    made["spm"] = put_sentencepiece(
        "spm", sentencepiece_model(vocab_size=520, byte_fallback=True,
                                   user_defined_symbols=["<sep>", "\u2581\u2581", "ing"]),
        {"legacy": False, "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>"},
        texts)
    made["spm-plain"] = put_sentencepiece(
        "spm-plain", sentencepiece_model(vocab_size=300, byte_fallback=False,
                                         add_dummy_prefix=False), None, texts)
    result = {"tokenizers": version("tokenizers"), "sentencepiece": version("sentencepiece"),
              "texts": texts, "made": made}
    with open(os.path.join(MADE, "ids.json"), "w", encoding="utf-8") as f:
        json.dump(result, f, ensure_ascii=False, indent=0)


if __name__ == "__main__":
    main()
