"""flexbudget - eviction rules for key-value caches, in your own process.

`flexbudget.torch` runs the rules of the FlexBudget program on PyTorch tensors and attaches them to
models of `transformers`. It needs libflexbudget.so (`make embed`) and torch >= 2.10.

SPDX-License-Identifier: MIT
"""
from ._library import Error

__all__ = ["Error"]
