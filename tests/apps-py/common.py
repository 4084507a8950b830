"""Shared by the Python scenarios: roles, ports, a side channel, transcripts.

    python3 PROGRAM.py server|client|both DIR CASE

Like the C programs, the two roles are started separately, meet through a port file in DIR, and stay in step over
two FIFOs.
"""

import ctypes
import errno
import os
import socket
import sys
import time


def say(*words):
    """One line of the transcript."""
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


def attempt(what, function, *arguments):
    """Calls and writes down the result, or the error's name."""
    try:
        result = function(*arguments)
    except Exception as error:  # whatever it is belongs into the transcript
        number = getattr(error, "errno", None)
        say(what, "->", type(error).__name__, errno.errorcode.get(number, ""))
        return None
    say(what, "->", result)
    return result


def acknowledged(connection):
    """Returns the kernel's count of bytes that the peer's TCP has acknowledged (tcpi_bytes_acked). It stands still on a VI."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)[120:128]


class Peer:
    def __init__(self, role, folder, case):
        self.server = role != "client"
        self.folder = folder
        self.case = case
        if role != "both":
            self._hear = self._fifo("to-server" if self.server else "to-client")
            self._tell = self._fifo("to-client" if self.server else "to-server")

    def _fifo(self, name):
        path = os.path.join(self.folder, name)
        try:
            os.mkfifo(path, 0o600)
        except FileExistsError:
            pass
        return os.open(path, os.O_RDWR)

    def tell(self):
        os.write(self._tell, b"x")

    def hear(self):
        assert os.read(self._hear, 1) == b"x"

    def meet(self):
        self.tell()
        self.hear()

    def leave_port(self, port, name="port"):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w") as file:
            file.write(str(port))
        os.rename(path + ".new", path)

    def port(self, name="port"):
        path = os.path.join(self.folder, name)
        for _ in range(10000):
            if os.path.exists(path):
                with open(path) as file:
                    return int(file.read())
            time.sleep(0.002)
        raise TimeoutError("no server has left its port")

    def listen(self, name="port"):
        listener = socket.create_server(("127.0.0.1", 0))
        self.leave_port(listener.getsockname()[1], name)
        return listener

    def connect(self, name="port"):
        return socket.create_connection(("127.0.0.1", self.port(name)))

    def stream(self):
        """A warm connection of both roles."""
        if self.server:
            listener = self.listen()
            connection, _ = listener.accept()
            listener.close()
        else:
            connection = self.connect()
        warm(connection, self.server)
        return connection


def recv_exactly(connection, count):
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 16))
        if not part:
            raise EOFError("end of stream")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def has_met(connection):
    """Whether the connection's ends have met, or never will (crates/sockets/src/native.rs)."""
    table = getattr(ctypes.CDLL(None), "sovia_native", None)
    if table is None:
        return True
    table.restype = ctypes.POINTER(ctypes.c_void_p)
    for version in range(32):
        found = table(version)
        if found:
            info = (ctypes.c_uint32 * 16)()
            ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(found[0])(connection.fileno(), info)
            return info[0] != 1
    return True


def warm(connection, server):
    """Small requests and answers until the switch has happened."""
    over, met = "SOVIA_TEST_UNTIL_MET" not in os.environ, False
    while not over:
        if not server:
            connection.sendall(bytes([met and has_met(connection), False]))
        over, met = recv_exactly(connection, 2)
        if server:
            connection.sendall(bytes([over, has_met(connection)]))
    message = b"warm-up".ljust(64)
    for _ in range(int(os.environ.get("SOVIA_TEST_WARMUP", "20"))):
        if not server:
            connection.sendall(message)
        recv_exactly(connection, 64)
        if server:
            connection.sendall(message)


PERIOD = bytes((i * 167 + (i >> 8) * 13) & 255 for i in range(65521))


def pattern(offset, count):
    """Bytes of a stream that either end can check."""
    start = offset % len(PERIOD)
    return (PERIOD * (2 + count // len(PERIOD)))[start : start + count]


def main(cases):
    role, folder, case = sys.argv[1:4]
    peer = Peer(role, folder, case)
    entry = cases[case]
    function = entry if callable(entry) else entry[0 if peer.server else 1]
    function(peer)
    say("end")
