"""A client of Redis whose connection others look at.

    python3 watched.py PORT CASE

Connects, says PING until the watcher has had time to see it, writes "ready" and what the case has to say, and stays.
"""

import ctypes
import os
import socket
import struct
import sys
import time

NOBODY = 65534
libc = ctypes.CDLL(None, use_errno=True)


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port))
    for _ in range(300):
        connection.sendall(b"PING\r\n")
        assert connection.recv(64) == b"+PONG\r\n"
    return connection


def say(*words):
    print(*words, flush=True)


def stay():
    while True:
        time.sleep(1000)


def plain(port):
    connection = connect(port)
    say("ready")
    stay()
    connection.close()


def many(port):
    connections = [connect(port) for _ in range(700)]
    say("ready")
    stay()
    del connections


def fork(port):
    connection = connect(port)
    child = os.fork()
    if child == 0:
        stay()
    say("ready", child)
    stay()
    connection.close()


def fork_then_more(port):
    """Parent and child each have connections of their own beyond the first mapping's."""
    common = [connect(port) for _ in range(10)]
    child = os.fork()
    own = [connect(port) for _ in range(600)]
    if child != 0:
        say("ready", child)
    else:
        say("child")
    stay()
    del common, own


def become_another(port):
    connection = connect(port)
    connection.set_inheritable(True)
    say("ready")
    os.execv("/bin/sleep", ["sleep", "1000"])


def change_user(port):
    before = connect(port)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    after = connect(port)
    say("ready", after.getsockname()[1], before.getsockname()[1])
    stay()


def name(port):
    connection = connect(port)
    PR_SET_NAME = 15
    libc.prctl(PR_SET_NAME, b"\x1b[31m\xe2\x80\xaex\n", 0, 0, 0)
    say("ready")
    stay()
    connection.close()


def write(port):
    """Nothing can be written to the files that others may open, once no program can inherit them."""
    connection = connect(port)
    os.setresgid(NOBODY, NOBODY, NOBODY)
    refused = 0
    for number in os.listdir("/proc/self/fd"):
        path = "/proc/self/fd/" + number
        try:
            if not any(name in os.readlink(path) for name in ("sovia-records", "sovia-board")):
                continue
        except OSError:
            continue
        for change in (lambda fd: os.pwrite(fd, b"x", 4096), lambda fd: os.ftruncate(fd, 0)):
            fd = os.open(path, os.O_RDWR)
            try:
                change(fd)
            except PermissionError:
                refused += 1
            os.close(fd)
    say("ready", refused)
    stay()
    connection.close()


# Files like those of a process under Sovia, in a process without it.

MAGIC = int.from_bytes(b"SOVIABRD", "little")


def schema(version=2, records_at=4096, stride=256, count=64, used_at=576, members_at=0, members=64,
           totals_at=0, locks=0, fields=()):
    words = [MAGIC, version, records_at | stride << 32, count | used_at << 32,
             members_at | members << 32, totals_at, locks, 0, 0, 0, 0, len(fields), *fields]
    return struct.pack(f"={len(words)}Q", *(word & (1 << 64) - 1 for word in words))


def field(word, width, at):
    return word << 48 | width << 32 | at


GOOD = (field(1, 4, 0), field(2, 4, 4), field(3, 4, 8), field(4, 4, 12), field(5, 8, 16),
        field(10, 4, 24), field(21, 0x82, 28), field(60, 8, 32), field(45, 8, 40), field(44, 4, 48))


def page(text, own):
    page = bytearray(8192 + 64 * 256)
    # One slot is in use, by that process.
    struct.pack_into("=iiii", page, 0, 1, 0, own, 1)
    page[576:584] = b"\xff" * 8
    page[1024:1024 + len(text)] = text
    for at in range(4096, len(page), 256):
        page[at:at + 64] = os.urandom(64)
        # A connection of that process, with a valid phase and valid paths.
        struct.pack_into("=IIIIQ", page, at, 1, at // 256 % 5, at // 256 % 4, at // 256 % 5, 1)
    return bytes(page)


def hostile(_port):
    """Each in a process of its own, as the process's only file."""
    own = os.getpid
    pages = [
        lambda: b"",
        lambda: b"\0" * 4096,
        lambda: os.urandom(1 << 16),
        lambda: page(schema(version=99), own()),
        lambda: page(schema(fields=GOOD, stride=1 << 31), own()),
        lambda: page(schema(fields=GOOD, count=1 << 31), own()),
        lambda: page(schema(fields=GOOD, used_at=4090), own()),
        lambda: page(schema(fields=GOOD, totals_at=1 << 30), own()),
        lambda: page(schema(fields=(field(60, 8, 1 << 31),)), own()),
        lambda: page(schema(fields=(1 << 63 | 5,) * 64), own()),
        lambda: page(schema(fields=GOOD), own()),
        lambda: page(schema(fields=GOOD, totals_at=4096), own()),
        lambda: page(schema(fields=GOOD, locks=1), own()),
    ]
    children = []
    for make in pages:
        child = os.fork()
        if child == 0:
            file = os.memfd_create("sovia-records")
            os.write(file, make())
            os.dup2(file, 3080 if len(children) % 2 else 800)
            os.close(file)
            stay()
        children.append(child)
    # The child's file is no memory file, so it is not opened.
    child = os.fork()
    if child == 0:
        os.unshare(os.CLONE_NEWNS | os.CLONE_NEWUSER if os.geteuid() else os.CLONE_NEWNS)
        os.mkfifo("/tmp/memfd:sovia-records")
        os.dup2(os.open("/tmp/memfd:sovia-records", os.O_RDWR), 3080)
        os.unlink("/tmp/memfd:sovia-records")
        stay()
    children.append(child)
    # A child whose file is truncated while it is read.
    child = os.fork()
    if child == 0:
        file = os.memfd_create("sovia-records")
        os.dup2(file, 3080)
        good = page(schema(fields=GOOD), own())
        while True:
            os.pwrite(3080, good, 0)
            os.ftruncate(3080, 5000)
            os.ftruncate(3080, 0)
    children.append(child)
    time.sleep(1)
    say("ready", *children)
    stay()


CASES = {case.__name__: case for case in [
    plain, many, fork, fork_then_more, become_another, change_user, name, write, hostile]}

if __name__ == "__main__":
    CASES[sys.argv[2]](int(sys.argv[1]))
