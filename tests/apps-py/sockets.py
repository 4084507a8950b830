"""The socket module: blocking, timeouts, files, selectors, subprocesses."""

import os
import selectors
import socket
import subprocess
import sys
import threading
import time

from common import attempt, main, pattern, recv_exactly, say


def methods_server(peer):
    s = peer.stream()
    s.sendall(b"hello")
    peer.meet()
    say(recv_exactly(s, 11))
    s.sendall(b"0123456789")
    s.shutdown(socket.SHUT_WR)
    attempt("recv", s.recv, 10)
    peer.meet()


def methods_client(peer):
    s = peer.stream()
    peer.meet()
    attempt("peek", s.recv, 5, socket.MSG_PEEK | socket.MSG_WAITALL)
    buffer = bytearray(10)
    attempt("recv_into", s.recv_into, buffer, 5)
    say(bytes(buffer))
    attempt("sendmsg", s.sendmsg, [b"two", b" ", b"words"])
    attempt("send", s.send, b"..")
    attempt("recvmsg", lambda: s.recvmsg(4)[0])
    attempt("recvmsg_into", lambda: s.recvmsg_into([buffer[:0], memoryview(buffer)[:6]])[0])
    say(bytes(buffer[:6]))
    attempt("recv at the end", s.recv, 10)
    attempt("family", lambda: (s.family.name, s.type.name, s.getpeername()[0]))
    attempt("blocking", lambda: (s.getblocking(), s.gettimeout()))
    s.close()
    attempt("closed", s.send, b"x")
    peer.meet()


def timeouts_server(peer):
    s = peer.stream()
    peer.hear()
    time.sleep(0.3)
    s.sendall(b"late")
    peer.meet()


def timeouts_client(peer):
    s = peer.stream()
    s.settimeout(0.15)
    began = time.monotonic()
    attempt("recv", s.recv, 10)
    say("in time:", 0.149 <= time.monotonic() - began < 10)
    s.settimeout(5)
    peer.tell()
    attempt("recv", s.recv, 10)
    s.settimeout(0)
    attempt("non-blocking", s.recv, 10)
    s.settimeout(0.3)
    attempt("sendall", s.sendall, bytes(64 << 20))
    s.setblocking(True)
    peer.meet()


def files_server(peer):
    s = peer.stream()
    with s.makefile("rwb") as file:
        for line in file:
            file.write(line.upper())
            file.flush()
    say("end of file")


def files_client(peer):
    s = peer.stream()
    text = s.makefile("rw", newline="\n", encoding="utf-8")
    for i in range(200):
        print(f"line {i} äöü", file=text, flush=True)
        if text.readline() != f"LINE {i} äöü\n":
            say("line", i, "is wrong")
    s.shutdown(socket.SHUT_WR)
    say(repr(text.readline()))
    text.close()
    s.close()


def selectors_server(peer):
    listener = peer.listen()
    listener.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    pending, total, gone = {}, 0, 0
    while gone < 20:
        for key, events in selector.select():
            if key.fileobj is listener:
                s, _ = listener.accept()
                s.setblocking(False)
                pending[s] = b""
                selector.register(s, selectors.EVENT_READ)
                continue
            s = key.fileobj
            if events & selectors.EVENT_READ:
                data = s.recv(5000)
                total += len(data)
                if not data:
                    selector.unregister(s)
                    s.close()
                    gone += 1
                    continue
                pending[s] += data
            if events & selectors.EVENT_WRITE:
                sent = s.send(pending[s])
                pending[s] = pending[s][sent:]
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if pending[s] else 0)
            selector.modify(s, wanted)
    say(total, "bytes echoed")


def selectors_client(peer):
    streams = [peer.connect() for _ in range(20)]
    for turn in range(60):
        message = pattern(turn * 977, 1 + turn * 150)
        for s in streams:
            s.sendall(message)
        for s in streams:
            if recv_exactly(s, len(message)) != message:
                say("wrong echo in turn", turn)
    for s in streams:
        s.close()


def subprocesses(peer):
    s = peer.stream()
    for i in range(5):
        if peer.server:
            say(recv_exactly(s, 4))
            s.sendall(b"pong")
        else:
            done = subprocess.run(["echo", "child", str(i)], capture_output=True, check=True)
            say(done.stdout)
            s.sendall(b"ping")
            say(recv_exactly(s, 4))
            again = subprocess.run(["cat"], input=b"fed", stdout=subprocess.PIPE, close_fds=False)
            say(again.stdout, again.returncode)
    peer.meet()


def finishes(peer):
    s = peer.stream()
    s.sendall(bytes(range(250)) * 40)
    s.close()
    peer.meet()


def reads_by_subprocess(peer):
    """A subprocess that closes all other descriptors gets what is unread, and after it this process."""
    s = peer.stream()
    peer.meet()
    code = "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); print(s.recv(6000, socket.MSG_WAITALL) == bytes(range(250)) * 24)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(s.fileno())], pass_fds=[s.fileno()], capture_output=True
    )
    say("child", done.returncode, done.stdout)
    rest = s.makefile("rb").read()
    say(len(rest), rest == bytes(range(250)) * 16)


def inherited_server(peer):
    s = peer.stream()
    say(s.makefile("rb").read())


def inherited_client(peer):
    s = peer.stream()
    s.sendall(b"parent\n")
    code = "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); s.sendall(b'by socket\\n')"
    done = subprocess.run([sys.executable, "-c", code, str(s.fileno())], pass_fds=[s.fileno()])
    say("child", done.returncode)
    done = subprocess.run(["sh", "-c", "echo by stdout; echo and again"], stdout=s)
    say("child", done.returncode)
    s.sendall(b"parent again\n")
    s.close()


def threads(peer):
    """A thread that reads, a thread that writes, and a main thread that sleeps."""
    s = peer.stream()
    total = 20_000_000

    def write():
        for offset in range(0, total, 50_000):
            s.sendall(pattern(offset, 50_000))

    def read():
        offset = 0
        while offset < total:
            data = s.recv(100_000)
            if not data or data != pattern(offset, len(data)):
                say("wrong bytes at", offset)
                return
            offset += len(data)
        say(offset, "bytes")

    both = [threading.Thread(target=write), threading.Thread(target=read)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    peer.meet()


def sendfile_server(peer):
    s = peer.stream()
    data = s.makefile("rb").read()
    say(len(data), data == pattern(0, len(data)))


def sendfile_client(peer):
    s = peer.stream()
    path = os.path.join(peer.folder, "file")
    with open(path, "wb") as file:
        file.write(pattern(0, 3_000_000))
    with open(path, "rb") as file:
        say(s.sendfile(file))
    s.close()


main(
    {
        "methods_of_a_socket": (methods_server, methods_client),
        "timeouts_of_a_socket": (timeouts_server, timeouts_client),
        "files_over_a_socket": (files_server, files_client),
        "selectors_over_twenty_streams": (selectors_server, selectors_client),
        "subprocesses_beside_a_stream": subprocesses,
        "subprocesses_with_a_stream": (inherited_server, inherited_client),
        "a_subprocess_that_reads_what_is_unread": (finishes, reads_by_subprocess),
        "threads_that_read_and_write": threads,
        "sendfile_of_a_socket": (sendfile_server, sendfile_client),
    }
)
