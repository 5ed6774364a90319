#!/usr/bin/env python3
"""run_verify.py - `verify`: what was not touched passes, and each changed byte is named.

One small file of results; then, column by column, a copy of it in which a single value is
another. SPDX-License-Identifier: MIT
"""
import hashlib
import json
import math
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from script import ENVIRONMENT, PROGRAM, ROOT  # noqa: E402

DATA = ROOT / "tests/fail/data"
RUN = ["run", "--model", "builtin", "--tasks",
       f"recall:samples=1,tokens=131,pairs=20,jsonl:data={DATA}/answers.jsonl",
       "--samples", "2", "--rules", "full,random,oracle,h2o,adakv(snapkv:window=16)", "--budgets",
       "50%,25%", "--seeds", "1,2", "--protect", "1+8", "--bos", "off", "-q"]
# Ids say where a row stands, the other two come after the certificate.
NOT_COVERED = {"certificate", "verification"}
passed, failed = 0, 0


def call(*arguments, **more):
    return subprocess.run([PROGRAM, *map(str, arguments)], env={**ENVIRONMENT, **more}, text=True,
                          capture_output=True, timeout=120)


def check(name, holds, what=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED {name}: {what}")


def verify(path, *more, code=0):
    """The JSON of a call that must end with `code`; None if it is another one."""
    done = call("verify", path, "--json", "-q", *more)
    if done.returncode != code:
        print(f"exit code {done.returncode}, expected {code}: {more}\n{done.stdout}{done.stderr}")
        return None
    return json.loads(done.stdout)


def changed(value, is_key):
    """Another value of the same type, which no other row has if it is a key."""
    if isinstance(value, int):
        return value + 1000 if is_key else 1 - value if value in (0, 1) else value + 1
    if isinstance(value, float):
        return math.nextafter(value, math.inf)
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if value[:1] in ("{", "["):  # stays JSON, as the file's own checks want it
        at = next(i for i, c in enumerate(value) if c in "123456789")
        return value[:at] + ("2" if value[at] == "1" else "1") + value[at + 1:]
    at = len(value) // 2
    return value[:at] + ("y" if value[at:at + 1] == "x" else "x") + value[at + 1:]


def columns(path):
    """(table, column) of everything that is covered, and a row in which there is a value."""
    with sqlite3.connect(path) as db:
        tables = [t for t, in db.execute("select name from sqlite_schema where type = 'table'")]
        for table in sorted(set(tables) - NOT_COVERED):
            for column in [row[1] for row in db.execute(f"pragma table_info({table})")]:
                if column != "id" and not column.endswith("_id"):
                    yield table, column


def flip(path, table, column):
    """Changes one value; False if every one is NULL."""
    with sqlite3.connect(path) as db:
        db.execute("pragma synchronous = off")
        db.execute("pragma ignore_check_constraints = on")
        key = [r[1] for r in db.execute(f"pragma table_info({table})") if r[5]]
        row = db.execute(f"select {column}, {','.join(key)} from {table} where {column} is not "
                         f"null order by length({column}) desc").fetchone()
        if row is None:
            return False
        db.execute(f"update {table} set {column} = ? where ({','.join(key)}) = "
                   f"({','.join('?' * len(key))})", (changed(row[0], column in key), *row[1:]))
    return True


def flip_all(path, folder):
    copy = folder / "copy.db"
    n = 0
    for table, column in columns(path):
        shutil.copy(path, copy)
        if not flip(copy, table, column):
            continue
        n += 1
        done = call("verify", copy, "--certificate", "-q")
        named = f"table {table}, column {column}" if column != "created" else "made.created"
        check(f"{table}.{column} is named", done.returncode == 3 and named in done.stdout,
              f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    check("there are columns", n > 75, n)


def flip_others(path, folder):
    """What no single column shows."""
    copy = folder / "copy.db"
    for name, sql, said in [
            ("a ledger row is gone", "delete from ledger where (cell_id, phase, scope, op) = "
             "(select cell_id, phase, scope, op from ledger limit 1)", "table ledger:"),
            ("a note is gone", "delete from note", "table note:"),
            ("a cell belongs to a copy of its rule",
             "insert into rule select null, 'other', expression, abi, source_sha256, family, "
             "origin, state_bytes, deployable, accounted, is_random, is_reference, about from rule "
             "where label = 'h2o'; update cell set rule_id = (select max(id) from rule) where id = "
             "(select min(cell.id) from cell join rule on rule.id = rule_id where label = 'h2o')",
             "table rule:"),
            ("scores of two cells are exchanged",
             "update score set cell_id = -1 where cell_id = 2; "
             "update score set cell_id = 2 where cell_id = 3; "
             "update score set cell_id = 3 where cell_id = -1",
             "table score: a row belongs to another one"),
            ("the certificate's body", "update certificate set body = replace(body, "
             "'\"trace_equal\": true', '\"trace_equal\": false')", "trace_equal"),
            ("the certificate's hash", "update certificate set sha256 = replace(sha256, "
             "substr(sha256, 1, 1), 'x')", "table certificate"),
            ("a digest that fits the changed score", "update cell set digest = replace(digest, "
             "substr(digest, 1, 1), 'x') where id = 2", "table cell, column digest"),
            ("a view says other numbers", "drop view point; create view point as select 1 as mean",
             "view point: not that of this program"),
            ("an index is gone", "drop index model_identity", "index model_identity:"),
            ("a trigger", "create trigger mine after insert on verification begin "
             "update verification set equal = 99; end", "trigger mine:"),
            ("the schema's number", "pragma user_version = 4", "schema number 4"),
            ("a note is of a cell", "update note set cell_id = 2", "table note, column cell")]:
        shutil.copy(path, copy)
        with sqlite3.connect(copy) as db:
            db.executescript("pragma synchronous = off; " + sql)
        done = call("verify", copy, "--certificate", "-q")
        check(name, done.returncode == 3 and said in done.stdout,
              f"exit code {done.returncode}: {done.stdout}{done.stderr}")


def unreadable(path, folder):
    """What no program has written is a change too, not a question that makes no sense."""
    for what, change in {
        "a body that is no JSON": "update certificate set body = '{}' || body",
        "documents of one name": "update sample set key = 'a'",
    }.items():
        copy = folder / "copy.db"
        shutil.copy(path, copy)
        with sqlite3.connect(copy) as db:
            db.execute("pragma ignore_check_constraints = on")
            db.execute(change)
        found = verify(copy, "--certificate", code=3)
        check(f"{what} is found", found and found["problems"], found)
    copy = folder / "copy.db"
    shutil.copy(path, copy)
    with sqlite3.connect(copy) as db:
        db.execute("pragma ignore_check_constraints = on")
        db.execute("update task set params = '[1,2'")
    done = call("verify", copy, "--certificate")
    check("parameters that are none say where", done.returncode == 3 and
          "copy.db': parameters of a task" in done.stderr, done.stderr)
    shutil.copy(path, copy)
    with sqlite3.connect(copy) as db:
        db.execute("update budget set value = 'nan' where kind = 'ratio'")
    for command in ["compare", "verify"]:
        done = call(command, copy)
        check(f"budgets that are no number: {command}", done.returncode == (3 if command == "verify"
              else 2) and "value of a budget" in done.stderr, (done.returncode, done.stderr))
    shutil.copy(path, copy)
    with sqlite3.connect(copy) as db:
        db.execute("delete from rule where label = 'h2o'")
    done = call("verify", copy, "--certificate")
    check("cells of a rule that is gone", done.returncode == 3 and
          "a row names a rule that is not there" in done.stderr, done.stderr)


def form(path, copy):
    """A certificate as another program might write it, its hash included."""
    shutil.copy(path, copy)
    with sqlite3.connect(copy) as db:
        text = db.execute("select body from certificate").fetchone()[0]
        text = text.replace('"format": 3', '"format": 9', 1)
        db.execute("update certificate set body = ?, sha256 = ?",
                   (text, hashlib.sha256(text.encode()).hexdigest()))


def shown_elsewhere(path, folder):
    """Nothing that was changed is shown as closed, and what was is said, wherever the class is."""
    copy, page = folder / "copy.db", folder / "page.html"
    for name, sql, said in [
            ("an account of memory", "update memory set peak_bytes = peak_bytes + 1 where "
             "account = 'kv'", "table memory, column peak_bytes"),
            ("a count of work", "update ledger set flops = flops + 1 where scope = 'score'",
             "table ledger, column flops"),
            ("no certificate", "delete from certificate", "its certificate is not there"),
            ("a class of another name", "delete from certificate; update experiment set class = "
             "'Closed'", "its certificate is not there"),
            ("a certificate of no form", "update certificate set body = '{}'",
             "the body does not have the hash")]:
        shutil.copy(path, copy)
        with sqlite3.connect(copy) as db:
            db.executescript(sql)
        words = call("compare", copy).stdout
        check(f"{name}: compare", "open class (changed after its certificate: " in words
              and said in words and "closed class" not in words, words)
        found = json.loads(call("compare", copy, "--json").stdout)
        check(f"{name}: JSON", found["class"] == "open" and said in found["class_reasons"]
              and found["verified"] is None, found["class_reasons"])
        done = call("report", copy, "-o", page)
        text = page.read_text()
        check(f"{name}: page", said in text and "Class <b>closed" not in text
              and "class <b>closed" not in text, done.stderr)
        done = call("choose", copy, "--kv-memory", "1GiB", "--json")
        found = json.loads(done.stdout)
        check(f"{name}: choose", found["class"] == "open" and said in found["class_reasons"],
              done.stderr)
        for subject in ["kept", "peer"]:
            done = call("export", subject, copy)
            check(f"{name}: export {subject}", said in done.stderr and "warning" in done.stderr,
                  done.stderr)
        done = call("verify", copy, "--certificate", "-q")
        check(f"{name}: verify", done.returncode == 3 and said in done.stdout, done.stdout)
        done = call(*RUN, "-o", copy)
        check(f"{name}: run", done.returncode == 1 and said in done.stderr, done.stderr)
    shutil.copy(path, copy)
    with sqlite3.connect(copy) as db:
        db.execute("insert into verification (certificate_id, host_id, created, cells, equal, details)"
                   " select id, 1, '', 2, 99, '{}' from certificate")
    check("more equal cells than there are", "no cell was run again yet" in
          call("compare", copy).stdout, call("compare", copy).stdout)
    form(path, copy)
    words = call("compare", copy)
    check("a certificate of another form", "open class (its certificate is of a form" in words.stdout
          and "form 9" in call("verify", copy).stderr, words.stdout + words.stderr)
    words = call("compare", path).stdout
    check("what was not changed is closed", words.count("closed class") == 1, words)


def flip_index(path, folder):
    """A row that an index no longer finds: tables alone do not show it."""
    copy = folder / "copy.db"
    shutil.copy(path, copy)
    with sqlite3.connect(copy) as db:
        page, size = (db.execute(sql).fetchone()[0] for sql in (
            "select rootpage from sqlite_schema where name = 'rule_identity'",
            "pragma page_size"))
    raw = bytearray(copy.read_bytes())
    at = raw.index(b"random", (page - 1) * size, page * size)
    raw[at] ^= 1
    copy.write_bytes(raw)
    done = call("verify", copy, "--certificate", "-q")
    check("a byte of an index", done.returncode == 3 and "pages of the file" in done.stdout,
          f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    shutil.copy(path, copy)
    with sqlite3.connect(copy) as db:
        db.execute("create view mine as select label from rule")
    check("a view of one's own is nobody's business",
          call("verify", copy, "--certificate", "-q").returncode == 0)


def forge(path, folder):
    """Cells, digests and certificate changed together: only running again shows it. A program
    that stores wrong numbers is played by one that certifies what another has changed."""
    copy = folder / "copy.db"
    shutil.copy(path, copy)
    with sqlite3.connect(copy) as db:
        db.execute("update ledger set flops = flops * 2 where scope = 'signal'")
        db.executescript("delete from certificate; update experiment set class = 'open'")
    done = call(*RUN, "-o", copy)  # nothing is left to do: it certifies
    check("a changed file is certified", done.returncode == 0, done.stderr)
    found = verify(copy, "--certificate", "--data", DATA)
    check("and the file says what was certified", found and found["holds"], found)
    found = verify(copy, "--cells", "all", "--data", DATA, code=3)
    check("running again finds it", found and any(
        c.get("differs") == "ledger.flops" for c in found["cells"]), found)


def whole(path, folder):
    found = verify(path, "--certificate")
    check("the file is as certified", found and found["holds"] and found["n"] == 0, found)
    for cells in ["12", "all"]:
        found = verify(path, "--cells", cells, "--data", DATA)
        check(f"{cells} cells are equal", found and found["holds"]
              and found["equal"] == found["n"] > 11 and found["near"] == 0, found)
    again = verify(path, "--data", DATA)
    other = verify(path, "--data", DATA, "--threads", "1", "--isa", "plain", "--weights", "resident")
    check("other threads, kernels, weights: the same cells, equal", again and other
          and again["cells"] == other["cells"] and other["holds"], other)
    with sqlite3.connect(path) as db:
        rows = db.execute("select cells, equal, details from verification").fetchall()
    check("it is stored", len(rows) == 4 and rows[0][:2] == (12, 12)
          and json.loads(rows[0][2])["holds"], rows)
    check("and named beside the class", "12 of 12 cells run again are equal" in
          call("compare", path).stdout, call("compare", path).stdout)
    read_only = folder / "read_only.db"
    shutil.copy(path, read_only)
    read_only.chmod(0o444)
    found = verify(read_only, "--data", DATA, "--cells", "1")
    check("a file that cannot be written to", found and found["holds"], found)
    done = call("verify", path, "--data", DATA, "--cells", "1", "-q", FLEXBUDGET_RULES="full",
                FLEXBUDGET_MODEL="nowhere.gguf", FLEXBUDGET_SEEDS="7")
    check("settings of the environment do not enter", done.returncode == 0, done.stderr)


def body(path):
    """The certificate without when and where."""
    with sqlite3.connect(path) as db:
        found = json.loads(db.execute("select body from certificate").fetchone()[0])
    return {k: v for k, v in found.items() if k != "made"}


def refused(path, folder):
    done = call("verify", path, "--cells", "1")
    check("data that is elsewhere", done.returncode == 2 and "answers.jsonl" in done.stderr,
          done.stderr)
    other = next((ROOT / "build").glob("*/gen/builtin_good.gguf"), None)
    if other is not None:
        done = call("verify", path, "-m", other, "--data", DATA)
        check("another model is named", done.returncode == 2 and "SHA-256" in done.stderr
              and "builtin_good" in done.stderr, done.stderr)
    done = call("verify", path, "-m", "no/such.gguf", "--data", DATA)
    check("a model that is not there", done.returncode == 2 and "-m FILE" in done.stderr,
          done.stderr)
    part = folder / "part.db"
    call(*RUN, "-o", part, "--only", "rule=full")
    done = call("verify", part)
    check("an unfinished run", done.returncode == 2 and "no certificate" in done.stderr,
          done.stderr)
    with sqlite3.connect(part) as db:
        row = db.execute("select class, class_reasons from experiment").fetchone()
    check("is open", row == ("open", "the run is not finished"), row)
    call(*RUN, "-o", part)
    plain = folder / "plain.db"
    call(*RUN, "-o", plain, "-j", 1, "--isa", "plain")
    check("one thread and other kernels make the same certificate", body(plain) == body(path))
    check("a run in parts has the certificate of one run", body(part) == body(path))
    call("verify", part, "--data", DATA, "--cells", "1", "-q")
    with sqlite3.connect(part) as db:
        db.execute("delete from cell where id = 3")
    done = call(*RUN, "-o", part)
    check("a file that lost a cell is not certified once more", done.returncode == 1
          and "changed after its certificate: " in done.stderr, done.stderr)
    with sqlite3.connect(part) as db:
        db.executescript("delete from certificate; update experiment set class = 'open'")
    call(*RUN, "-o", part, "--only", "rule=full")
    done = call(*RUN, "-o", part)
    check("a cell that was made again is certified again", done.returncode == 0
          and verify(part, "--certificate"), done.stderr)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "r.db"
        done = call(*RUN, "-o", path)
        check("the run", done.returncode == 0, done.stderr)
        flip_all(path, folder)
        flip_others(path, folder)
        unreadable(path, folder)
        shown_elsewhere(path, folder)
        flip_index(path, folder)
        forge(path, folder)
        whole(path, folder)
        refused(path, folder)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
