"""Streams in both directions whose agents are killed while they run.

    python3 failover.py server|client DIR CASE

Each end writes a stream that the other one can compute, and compares what it reads.
"""

import hashlib
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time

from common import main, recv_exactly, say

# Name of a file in DIR by which a test notifies the program.
ENOUGH = "enough"
BLOCK = 1 << 10


def block(of_server, number):
    digest = hashlib.sha256(b"%d %d" % (of_server, number)).digest()
    return digest * (BLOCK // len(digest))


def is_enough(peer):
    return os.path.exists(os.path.join(peer.folder, ENOUGH))


def note(peer, what):
    """Tells the test."""
    open(os.path.join(peer.folder, what + ("-server" if peer.server else "-client")), "w").close()


def write(peer, connection, pause=0):
    """Blocks, in pieces of changing lengths, until it is enough."""
    number = 0
    while not is_enough(peer):
        count = number % 37 + 1
        data = b"".join(block(peer.server, number + i) for i in range(count))
        number += count
        while data:
            piece = data[: 1 + (number * 7919 + len(data)) % 20000]
            connection.sendall(piece)
            data = data[len(piece) :]
        if pause:
            time.sleep(pause)
    peer.leave_port(number, written_by(peer.server))
    connection.shutdown(socket.SHUT_WR)


def written_by(server):
    return "written-" + ("server" if server else "client")


class Reader:
    """Compares what comes with what is to come."""

    def __init__(self, peer):
        self.of_server = not peer.server
        self.number = 0
        self.rest = b""

    def take(self, data):
        while data:
            if not self.rest:
                self.rest = block(self.of_server, self.number)
                self.number += 1
            n = min(len(data), len(self.rest))
            assert data[:n] == self.rest[:n], "other bytes than were written"
            data, self.rest = data[n:], self.rest[n:]

    def end(self, peer):
        assert not self.rest and self.number == peer.port(written_by(not peer.server)), "cut off"


def read(peer, connection, pause=0):
    reader = Reader(peer)
    while data := connection.recv(50000):
        reader.take(data)
        if reader.number > 2000:
            note(peer, "running")
        if pause:
            time.sleep(pause)
    reader.end(peer)


def run(peer, receive=read, write_pause=0, **how):
    connection = peer.stream()
    writer = threading.Thread(target=write, args=[peer, connection, write_pause])
    writer.start()
    receive(peer, connection, **how)
    writer.join()
    peer.meet()
    say("every byte")


def both_ways(peer):
    run(peer)


def slow_readers(peer):
    """Much is unread all the time."""
    run(peer, pause=0.001)


def edges(peer):
    """By an edge-triggered epoll, without blocking."""

    def receive(peer, connection):
        with select.epoll() as epoll:
            epoll.register(connection, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
            reader = Reader(peer)
            while True:
                epoll.poll()
                while True:
                    try:
                        data = connection.recv(50000, socket.MSG_DONTWAIT)
                    except BlockingIOError:
                        break
                    if not data:
                        return reader.end(peer)
                    reader.take(data)
                    if reader.number > 2000:
                        note(peer, "running")

    run(peer, receive)


def one_way(peer):
    """The client alone writes, and the server answers at the end."""
    connection = peer.stream()
    if peer.server:
        read(peer, connection)
        connection.sendall(b"every byte")
        connection.close()
    else:
        note(peer, "running")
        write(peer, connection)
        assert connection.recv(100) == b"every byte"
        assert connection.recv(100) == b""
    peer.meet()
    say("every byte")


def questions(peer):
    """Short questions and answers, one at a time."""
    connection = peer.stream()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    number = 0
    if peer.server:
        while data := connection.recv(100):
            connection.sendall(data)
    else:
        while not is_enough(peer):
            question = b"%20d" % number
            connection.sendall(question)
            answer = b""
            while len(answer) < len(question):
                part = connection.recv(100)
                assert part, "cut off"
                answer += part
            assert answer == question, (answer, question)
            number += 1
            if number == 3000:
                note(peer, "running")
        connection.close()
    if peer.server:
        note(peer, "running")
    peer.meet()
    say("every byte")


def write_all_that_fits(peer, connection):
    """Writes as much as there is room for while the peer does not read."""
    connection.setblocking(False)
    written = 0
    try:
        while True:
            written += connection.send(block(True, written // BLOCK)[written % BLOCK :])
    except BlockingIOError:
        pass
    peer.leave_port(written, "written")


def write_until_on_tcp(peer, connection):
    """Writes until a good part finds no room on TCP, where the connection continues."""
    write_all_that_fits(peer, connection)
    before = sent_on_tcp(connection)
    note(peer, "running")
    goes_on_on_tcp(connection, before)


def last_words(peer):
    """The server closes when much of what it has written has found no room on TCP yet."""
    connection = peer.stream()
    if peer.server:
        write_until_on_tcp(peer, connection)
        connection.close()
        peer.meet()
    else:
        written = peer.port("written")
        wait_for(peer, "killed")
        reader, had = Reader(peer), 0
        while data := connection.recv(50000):
            reader.take(data)
            had += len(data)
            time.sleep(0.0001)
        assert had == written, (had, written)
        # No process reads the bytes written from here on.
        peer.meet()
    say("every byte")


def killed_over_it(peer):
    """The server is killed instead. Its peer reads all complete bytes, and then gets an error if some are missing."""
    connection = peer.stream()
    if peer.server:
        write_until_on_tcp(peer, connection)
        os.kill(os.getpid(), signal.SIGKILL)
    written = peer.port("written")
    wait_for(peer, "killed")
    wait_for(peer, "enough")
    reader, had = Reader(peer), 0
    try:
        while data := connection.recv(50000):
            reader.take(data)
            had += len(data)
    except ConnectionResetError:
        say("told of it")
    else:
        say("told of it" if had == written else "an end in the middle")


def half_closed(peer):
    """The client has said that it writes no more, and reads on."""
    connection = peer.stream()
    if peer.server:
        assert connection.recv(100) == b"question" and connection.recv(100) == b""
        write(peer, connection)
    else:
        connection.sendall(b"question")
        connection.shutdown(socket.SHUT_WR)
        read(peer, connection)
    peer.meet()
    say("every byte")


def shut_for_reading(peer):
    """The client has said that it reads no more, looks all the same, and writes on."""
    connection = peer.stream()
    if peer.server:
        read(peer, connection)
    else:
        connection.shutdown(socket.SHUT_RD)
        writer = threading.Thread(target=write, args=[peer, connection, 0.001])
        writer.start()
        while not is_enough(peer):
            assert connection.recv(100) == b""
            time.sleep(0.01)
        writer.join()
        assert connection.recv(100) == b""
    peer.meet()
    say("every byte")


def relatives(peer):
    """A parent writes, and its child reads."""
    connection = peer.stream()
    child = os.fork()
    if not child:
        read(peer, connection)
        os._exit(0)
    write(peer, connection)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    peer.meet()
    say("every byte")


def becomes(peer):
    """Each end becomes another program when the agent has died, with much unread."""
    connection = peer.stream()
    text = b"".join(block(peer.server, number) for number in range(300))
    connection.sendall(text)
    before = sent_on_tcp(connection)
    peer.meet()
    note(peer, "running")
    goes_on_on_tcp(connection, before)
    connection.sendall(text)
    peer.meet()
    os.dup2(connection.fileno(), 0)
    there = hashlib.sha256(b"".join(block(not peer.server, n) for n in range(300)) * 2)
    check = f"head -c {2 * len(text)} | sha256sum | grep -q {there.hexdigest()}"
    os.execvp("sh", ["sh", "-c", check + " && echo every byte && echo end"])


def starts(peer):
    """Each end starts a program that reads it when the agent has died, with much unread."""
    connection = peer.stream()
    text = b"".join(block(peer.server, number) for number in range(300))
    connection.sendall(text)
    before = sent_on_tcp(connection)
    peer.meet()
    note(peer, "running")
    goes_on_on_tcp(connection, before)
    connection.sendall(text)
    peer.meet()
    there = hashlib.sha256(b"".join(block(not peer.server, n) for n in range(300)) * 2)
    check = f"head -c {2 * len(text)} | sha256sum | grep -q {there.hexdigest()}"
    if subprocess.run(["sh", "-c", check], stdin=connection, check=False).returncode == 0:
        say("every byte")
    peer.meet()


def connections(peer, count):
    """So many more connections, in the same order at both ends."""
    if peer.server:
        listener = peer.listen("more")
        return [listener.accept()[0] for _ in range(count)]
    return [peer.connect("more") for _ in range(count)]


def ask(peer, connection, questions):
    for number in range(questions):
        question = b"%20d" % number
        if not peer.server:
            connection.sendall(question)
        assert recv_exactly(connection, len(question)) == question
        if peer.server:
            connection.sendall(question)


def resting(peer):
    """Connections that rest after so few questions that their ends have only just met, or one of them has."""
    # Both processes know their agent.
    first = peer.stream()
    some = connections(peer, 120)
    for number, connection in enumerate(some):
        ask(peer, connection, number % 30)
    note(peer, "running")
    wait_for(peer, ENOUGH)
    for connection in some:
        ask(peer, connection, 5)
    ask(peer, first, 5)
    peer.meet()
    say("every byte")


def beginnings(peer):
    """Connections that carry much from the beginning, both ways, and whose ends are still about to meet."""
    ask(peer, peer.stream(), 5)
    some = connections(peer, 24)
    count, failures = 400, []

    def send(connection):
        for number in range(count):
            connection.sendall(block(peer.server, number))

    def receive(connection):
        reader = Reader(peer)
        for number in range(count):
            reader.take(recv_exactly(connection, BLOCK))
            if number == 20:
                note(peer, "running")
            time.sleep(0.001)

    def attempt(function, connection):
        try:
            function(connection)
        except (OSError, EOFError, AssertionError) as error:
            failures.append(repr(error))

    parts = [(function, connection) for connection in some for function in (send, receive)]
    threads = [threading.Thread(target=attempt, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # No connection ends before the other end has received all of it.
    peer.meet()
    say(failures[0] if failures else "every byte")


def sent_on_tcp(connection):
    """Bytes of this end's that the kernel's socket knows to have arrived."""
    return struct.unpack_from("=Q", connection.getsockopt(socket.IPPROTO_TCP, 11, 128), 120)[0]


def goes_on_on_tcp(connection, before):
    """Until this end has put something on TCP: it knows that the agent has died."""
    while sent_on_tcp(connection) == before:
        time.sleep(0.002)


def wait_for(peer, what):
    while not os.path.exists(os.path.join(peer.folder, what)):
        time.sleep(0.01)


main(
    {
        case.__name__: case
        for case in [
            both_ways,
            slow_readers,
            edges,
            one_way,
            questions,
            last_words,
            killed_over_it,
            half_closed,
            shut_for_reading,
            relatives,
            becomes,
            starts,
            resting,
            beginnings,
        ]
    }
)
