#!/usr/bin/env python3
"""make_blocks.py - blocks of random bytes and what the package `gguf` makes of them.

usage: make_blocks.py > blocks.json        (pip install gguf==0.19.0)

Every format has eight blocks; the half-precision scales are overwritten with values
that matter: zero, the smallest and largest subnormal, the smallest and largest normal,
negative ones. Plain formats hold those, infinities and random finite numbers. The
results are the bytes of little-endian float32, in hex: no rounding on the way.
"""
import json
import sys

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

BLOCKS = 8
HALVES = {  # offsets of the half-precision scales in a block
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
SCALES = [0x0000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x2E66, 0xA3D7]
PLAIN = {
    "F32": (np.uint32, [0, 1 << 31, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000,
                        0xFF800000]),
    "F16": (np.uint16, [0, 0x8000, 1, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00]),
    "BF16": (np.uint16, [0, 0x8000, 1, 0x807F, 0x0080, 0x7F7F, 0x7F80, 0xFF80]),
}


def plain(rng, dtype, special):
    """The special values, then random ones that are finite in every plain format."""
    numbers = rng.integers(0, np.iinfo(dtype).max, 56, dtype=dtype, endpoint=True)
    for exponent in [0x7F800000] if dtype is np.uint32 else [0x7C00, 0x7F80]:
        numbers[numbers & dtype(exponent) == exponent] = 1
    return np.concatenate([np.array(special, dtype), numbers])


def main():
    rng = np.random.default_rng(20)
    out = {}
    for name, (dtype, special) in PLAIN.items():
        raw = plain(rng, dtype, special)
        out[name] = raw.view(np.uint8)
    for name, places in HALVES.items():
        size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
        raw = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for k, at in enumerate(places):
            scales = np.roll(np.array(SCALES, "<u2"), 3 * k).view(np.uint8)
            raw[:, at:at + 2] = scales.reshape(BLOCKS, 2)
        out[name] = raw.reshape(-1)
    rows = {}
    for name, raw in out.items():
        kind = GGMLQuantizationType[name]
        numbers = dequantize(raw, kind).astype("<f4", copy=False)
        rows[name] = {"type": int(kind), "bytes": raw.tobytes().hex(),
                      "f32": numbers.tobytes().hex()}
    json.dump(rows, sys.stdout, indent=0)
    print()


if __name__ == "__main__":
    main()
