#!/usr/bin/env python3
"""query.py - rows of a results file, for cases: query.py FILE "select ...".

Columns are separated by a space. SPDX-License-Identifier: MIT
"""
import sqlite3
import sys

for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]):
    print(*row)
