"""A program that changes its user, its rights or its namespaces while it has connections.

    python3 users.py CASE

Runs as root, with an echo server of its own program beside it. Ends with "ok".
"""

import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

NOBODY = 65534
libc = ctypes.CDLL(None, use_errno=True)


def must(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# The server.


def echo():
    """Serves every connection by a thread, until its standard input ends."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    os.write(1, b"%d\n" % listener.getsockname()[1])

    def serve(connection):
        try:
            while data := connection.recv(1 << 16):
                connection.sendall(data)
        except OSError:
            pass
        connection.close()

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    os.read(0, 1)
    os._exit(0)


class Server:
    def __init__(self):
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        self.process = subprocess.Popen(
            [python, os.path.abspath(__file__), "echo"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.port = int(self.process.stdout.readline())

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port))


# The client's side of a connection.


def converse(connection, rounds, tag=b""):
    for i in range(rounds):
        message = tag + b"message %d;" % i * (i % 7 + 1)
        connection.sendall(message)
        answer = b""
        while len(answer) < len(message):
            part = connection.recv(len(message) - len(answer))
            assert part, "the stream has ended"
            answer += part
        assert answer == message, (answer, message)


def over_tcp(connection):
    """Bytes that the kernel's socket has received."""
    return struct.unpack_from("=Q", connection.getsockopt(socket.IPPROTO_TCP, 11, 136), 128)[0]


def is_accelerated(connection):
    before = over_tcp(connection)
    converse(connection, 20)
    return over_tcp(connection) == before


def accelerated(connection):
    """Talks until it is accelerated, for as long as that can take; whether it is."""
    for _ in range(500):
        converse(connection, 20)
        if is_accelerated(connection):
            return True
    return False


# Shared memory and descriptors.


def shared(what=""):
    """Writable shared mappings, but for the page of counters, by file. Peers have files, relatives a
    mapping of /dev/zero."""
    found = {}
    for line in open("/proc/self/maps"):
        fields = line.split()
        is_shared = fields[1].startswith("rw") and fields[1].endswith("s")
        if is_shared and what in line and "sovia-stats" not in line:
            found[(fields[3], fields[4])] = tuple(int(at, 16) for at in fields[0].split("-"))
    return found


def descriptors():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass
    return found


def nothing_is_shared(before, what=""):
    after = shared(what)
    assert not after.keys() & before.keys(), (before, after)
    # The file of its own family is new; worker_shares_nothing checks it.
    # The file with its own records is new too; others may read it, and cannot write to it.
    for fd, target in descriptors().items():
        if "memfd:sovia" in target:
            assert "sovia-family" in target or is_board(fd, target), target


def refused(*attempts):
    for attempt in attempts:
        try:
            attempt()
        except PermissionError:
            continue
        raise AssertionError("a sealed file was written to")


def is_board(fd, target):
    """Returns true if `fd` is a new file of statistics, sealed against writes by others."""
    if "memfd" not in target:
        return False
    seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    future_write = 0x10
    return "sovia-board" in target and seals & future_write != 0


# The changes.


def system_call(number, *arguments):
    return must(libc.syscall(number, *arguments))


def capset():
    header = struct.pack("Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    must(libc.capget(header, data))
    sets = list(struct.unpack("6I", data.raw))
    # CAP_SYS_TIME
    sets[0] &= ~(1 << 25)
    sets[1] &= ~(1 << 25)
    must(libc.capset(header, struct.pack("6I", *sets)))


def setns():
    namespace = os.open("/proc/self/ns/uts", os.O_RDONLY)
    must(libc.setns(namespace, 0))
    os.close(namespace)


# Each change, and whether dumpable processes can share memory with the process afterwards.
CHANGES = {
    "setuid": (lambda: os.setuid(NOBODY), True),
    "setgid": (lambda: os.setgid(NOBODY), True),
    "seteuid": (lambda: os.seteuid(NOBODY), False),
    "setegid": (lambda: os.setegid(NOBODY), False),
    "setreuid": (lambda: os.setreuid(NOBODY, NOBODY), True),
    "setregid": (lambda: os.setregid(NOBODY, NOBODY), True),
    "setresuid": (lambda: os.setresuid(NOBODY, NOBODY, NOBODY), True),
    "setresgid": (lambda: os.setresgid(NOBODY, NOBODY, NOBODY), True),
    "setgroups": (lambda: os.setgroups([NOBODY, 4242]), True),
    "initgroups": (lambda: os.initgroups("daemon", 4242), True),
    "setfsuid": (lambda: libc.setfsuid(NOBODY), False),
    "setfsgid": (lambda: libc.setfsgid(NOBODY), False),
    "capset": (capset, False),
    "no_new_privs": (lambda: must(libc.prctl(38, 1, 0, 0, 0)), True),
    "securebits": (lambda: must(libc.prctl(28, 1 << 4, 0, 0, 0)), True),
    "bounding_set": (lambda: must(libc.prctl(24, 25, 0, 0, 0)), False),
    "not_dumpable": (lambda: must(libc.prctl(4, 0, 0, 0, 0)), True),
    "unshare": (lambda: must(libc.unshare(0x00020000)), True),
    # Allowed only to processes with one thread; the new namespace does not map its user.
    "unshare_user": (lambda: must(libc.unshare(0x10000000)), False),
    "setns": (setns, True),
    "setresuid_by_number": (lambda: system_call(117, NOBODY, NOBODY, NOBODY), True),
    "setgroups_by_number": (lambda: system_call(116, 0, None), True),
}


def change(name):
    """A change with connections in every state."""
    call, again = CHANGES[name]
    server = Server()
    busy, idle, fresh = server.connect(), server.connect(), server.connect()
    assert accelerated(busy) and accelerated(idle)
    converse(fresh, 1)
    # Bytes are unread during the change.
    idle.sendall(b"unread")
    while not select.select([idle], [], [], 0)[0]:
        pass
    before = shared("memfd")
    assert before
    if name == "setgroups_by_number":
        os.setgroups([4242])
    call()
    nothing_is_shared(before, "memfd")
    assert idle.recv(6) == b"unread"
    for connection in busy, idle, fresh:
        converse(connection, 200)
        assert not is_accelerated(connection) or connection is fresh
    # Starts again, with a server of the same privileges.
    must(libc.prctl(4, 1, 0, 0, 0))
    new = Server()
    connection = new.connect()
    converse(connection, 300)
    if again:
        assert accelerated(connection), "not accelerated again"
    for connection in busy, idle, fresh, connection:
        converse(connection, 50)


def nothing_changes():
    """Calls that would change nothing leave everything as it is."""
    server = Server()
    connection = server.connect()
    assert accelerated(connection)
    before = shared()
    os.setuid(0)
    os.seteuid(0)
    os.setresgid(0, 0, 0)
    os.setreuid(-1, 0)
    os.setgroups(os.getgroups())
    must(libc.prctl(4, 1, 0, 0, 0))
    must(libc.prctl(15, b"renamed", 0, 0, 0))
    must(libc.unshare(0))
    assert shared() == before
    assert is_accelerated(connection)


def a_change_that_fails():
    """Calls that fail because rights are missing leave no connection broken."""
    os.setresuid(NOBODY, NOBODY, NOBODY)
    must(libc.prctl(4, 1, 0, 0, 0))
    server = Server()
    connection = server.connect()
    assert accelerated(connection)
    for _ in range(3):
        try:
            os.setuid(0)
            raise AssertionError("that must not work")
        except PermissionError:
            pass
        converse(connection, 200)
    second = server.connect()
    assert accelerated(second)


def blocked_threads():
    """Other threads stand in recv, in epoll_wait and in poll meanwhile, and go on."""
    server = Server()
    connections = [server.connect() for _ in range(3)]
    assert all([accelerated(connection) for connection in connections])
    heard = [b"", b"", b""]

    def receives(connection):
        while len(heard[0]) < 6000:
            heard[0] += connection.recv(100)

    def waits(connection, place, wait):
        connection.setblocking(False)
        while len(heard[place]) < 6000:
            wait()
            try:
                heard[place] += connection.recv(100)
            except BlockingIOError:
                pass

    epoll, poll = select.epoll(), select.poll()
    epoll.register(connections[1], select.EPOLLIN)
    poll.register(connections[2], select.POLLIN)
    threads = [
        threading.Thread(target=receives, args=(connections[0],)),
        threading.Thread(target=waits, args=(connections[1], 1, epoll.poll)),
        threading.Thread(target=waits, args=(connections[2], 2, poll.poll)),
    ]
    for thread in threads:
        thread.start()

    def speak(rounds):
        for _ in range(rounds):
            for connection in connections:
                connection.send(b"0123456789")

    speak(100)
    before = shared("memfd")
    os.setresgid(NOBODY, NOBODY, NOBODY)
    nothing_is_shared(before, "memfd")
    speak(100)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    speak(400)
    for thread in threads:
        thread.join()
    assert all(text == b"0123456789" * 600 for text in heard), heard


def worker():
    """A worker that has given up its privileges writes to all that it can still reach. Its parent and
    the parent's connections notice nothing."""
    server = Server()
    parents, common = server.connect(), server.connect()
    assert accelerated(parents) and accelerated(common)
    done, go_on = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        mine = {parents.fileno(), common.fileno(), *done, *go_on, 0, 1, 2}
        parents.close()
        converse(common, 20)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        for start, end in shared().values():
            # Stop where the pages end, because the rest of the file is sparse.
            for at in range(start, min(end, start + (64 << 20)), 4096):
                ctypes.memset(at, 0xA5, 4096)
        for fd, target in descriptors().items():
            if fd in mine:
                continue
            if "eventfd" in target:
                os.set_blocking(fd, False)
                try:
                    os.write(fd, struct.pack("=Q", 2**64 - 2))
                except OSError:
                    pass
            elif is_board(fd, target):
                refused(lambda fd=fd: os.ftruncate(fd, 0), lambda fd=fd: os.pwrite(fd, b"x" * 4096, 0))
            elif "memfd" in target and "stats" not in target:
                os.ftruncate(fd, 0)
        os.write(done[1], b"1")
        os.read(go_on[0], 1)
        os._exit(0)
    os.read(done[0], 1)
    # Every connection works, old or new, and wakes sleeping threads.
    converse(parents, 500)
    assert is_accelerated(parents)
    converse(common, 200)
    new = server.connect()
    assert accelerated(new)
    os.write(go_on[1], b"1")
    assert os.waitpid(child, 0)[1] == 0
    converse(parents, 100)
    converse(new, 100)


def worker_shares_nothing():
    """The child finds no memory and no descriptor of its parent."""
    server = Server()
    parents, common, candidate = server.connect(), server.connect(), server.connect()
    assert accelerated(parents) and accelerated(common)
    converse(candidate, 1)
    before = shared()
    files = {os.stat(f"/proc/self/fd/{fd}").st_ino for fd, name in descriptors().items()
             if "memfd" in name and "stats" not in name}
    child = os.fork()
    if child == 0:
        try:
            parents.close()
            converse(common, 50)
            os.setresgid(NOBODY, NOBODY, NOBODY)
            nothing_is_shared(before)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            nothing_is_shared(before)
            for fd in descriptors():
                try:
                    assert os.fstat(fd).st_ino not in files
                except OSError:
                    pass
            # Only the child uses this connection.
            converse(common, 200)
            converse(candidate, 200)
            must(libc.prctl(4, 1, 0, 0, 0))
            own = Server()
            connection = own.connect()
            assert accelerated(connection)
            # A child of its own shares that connection.
            grandchild = os.fork()
            if grandchild == 0:
                converse(connection, 100)
                os._exit(0)
            assert os.waitpid(grandchild, 0)[1] == 0
            converse(connection, 100)
        except BaseException as error:
            os.write(1, f"worker: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    converse(parents, 500)
    assert os.waitpid(child, 0)[1] == 0
    converse(parents, 200)
    assert is_accelerated(parents)
    converse(common, 200)
    new = server.connect()
    assert accelerated(new)


def an_undumpable_process():
    """After a change of its user a process is not dumpable, and no process of that user may trace it."""
    os.setresuid(NOBODY, NOBODY, NOBODY)
    server = Server()
    connection = server.connect()
    assert not accelerated(connection)


def answer():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[2])))
    listener.listen()
    connection, _ = listener.accept()
    while data := connection.recv(1 << 16):
        connection.sendall(data)


def ask():
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    # Longer than either end looks for the other.
    for _ in range(12):
        converse(connection, 500)
        time.sleep(0.03)


CASES = {
    "echo": echo,
    "answer": answer,
    "ask": ask,
    "nothing_changes": nothing_changes,
    "a_change_that_fails": a_change_that_fails,
    "blocked_threads": blocked_threads,
    "worker": worker,
    "worker_shares_nothing": worker_shares_nothing,
    "an_undumpable_process": an_undumpable_process,
}

case = sys.argv[1]
if case in CHANGES:
    change(case)
else:
    CASES[case]()
os.write(1, b"ok\n")
if case not in ("answer", "ask"):
    os._exit(0)
