"""_ledger.py - a rule in plain PyTorch runs under this: every operator counted, none hidden.

A rule may use the core operators of PyTorch (`aten` and `prims`), of which it is known what they
compute and about what they cost. An operator of any other library is refused by name, and so is
taking numbers out of tensors, where nobody could count.

SPDX-License-Identifier: MIT
"""
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from ._library import Error

CORE = ("aten", "prims")
# They move or make numbers and compute none.
MOVES = frozenset("""_to_copy arange cat clone copy copy_ empty empty_like empty_strided expand fill_ flip full
    full_like gather index index_put index_put_ index_select lift_fresh new_empty new_full new_ones new_zeros ones
    ones_like repeat roll scalar_tensor scatter stack take zero_ zeros zeros_like""".split())
LEAVES = frozenset("""__array__ __array_wrap__ __cuda_array_interface__ __dlpack__ __reduce_ex__ __tvm_ffi_to_dlpack__
    data_ptr numpy storage tolist untyped_storage _typed_storage""".split())


def _is_view(func):
    """Whether results share memory with arguments and nothing is written: no work."""
    returns = func._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _size(tensors):
    return sum(t.numel() for t in tensors), sum(t.numel() * t.element_size() for t in tensors)


def _flops(func, read, written, args, kwargs, out):
    """Products as torch.utils.flop_counter counts them, two for a multiply-add; of any other operator
    one for each element that it reads or writes, whichever are more."""
    formula = flop_registry.get(func._overloadpacket)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=out))
    return 0 if func._schema.name.split("::")[1] in MOVES else max(read, written)


class _Names(TorchFunctionMode):
    """Sees what PyTorch would take apart before it is counted: operators made of others."""

    def __init__(self, who):
        super().__init__()
        self.who = who

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in LEAVES or (name == "__get__" and getattr(getattr(func, "__self__", None), "__name__", "") in LEAVES):
            raise Error(f"rule '{self.who}' takes numbers out of PyTorch ('{name}'), where nobody counts; "
                        "stay with tensors", "UNSUPPORTED")
        if isinstance(func, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            _refuse_others(self.who, func)
        return func(*args, **(kwargs or {}))


def _refuse_others(who, func):
    """One sentence for an operator that is not of the core."""
    full = func._schema.name if isinstance(func, torch._ops.OpOverload) else func._qualified_op_name
    if full.split("::")[0] not in CORE:
        raise Error(f"rule '{who}' calls the operator '{full}'; a rule is made of operators of aten alone",
                    "UNSUPPORTED")


class Counting(TorchDispatchMode):
    """Fills `ledger`: {"aten::bmm": {"calls": 1, "flops": 4096, "bytes": 12288}, ...}."""

    def __init__(self, who, ledger, given):
        super().__init__()
        self.who, self.ledger, self.given, self.names = who, ledger, given, _Names(who)

    def __enter__(self):
        self.names.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        return self.names.__exit__(*error)

    def _refuse_writing(self, func, args, kwargs):
        """Signals are the caller's own tensors, a model's cache."""
        for i, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            written = tree_leaves(args[i] if i < len(args) else kwargs.get(argument.name))
            if any(torch._C._is_alias_of(x, g) for x in written if isinstance(x, torch.Tensor) for g in self.given):
                raise Error(f"rule '{self.who}' writes into a signal ('{func._schema.name}'); clone it first",
                            "UNSUPPORTED")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        _refuse_others(self.who, func)
        self._refuse_writing(func, args, kwargs)
        out = func(*args, **kwargs)
        count = self.ledger.setdefault(func._schema.name, {"calls": 0, "flops": 0, "bytes": 0})
        count["calls"] += 1
        if not _is_view(func):
            read, read_bytes = _size([x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)])
            written, written_bytes = _size([x for x in tree_leaves(out) if isinstance(x, torch.Tensor)])
            count["flops"] += _flops(func, read, written, args, kwargs, out)
            count["bytes"] += read_bytes + written_bytes
        return out
