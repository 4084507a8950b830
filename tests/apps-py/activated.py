"""A service that systemd's socket activation starts: activated.py stdio|connection|listener.

It answers on its standard input and output, on a connection, or on connections from a listener. The
connection or the listener is descriptor 3.
"""

import os
import socket
import sys


def answer(source, sink):
    while data := os.read(source, 1 << 16):
        while data:
            data = data[os.write(sink, data) :]


if sys.argv[1] == "stdio":
    answer(0, 1)
else:
    assert os.environ["LISTEN_FDS"] == "1", os.environ.get("LISTEN_FDS")
    assert int(os.environ["LISTEN_PID"]) == os.getpid()
    if sys.argv[1] == "connection":
        answer(3, 3)
    else:
        listener = socket.socket(fileno=3)
        while True:
            stream, _ = listener.accept()
            answer(stream.fileno(), stream.fileno())
            stream.close()
