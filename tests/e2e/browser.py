#!/usr/bin/env python3
"""browser.py - drives a headless Chromium by steps on stdin, over the pipe of its DevTools: needs no package.

usage: browser.py URL <<STEPS
  size WIDTH HEIGHT [dark]   the window; dark: the user prefers a dark page
  until EXPRESSION           wait (60 s at most) until this JavaScript is true in the page
  true EXPRESSION            it is true now
  show EXPRESSION            print it
  key NAME                   press Tab, Enter, Space, Escape, a digit or a letter
  move X Y                   the pointer is there; numbers, or expressions without blanks
  click X Y                  ... and its button is pressed
  drag X Y X Y [shift]       ... from there to there
  wheel X Y PIXELS           ... and its wheel is turned
  fit                        the page is not wider than the window
  audit                      what readers of screens need, and contrast (audit.js beside this file)
  scripts on|off             whether pages run scripts; then the page is loaded again
  paper N                    it is printed on so many pages of A4 at most
  media NAME                 the page is shown on this: print, screen
  load [PATH]                load the page (again)
  shot FILE                  a screenshot of the whole page, PNG
  run COMMAND                a shell command, which must succeed
  quiet                      the console has had no error or warning since the last quiet; noise: forget them
A step that fails is named, with what the browser reported, and the exit code is 1.
"""
import base64
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time

WAIT_S = 60
KEYS = {"Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), "Space": (" ", 32, " "), "Escape": ("Escape", 27, "")}


class Browser:
    """A Chromium with one page; answers come in order of their id, events between them."""

    def __init__(self, folder):
        to_read, self.write_fd = os.pipe()
        self.read_fd, to_write = os.pipe()

        def give_pipes():  # Chromium reads from 3 and writes to 4; either number may be one of ours
            high = [os.dup2(fd, n) for fd, n in ((to_read, 100), (to_write, 101))]
            os.dup2(high[0], 3), os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
             "--remote-debugging-pipe", "--user-data-dir=" + folder, "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=folder))
        os.close(to_read), os.close(to_write)
        self.n, self.rest, self.noise, self.session, self.base = 0, b"", [], None, "about:"
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def read(self, end):
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                raise RuntimeError("the browser does not answer")
            more = os.read(self.read_fd, 1 << 16)
            if not more:
                raise RuntimeError("the browser ended")
            self.rest += more
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + WAIT_S
        while True:
            answer = self.read(end)
            if answer.get("id") == self.n:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.note(answer.get("method"), answer.get("params", {}))

    def note(self, event, params):
        if event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.noise.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.noise.append(json.dumps(params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.noise.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif event == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(self.base) and not url.startswith("data:"):
                self.noise.append("it asks for " + url)

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return answer["result"].get("value")

    def until(self, expression):
        end, value = time.monotonic() + WAIT_S, None
        while time.monotonic() < end:
            try:
                if value := self.value(expression):
                    return
            except RuntimeError as error:  # a page that is just loaded again has no document
                value = str(error)
            time.sleep(0.05)
        raise RuntimeError(f"not within {WAIT_S} s; the last value was {value!r}")

    def load(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState == 'complete' && location.href != 'about:blank'")

    def size(self, width, height, *how):
        self.call("Emulation.setDeviceMetricsOverride", width=int(width), height=int(height), deviceScaleFactor=1,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if "dark" in how else "light"}])

    def key(self, name):
        key, code, text = KEYS.get(name, (name, ord(name[0].upper()), name))
        event = {"key": key, "code": name if name in KEYS else ("Digit" if name.isdigit() else "Key") + name.upper(), "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=self.value(x), y=self.value(y), **more)

    def point(self, word, x, y, *more):
        held = {"button": "left", "buttons": 1, "clickCount": 1, "modifiers": 8 if "shift" in more else 0}
        if word == "wheel":
            self.mouse("mouseWheel", x, y, deltaX=0, deltaY=float(more[0]))
            return
        self.mouse("mouseMoved", x, y)
        if word != "move":
            self.mouse("mousePressed", x, y, **held)
            if word == "drag":
                x, y = more[:2]
                self.mouse("mouseMoved", x, y, **held)
            self.mouse("mouseReleased", x, y, **held)

    def shot(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1})
        with open(path, "wb") as out:
            out.write(base64.b64decode(picture["data"]))

    def end(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            self.process.kill()
        self.process.wait()


def check(value, text):
    if not value:
        raise RuntimeError(text)


def step(browser, word, rest):
    if word == "until":
        browser.until(f"!!({rest})")
    elif word == "true":
        check(browser.value(f"!!({rest})"), "it is not true")
    elif word == "show":
        print(browser.value(rest))
    elif word == "size":
        browser.size(*rest.split())
    elif word == "key":
        browser.key(rest)
    elif word in ("move", "click", "drag", "wheel"):
        browser.point(word, *rest.split())
    elif word == "media":
        browser.call("Emulation.setEmulatedMedia", media=rest)
    elif word == "paper":
        sheets = base64.b64decode(browser.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
        n = len(re.findall(rb"/Type\s*/Page\b", sheets))
        check(0 < n <= int(rest), f"it has {n} pages")
    elif word == "shot":
        browser.shot(rest)
    elif word == "load":
        browser.load(browser.base + rest.lstrip("/"))
    elif word == "scripts":
        browser.call("Emulation.setScriptExecutionDisabled", value=rest == "off")
        browser.load(browser.base)
    elif word == "run":
        subprocess.run(rest, shell=True, check=True)
    elif word == "fit":
        wide = browser.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        check(wide <= 0, f"the page is {wide} px wider than the window")
    elif word == "audit":
        with open(os.path.join(os.path.dirname(__file__), "audit.js"), encoding="utf-8") as source:
            faults = browser.value(source.read())
        check(faults == [], "\n".join(faults or ["audit.js gave nothing"]))
    elif word == "quiet":
        browser.value("1")  # what came before it is read
        noise, browser.noise = browser.noise, []
        check(not noise, "\n".join(noise))
    elif word == "noise":
        browser.value("1")
        browser.noise = []
    else:
        raise RuntimeError("no such step")


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        browser.base = sys.argv[1]
        code, line = 0, "load"
        try:
            browser.size(1400, 900)
            browser.load(browser.base)
            for line in sys.stdin:
                if line.strip() and not line.startswith("#"):
                    step(browser, *(line.strip().split(" ", 1) + [""])[:2])
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            print(f"browser.py: {line.strip()}: {error}")
            print("the page's text:", (browser.value("document.body.innerText") or "")[:600])
            code = 1
        browser.end()
    return code


if __name__ == "__main__":
    sys.exit(main())
