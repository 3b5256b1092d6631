"""with_terminal.py STREAM COMMAND...: runs the command with stdout or stderr as a terminal and the
other one as a pipe. Prints the output of each: lines begin with "terminal: " or "pipe: ", and an
escape character is shown as ESC."""
import os
import pty
import subprocess
import sys
import threading


def lines_of(descriptor, name, lines):
    text = b""
    while True:
        try:
            part = os.read(descriptor, 4096)
        except OSError:  # a terminal ends with an error
            part = b""
        if not part:
            break
        text += part
    for line in text.decode().splitlines():
        lines.append(name + ": " + line.replace("\x1b", "ESC"))


stream, command = sys.argv[1], sys.argv[2:]
seen, terminal = pty.openpty()
read, pipe = os.pipe()
process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                           **{stream: terminal, "stderr" if stream == "stdout" else "stdout": pipe})
os.close(terminal)
os.close(pipe)
of_terminal, of_pipe = [], []
readers = [threading.Thread(target=lines_of, args=each)
           for each in ((seen, "terminal", of_terminal), (read, "pipe", of_pipe))]
for reader in readers:
    reader.start()
for reader in readers:
    reader.join()
print("\n".join(of_terminal + of_pipe))
sys.exit(process.wait())
