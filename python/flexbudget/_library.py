"""_library.py - libflexbudget.so through ctypes: what include/flexbudget/embed.h declares.

SPDX-License-Identifier: MIT
"""
import ctypes
import os
import pathlib

ABI = 1
STATUSES = ("OK", "USAGE", "NOT_FOUND", "FORMAT", "UNSUPPORTED", "BUDGET", "NO_MEMORY", "IO", "DEFECT", "STOPPED")


class Error(ValueError):
    """What was asked for makes no sense or cannot be done; the text is one sentence.

    `status` is the name of an fb_status: "USAGE", "UNSUPPORTED", "BUDGET", ...
    """

    def __init__(self, sentence, status="USAGE"):
        super().__init__(sentence)
        self.status = status


class Outside(ctypes.Structure):
    """fb_outside: a tensor of the caller, by address."""

    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("device", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 3), ("stride", ctypes.c_int64 * 3)]


class About(ctypes.Structure):
    """fb_event_about"""

    _fields_ = [("rule", ctypes.c_char_p), ("given", ctypes.c_char_p), ("budget", ctypes.c_char_p),
                ("protect", ctypes.c_int32), ("sink", ctypes.c_int64), ("recent", ctypes.c_int64),
                ("layers", ctypes.c_int64), ("heads", ctypes.c_int64), ("kv_heads", ctypes.c_int64),
                ("head_dim", ctypes.c_int64), ("tokens", ctypes.c_int64), ("value_dim", ctypes.c_int64),
                ("dtype", ctypes.c_int32), ("seed", ctypes.c_uint64)]


class Facts(ctypes.Structure):
    """fb_event_facts"""

    _fields_ = [("entries", ctypes.c_int64), ("n_protected", ctypes.c_int64),
                ("fallback", ctypes.c_int32), ("shrunk", ctypes.c_int32)]


class Needs(ctypes.Structure):
    """fb_event_needs"""

    _fields_ = [("queries", ctypes.c_int64), ("values", ctypes.c_int32), ("scores", ctypes.c_int32)]


POINTER = ctypes.c_void_p
FUNCTIONS = {  # name: result, arguments
    "fb_guest_error": (ctypes.c_char_p, []),
    "fb_guest_abi": (ctypes.c_int, []),
    "fb_guest_open": (ctypes.c_int, [ctypes.POINTER(POINTER), ctypes.c_char_p, ctypes.c_char_p]),
    "fb_guest_close": (None, [POINTER]),
    "fb_guest_load": (ctypes.c_int, [POINTER, ctypes.c_char_p]),
    "fb_event_open": (ctypes.c_int, [ctypes.POINTER(POINTER), POINTER, ctypes.POINTER(About)]),
    "fb_event_close": (None, [POINTER]),
    "fb_event_rule": (ctypes.c_char_p, [POINTER]),
    "fb_event_needs_of": (Needs, [POINTER]),
    "fb_event_layer": (ctypes.c_int, [POINTER, ctypes.c_int64] + [ctypes.POINTER(Outside)] * 3 + [ctypes.c_double]),
    "fb_event_scores": (ctypes.c_int, [POINTER, ctypes.c_int64, ctypes.POINTER(Outside)]),
    "fb_event_select": (ctypes.c_int, [POINTER, ctypes.POINTER(Facts)]),
    "fb_event_kept": (ctypes.POINTER(ctypes.c_int32),
                      [POINTER, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)]),
    "fb_event_work": (ctypes.c_bool, [POINTER, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p),
                                      ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_double),
                                      ctypes.POINTER(ctypes.c_double)]),
}


def _candidates():
    """Where the library may be: named, beside this package, in a build tree, where the loader looks."""
    here = pathlib.Path(__file__).resolve().parent
    if os.environ.get("FLEXBUDGET_LIBRARY"):
        return [os.environ["FLEXBUDGET_LIBRARY"]]
    near = [here / "libflexbudget.so", here.parents[1] / "build/release/libflexbudget.so"]
    return [str(path) for path in near if path.exists()] + ["libflexbudget.so"]


def _open():
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            break
        except OSError as error:
            reason = str(error)
    else:
        raise Error(f"libflexbudget.so cannot be loaded ({reason}); `make embed` builds it, and "
                    "FLEXBUDGET_LIBRARY says where it is", "NOT_FOUND")
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise Error(f"'{path}' is not the libflexbudget.so of this module: it has no {name}", "UNSUPPORTED")
        function.restype, function.argtypes = result, arguments
    if library.fb_guest_abi() != ABI:
        raise Error(f"'{path}' has interface {library.fb_guest_abi()}; this module needs {ABI}", "UNSUPPORTED")
    return library


_the_library = None


def library():
    """The library, opened once."""
    global _the_library
    if _the_library is None:
        _the_library = _open()
    return _the_library


def check(status):
    """Raises the sentence of a call that failed."""
    if status != 0:
        raise Error(library().fb_guest_error().decode(errors="replace"), STATUSES[status])
