"""chromium.py - headless Chromium, driven over a pipe with the standard library alone.

The DevTools protocol: JSON messages ended by a zero byte, ours written to file
descriptor 3 of the browser, its own read from 4. One Tab is one page; it records
requests, console messages and exceptions.

SPDX-License-Identifier: MIT
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 30.0  # seconds for one answer; machines are busy


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="flexbudget-page-")
        read_ours, write_theirs = os.pipe()
        read_theirs, write_ours = os.pipe()

        def place():  # in the child: its ends become 3 and 4
            low, high = os.dup(read_theirs), os.dup(write_theirs)
            high2 = os.dup(high)  # both are above 4 now, so neither is overwritten
            os.dup2(low, 3)
            os.dup2(high2, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
             "--force-color-profile=srgb", "--font-render-hinting=none", "--lang=en",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=place, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_theirs)
        os.close(write_theirs)
        self.read_from, self.write_to = read_ours, write_ours
        self.buffer = b""
        self.last = 0
        self.events = []

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.read_from)
        os.close(self.write_to)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_from], [], [], left)[0]:
                raise RuntimeError("the browser does not answer")
            more = os.read(self.read_from, 1 << 20)
            if not more:
                raise RuntimeError("the browser has gone")
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def call(self, method, session=None, **params):
        self.last += 1
        request = {"id": self.last, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.write_to, data):]
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.message(deadline)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def tab(self, **options):
        return Tab(self, **options)


class Tab:
    def __init__(self, browser, width=1120, height=900, dark=False, script=True):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call(
            "Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.media(dark)
        self.size(width, height)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def media(self, dark):
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def open(self, path, ready=None):
        """Opens a file and waits until the expression `ready` is true."""
        path, _, fragment = path.partition("#")
        url = "file://" + os.path.abspath(path) + ("#" + fragment if fragment else "")
        self.call("Page.navigate", url=url)
        ready = ready or "document.readyState === 'complete'"
        self.until(f"location.protocol === 'file:' && document.documentElement && ({ready})")

    def until(self, expression):
        deadline = time.monotonic() + PATIENCE
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise RuntimeError(f"never true: {expression}; console: {self.said()}")
            time.sleep(0.05)

    def value(self, expression):
        """The value of an expression in the page (also where its scripts are off)."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def drain(self):
        self.value("0")
        mine = [e for e in self.browser.events if e.get("sessionId") == self.session]
        return [(e["method"], e["params"]) for e in mine]

    def requests(self):
        return [p["request"]["url"] for m, p in self.drain() if m == "Network.requestWillBeSent"]

    def said(self):
        """Everything on the console, and every exception."""
        out = []
        for method, params in self.drain():
            if method == "Runtime.consoleAPICalled":
                out.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            elif method == "Runtime.exceptionThrown":
                out.append(params["exceptionDetails"]["exception"].get("description", "exception"))
            elif method == "Log.entryAdded":
                out.append(params["entry"]["text"])
        return out

    def picture(self, path):
        """The whole page as PNG."""
        height = self.value("document.documentElement.scrollHeight")
        width = self.value("innerWidth")
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def paper(self, path=None):
        """The page as PDF: its bytes."""
        data = base64.b64decode(self.call(
            "Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
        if path:
            with open(path, "wb") as file:
                file.write(data)
        return data
