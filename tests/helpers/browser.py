"""A headless Chromium that tests drive with keys and expressions, through the DevTools protocol over two pipes."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import time

COMMAND = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = "--headless --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run --disable-extensions".split()
KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
CONTROL = 2  # the modifier's bit
SECONDS = 60  # on a busy machine Chromium may take that long to open a page


class Browser:
    """One page. Whatever it waits for must come within SECONDS, or AssertionError says what did not."""

    def __init__(self, folder):
        """folder: where it keeps its profile."""
        ours, theirs = os.pipe(), os.pipe()  # what it writes, what it reads
        self._reads, self._writes = ours[0], theirs[1]
        descriptors = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs[0], ours[1])]
        self._process = subprocess.Popen(
            [COMMAND, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=lambda: [
                os.dup2(end, number) for number, end in enumerate(descriptors, 3)
            ],  # it expects 3 and 4
            pass_fds=(3, 4),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for end in (*descriptors, theirs[0], ours[1]):
            os.close(end)
        self._number, self._received, self._session, self.complaints = 0, b"", None, []
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Log.enable")

    def call(self, method, **parameters):
        """A command of the protocol and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next(method)
            if reply.get("id") == self._number:
                assert "error" not in reply, (method, reply["error"])
                return reply["result"]
            is_entry = reply.get("method") == "Log.entryAdded" and reply["params"]["entry"]["source"] != "network"
            if is_entry or reply.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(reply["params"])

    def _next(self, method):
        while b"\0" not in self._received:
            assert select.select([self._reads], [], [], SECONDS)[0], f"Chromium does not answer {method}"
            part = os.read(self._reads, 1 << 16)
            assert part, f"Chromium ended at {method}"
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def go(self, address, width=1000, height=800):
        """Opens an address anew, in a window of so many pixels; a narrow one is a phone's."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)

    def value(self, expression):
        """What JavaScript says of it, as plain data."""
        reply = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def wait(self, expression):
        """The value of an expression once it is true."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if result := self.value(expression):
                return result
            assert not self.complaints, self.complaints
            time.sleep(0.02)
        raise AssertionError(f"{expression} never was true; the page says {self.value('document.body.innerText')}")

    def press(self, key, modifiers=0):
        """Presses a key of KEYS."""
        what = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": modifiers}
        if key == "Enter":
            what["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **what)
        self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    def write(self, text):
        """Types a text where the focus is."""
        self.call("Input.insertText", text=text)

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._reads)
        os.close(self._writes)
