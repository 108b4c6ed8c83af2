"""What reaches a terminal is text: control characters of labels and texts are shown, not obeyed."""

import logging
import os
import subprocess
import sys

from bert_tf.runtime import terminal

ATTACK = "good\x1b]0;owned\x07\r\x9b31mbad\x7f"
SHOWN = r"good\x1b]0;owned\x07\x0d\x9b31mbad\x7f"


def test_control_characters_are_shown():
    assert terminal.printable(f"a\tä\n{ATTACK}") == f"a\tä\n{SHOWN}"
    record = logging.LogRecord("bert_tf", logging.WARNING, "", 0, "label %s", (ATTACK,), None)
    assert terminal.Formatter().format(record) == f"label {SHOWN}"


def test_standard_output_is_protected_on_a_terminal_only():
    protect = "from bert_tf.runtime import terminal\nterminal.protect()\nterminal.protect()"
    program = f"{protect}\nprint({ATTACK!r}, 'ä', '\\udcff')"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    master, slave = os.openpty()
    for output in (slave, subprocess.PIPE):
        process = subprocess.run([sys.executable, "-c", program], stdout=output, env=environment, check=True)
        if output == slave:
            os.close(slave)
            assert os.read(master, 1000).decode() == f"{SHOWN} ä \\udcff\r\n"  # the terminal adds the carriage return
        else:
            assert process.stdout.decode() == f"{ATTACK} ä \\udcff\n"
    os.close(master)
