"""A page in Qt's Chromium: `python browser.py PAGE WIDTH < STEPS`, a JSON list.

A step is JavaScript, whose value is reported, `{"keys": "..."}` typed on the keyboard, or
`{"picture": PATH}`. The program prints the values, and all console messages, as JSON.
"""

import importlib.util
import json
import os
import subprocess
import sys

MISSING = "wants Chromium: pip install PySide6"
_DARK = " --blink-settings=preferredColorScheme=0"


def is_there():
    """Whether Qt's Chromium is installed, without loading it."""
    try:
        return importlib.util.find_spec("PySide6.QtWebEngineWidgets") is not None
    except ModuleNotFoundError:
        return False


def visit(page, *steps, width=1200, dark=False):
    """The values of the steps of a visit to a page, and the messages in the console."""
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen",
        "QTWEBENGINE_CHROMIUM_FLAGS": "--no-sandbox --disable-gpu" + dark * _DARK,
    }
    done = subprocess.run(
        [sys.executable, __file__, str(page), str(width)],
        input=json.dumps(steps),
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    return result["values"], result["console"]


def _main(page, width):
    from PySide6.QtCore import QTimer, QUrl
    from PySide6.QtTest import QTest
    from PySide6.QtWebEngineCore import QWebEnginePage
    from PySide6.QtWebEngineWidgets import QWebEngineView
    from PySide6.QtWidgets import QApplication

    steps, values, console = json.load(sys.stdin), [], []

    class Page(QWebEnginePage):
        def javaScriptConsoleMessage(self, level, message, line, source):
            console.append(f"{line}: {message}")

    application = QApplication([])
    view = QWebEngineView()
    view.setPage(Page(view))
    view.resize(width, 900)
    view.show()

    def told(value):
        values.append(value)
        QTimer.singleShot(100, go_on)

    def go_on():
        if not steps:
            print(json.dumps({"values": values, "console": console}))
            application.quit()
            return
        step = steps.pop(0)
        if isinstance(step, str):
            view.page().runJavaScript(step, told)
        elif "keys" in step:
            QTest.keyClicks(view.focusProxy(), step["keys"])
            told(None)
        else:
            QTimer.singleShot(500, lambda: told(view.grab().save(step["picture"])))

    view.page().loadFinished.connect(lambda loaded: QTimer.singleShot(300, go_on))
    view.load(QUrl.fromLocalFile(os.path.abspath(page)))
    application.exec()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
