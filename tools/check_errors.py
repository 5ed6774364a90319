#!/usr/bin/env python3
"""check_errors.py - a failure always has a sentence.

No status but FB_OK is returned, or put into a variable, without fb_fail. The statuses
are those of FB_STATUS_LIST in include/flexbudget/error.h.

SPDX-License-Identifier: MIT
"""
import re
import sys
from pathlib import Path


def main():
    listed = Path("include/flexbudget/error.h").read_text()
    statuses = re.findall(r"^\s*X\((\w+),", listed, re.M)
    failures = "|".join(name for name in statuses if name != "OK")
    failure = rf"FB_(?:{failures})\b"
    bare = re.compile(rf"(?:\breturn|[^=!<>]=)\s+(?:[^;(){{}}]*[?:]\s*)?{failure}\s*[;:]")
    wrong = 0
    for path in sorted([*Path("src").rglob("*.c"), *Path("rules").glob("*.c"),
                        *Path("tasks").glob("*.c")]):
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()),
                      path.read_text(), flags=re.S)
        for match in bare.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            print(f"{path}:{line}: '{match.group().strip()}' without a sentence; use fb_fail")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
