"""Checks the reasons that `sovia run -v` prints for connections on TCP: one case for each reason.

Usage: reasons.py CASE PORT answers, and starts the other end as reasons.py -CASE PORT.
"""

import array
import ctypes
import errno
import os
import select
import socket
import subprocess
import sys

MESSAGE = b"0123456789abcdef"
LIBC = ctypes.CDLL(None, use_errno=True)


def read_exactly(s, n):
    got = b""
    while len(got) < n:
        piece = s.recv(n - len(got))
        assert piece, f"an end after {len(got)} of {n} bytes"
        got += piece
    return got


def warm(s, asks):
    """Enough round trips for the two ends to meet."""
    for _ in range(64):
        if asks:
            s.sendall(MESSAGE)
        assert read_exactly(s, len(MESSAGE)) == MESSAGE
        if not asks:
            s.sendall(MESSAGE)


def say_and_wait(s):
    """Tells the other end that what the case is about has happened, and waits for its end."""
    s.sendall(MESSAGE)
    assert s.recv(1) == b""


def hear(s):
    assert read_exactly(s, len(MESSAGE)) == MESSAGE


# Each case has an action of the asking end and one of the answering end.


def short(s):
    s.sendall(MESSAGE)
    hear(s)


def short_answer(s):
    hear(s)
    s.sendall(MESSAGE)
    assert s.recv(1) == b""


def plain(s):
    warm(s, True)


def plain_answer(s):
    warm(s, False)
    assert s.recv(1) == b""


def execs(s):
    warm(s, True)
    s.set_inheritable(True)
    # A program that inherits an epoll instance gets its connections on TCP.
    events = select.epoll()
    os.set_inheritable(events.fileno(), True)
    os.execv("/bin/sh", ["sh", "-c", f"printf {MESSAGE.decode()} >&{s.fileno()}"])


def heard_answer(s):
    warm(s, False)
    hear(s)
    assert s.recv(1) == b""


def is_printed_to(s):
    warm(s, True)
    LIBC.backtrace_symbols_fd(None, 0, s.fileno())
    s.sendall(MESSAGE)


def is_passed(s):
    warm(s, True)
    ours, theirs = socket.socketpair()
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [s.fileno()]))])
    s.sendall(MESSAGE)


def sends_with_idle_flags(s):
    """Flags that the kernel does not look at where a TCP connection sends."""
    warm(s, True)
    half = len(MESSAGE) // 2
    for flags in (socket.MSG_WAITALL, socket.MSG_CONFIRM, socket.MSG_DONTROUTE):
        assert s.send(MESSAGE[:half], flags) == half
        assert s.sendmsg([MESSAGE[half:]], [], flags) == half


def sends_with_idle_flags_answer(s):
    warm(s, False)
    for _ in range(3):
        hear(s)
    assert s.recv(1) == b""


def receives_with_idle_flags(s):
    warm(s, True)
    s.sendall(2 * MESSAGE)


def receives_with_idle_flags_answer(s):
    """Flags that the kernel does not look at where a TCP connection receives."""
    warm(s, False)
    idle = socket.MSG_CTRUNC | socket.MSG_DONTROUTE | socket.MSG_EOR | socket.MSG_CONFIRM
    assert s.recv(len(MESSAGE), idle | socket.MSG_WAITALL) == MESSAGE
    assert s.recvmsg(len(MESSAGE), 0, idle | socket.MSG_WAITALL)[0] == MESSAGE
    assert s.recv(1) == b""


def is_filtered(s):
    warm(s, True)
    # A filter that allows everything. (Without root it would need PR_SET_NO_NEW_PRIVS, which is another reason.)
    allow = ctypes.create_string_buffer(b"\x06\x00\x00\x00\x00\x00\xff\x7f", 8)
    program = (ctypes.c_uint64 * 2)(1, ctypes.addressof(allow))
    assert LIBC.prctl(22, 2, ctypes.byref(program)) == 0, os.strerror(ctypes.get_errno())
    s.sendall(MESSAGE)


UNREAD = 50_000


def go_behind_a_relay(s):
    """The other end has ended its side, and cannot put on TCP what this one has not read."""
    warm(s, True)
    s.sendall(MESSAGE)
    end = select.poll()
    end.register(s, select.POLLRDHUP)
    assert end.poll() == [(s.fileno(), select.POLLRDHUP)]
    LIBC.backtrace_symbols_fd(None, 0, s.fileno())


def is_relayed(s):
    """All that the other end has sent comes."""
    go_behind_a_relay(s)
    with s.makefile("rb") as stream:
        assert stream.read() == b"u" * UNREAD


def is_relayed_answer(s):
    warm(s, False)
    hear(s)
    s.sendall(b"u" * UNREAD)
    s.close()


def is_relayed_and_cut(s):
    """This end ends with bytes unread, which loses what the relay has not sent."""
    go_behind_a_relay(s)
    s.sendall(b"x" * (7 << 20))


def is_relayed_and_cut_answer(s):
    warm(s, False)
    hear(s)
    s.sendall(b"u" * UNREAD)
    s.shutdown(socket.SHUT_WR)
    try:
        while s.recv(1 << 16):
            pass
    except ConnectionResetError:
        return
    raise AssertionError("an end where bytes are missing")


def no_listener(_port):
    """No socket listens where this one connects to."""
    with socket.socket() as unused, socket.socket() as other:
        unused.bind(("127.0.0.1", 0))
        other.setblocking(False)
        assert other.connect_ex(unused.getsockname()) == errno.EINPROGRESS
        select.select([], [other], [])
        assert other.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


CASES = {
    "short": (short, short_answer),
    "plain": (plain, plain_answer),
    "rule": (plain, plain_answer),
    "execs": (execs, heard_answer),
    "is_printed_to": (is_printed_to, heard_answer),
    "is_passed": (is_passed, heard_answer),
    "sends_with_idle_flags": (sends_with_idle_flags, sends_with_idle_flags_answer),
    "receives_with_idle_flags": (receives_with_idle_flags, receives_with_idle_flags_answer),
    "is_filtered": (is_filtered, heard_answer),
    "is_relayed": (is_relayed, is_relayed_answer),
    "is_relayed_and_cut": (is_relayed_and_cut, is_relayed_and_cut_answer),
}


def main():
    case, port = sys.argv[1:]
    if case == "no_listener":
        no_listener(port)
    elif case.startswith("-"):
        CASES[case[1:]][0](socket.create_connection(("127.0.0.1", int(port))))
        return
    else:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(port)))
        listener.listen()
        environment = dict(os.environ)
        if case == "plain":
            del environment["LD_PRELOAD"]
        asks = subprocess.Popen([sys.executable, __file__, f"-{case}", port], env=environment)
        CASES[case][1](listener.accept()[0])
        assert asks.wait() == 0
    print("ok")


main()
