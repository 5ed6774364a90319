"""screen.py - a program on a pseudo-terminal, and what its screen shows.

The screen knows what the program may use and no more: lines, carriage returns, moves
up, clearing, colours. Anything else is an error. SPDX-License-Identifier: MIT
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata

CODE = re.compile(r"\x1b\[(\d*)([A-Za-z])")


def width_of(character):
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Screen:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines = [""]  # all that were ever there, the screen is the last `rows`
        self.row = self.column = 0
        self.colours = 0
        self.wrapped = 0  # lines that the terminal had to break itself

    def put(self, character):
        width = width_of(character)
        if self.column + width > self.columns:
            self.wrapped += 1
            self.down()
            self.column = 0
        line = self.lines[self.row]
        if width == 0:
            self.lines[self.row] = line + character
            return
        line = line.ljust(self.column)
        self.lines[self.row] = line[:self.column] + character + line[self.column + width:]
        self.column += width

    def down(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def up(self, n):
        top = max(0, len(self.lines) - self.rows)
        if self.row - n < top:
            raise AssertionError(f"{n} lines up from line {self.row} leaves the screen")
        self.row -= n

    def obey(self, number, letter):
        if letter == "A":
            self.up(int(number))
        elif letter == "K" and number == "":
            self.lines[self.row] = self.lines[self.row][:self.column]
        elif letter == "J" and number == "":
            self.lines[self.row] = self.lines[self.row][:self.column]
            del self.lines[self.row + 1:]
        elif letter == "m":
            self.colours += 1
        else:
            raise AssertionError(f"the terminal was told ESC [ {number} {letter}")

    def feed(self, text):
        """Text must not end inside a code."""
        at = 0
        while at < len(text):
            character = text[at]
            found = CODE.match(text, at)
            if found:
                self.obey(found[1], found[2])
                at = found.end()
                continue
            at += 1
            if character == "\n":
                self.down()
            elif character == "\r":
                self.column = 0
            elif (ord(character) < 0x20 or 0x7f <= ord(character) < 0xa0
                  or 0xd800 <= ord(character) < 0xe000):  # no UTF-8
                raise AssertionError(f"the terminal was sent {character!r}")
            else:
                self.put(character)

    def shown(self):
        lines = [line.rstrip() for line in self.lines]
        while lines and not lines[-1]:
            lines.pop()
        return lines


class Terminal:
    """A program with its three streams on a terminal of its own."""

    def __init__(self, command, environment, rows=24, columns=80):
        self.screen = Screen(rows, columns)
        self.bytes = b""
        self.pending = b""
        self.frames = []  # the screen after each piece of output
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(command[0], command, environment)

    def take(self, data):
        self.bytes += data
        self.pending += data
        # up to the last whole code and character
        text = self.pending.decode("utf-8", "surrogateescape")
        cut = re.search(r"(\x1b\[?\d*|[\udc80-\udcff]+)$", text)
        keep = "" if cut is None else cut[0]
        text = text[:len(text) - len(keep)]
        self.pending = keep.encode("utf-8", "surrogateescape")
        self.screen.feed(text)
        self.frames.append(self.screen.shown())

    def read(self, seconds=0.2):
        """False once the program has closed the terminal."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        if not data:
            return False
        self.take(data)
        return True

    def wait(self, timeout=60):
        """The exit status, negative for a signal."""
        end = time.monotonic() + timeout
        while self.read():
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(f"longer than {timeout} s")
        os.close(self.master)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)
