"""Two ends of a conversation that may be in different network namespaces.

    python3 neighbours.py answer ADDRESS PORT CONNECTIONS
    python3 neighbours.py ask CASE ADDRESS PORT [SOURCE_PORT] [FOLDER]

Both end with "ok". The one that asks says of each connection whether it came to be
accelerated, and waits until it is where it must be.
"""

import errno
import os
import socket
import struct
import sys
import threading
import time


def answer(address, port, connections):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, int(port)))
    listener.listen(64)

    def serve(connection):
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except ConnectionResetError:
                # The peer process was killed before it had read everything.
                pass

    threads = []
    for _ in range(int(connections)):
        threads.append(threading.Thread(target=serve, args=[listener.accept()[0]]))
        threads[-1].start()
    for thread in threads:
        thread.join()


def connect(address, port, source, keepalive=False):
    for _ in range(1000):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if keepalive:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option in [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT]:
                connection.setsockopt(socket.IPPROTO_TCP, option, 1)
        if source:
            connection.bind(("0.0.0.0", int(source)))
        try:
            connection.connect((address, int(port)))
            return connection
        except ConnectionRefusedError:
            # The other process has not started yet.
            connection.close()
            time.sleep(0.02)
    raise TimeoutError("nobody listens there")


def converse(connection, rounds):
    for i in range(rounds):
        message = b"%d of %s;" % (i, sys.argv[0].encode()) * (i % 7 + 1)
        connection.sendall(message)
        back = b""
        while len(back) < len(message):
            part = connection.recv(len(message) - len(back))
            assert part, "the stream has ended"
            back += part
        assert back == message, (back, message)


def over_tcp(connection):
    """Bytes that the kernel's socket has received."""
    return struct.unpack_from("=Q", connection.getsockopt(socket.IPPROTO_TCP, 11, 136), 128)[0]


def is_accelerated(connection):
    before = over_tcp(connection)
    converse(connection, 20)
    return over_tcp(connection) == before


def come_to_be_accelerated(connection):
    """However long the agent takes: whoever watches the test ends it."""
    while not is_accelerated(connection):
        converse(connection, 20)
        time.sleep(0.002)
    print("accelerated", flush=True)


def on_tcp(connect, _):
    connection = connect()
    for _ in range(500):
        converse(connection, 20)
        if is_accelerated(connection):
            print("accelerated", flush=True)
            return
    print("tcp", flush=True)


def once(connect, _):
    connection = connect()
    come_to_be_accelerated(connection)
    # Fill every buffer on the way.
    data = os.urandom(3 << 20)
    sender = threading.Thread(target=connection.sendall, args=[data])
    sender.start()
    back = bytearray()
    while len(back) < len(data):
        back += connection.recv(1 << 20)
    sender.join()
    assert back == data, "other bytes have come back"


def redis(connect, _):
    """Asks a Redis, until the answers come on the VI."""
    connection = connect()
    answers = connection.makefile("rb")
    asked = 0
    while True:
        before = over_tcp(connection)
        for _ in range(20):
            connection.sendall(b"PING\r\n")
            assert answers.readline() == b"+PONG\r\n"
        if over_tcp(connection) == before:
            return
        asked += 1
        time.sleep(0.002 if asked > 50 else 0)


def redis_until_told(connect, folder):
    """Writes to a Redis and reads it back, on the VI, until a file says that it is enough."""
    connection = connect()
    answers = connection.makefile("rb")
    key = b"%d" % os.getpid()

    def ask(number):
        value = b"%d;" % number * 2000
        connection.sendall(
            b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value)
            + b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key)
        )
        assert answers.readline() == b"+OK\r\n"
        assert answers.readline() == b"$%d\r\n" % len(value)
        assert answers.read(len(value) + 2) == value + b"\r\n"

    number = 0
    before = -1
    while over_tcp(connection) != before:
        before = over_tcp(connection)
        for number in range(number, number + 20):
            ask(number)
    print("accelerated", flush=True)
    while not os.path.exists(os.path.join(folder, "enough")):
        ask(number)
        number += 1
    ask(number)
    print("still" if over_tcp(connection) == before else "no longer", flush=True)


def many(connect, _):
    for _ in range(8):
        with connect() as connection:
            come_to_be_accelerated(connection)


def ask_all(connections, rounds):
    """Sends a message on each connection, then receives all answers."""
    for i in range(rounds):
        for connection in connections:
            connection.sendall(b"%06d" % i)
        for connection in connections:
            back = connection.recv(6, socket.MSG_WAITALL)
            assert back == b"%06d" % i, (back, i)


def all_over_tcp(connections):
    return [over_tcp(connection) for connection in connections]


def forty_accelerated(connect):
    """Sends many messages at the same time until all connections are accelerated. Returns the connections."""
    connections = [connect() for _ in range(40)]
    before = None
    while all_over_tcp(connections) != before:
        before = all_over_tcp(connections)
        ask_all(connections, 20)
    print("accelerated", flush=True)
    return connections


def fewer(connect, _):
    """Sends one message after the other until a connection is no longer accelerated."""
    connections = forty_accelerated(connect)
    while is_accelerated(connections[0]):
        converse(connections[0], 1000)
    print("tcp", flush=True)
    ask_all(connections, 100)


def longer(connect, _):
    """Sends long messages on one connection until it is no longer accelerated. The others stay accelerated."""
    connections = forty_accelerated(connect)
    before = all_over_tcp(connections)
    data = bytes(range(256)) * 64
    while over_tcp(connections[0]) == before[0]:
        for _ in range(20):
            connections[0].sendall(data)
            ask_all(connections[1:], 5)
            back = connections[0].recv(len(data), socket.MSG_WAITALL)
            assert back == data, len(back)
    print("tcp", flush=True)
    ask_all(connections, 100)
    print("others", all_over_tcp(connections[1:]) == before[1:], flush=True)


def still_many(connect, _):
    """Sends many messages at the same time for seconds, in which all connections must stay accelerated."""
    connections = [connect() for _ in range(40)]
    before, since = [], time.monotonic()
    while time.monotonic() - since < 8:
        now = all_over_tcp(connections)
        ask_all(connections, 100)
        if now != before:
            before, since = now, time.monotonic()
    print("still", flush=True)


def wait_for(folder, name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.01)


def again(connect, folder):
    """One connection before the agent ends, one after another one has begun. The first goes on."""
    first = connect()
    come_to_be_accelerated(first)
    wait_for(folder, "go_on")
    second = connect()
    come_to_be_accelerated(second)
    converse(first, 100)


def stopped(connect, folder):
    """The agent stands still while they would meet."""
    connection = connect()
    converse(connection, 2000)
    print("went on", flush=True)
    wait_for(folder, "go_on")
    come_to_be_accelerated(connection)


def kept_alive(connect, _):
    """Until its TCP breaks."""
    connection = connect(keepalive=True)
    come_to_be_accelerated(connection)
    try:
        connection.recv(1)
    except OSError as error:
        print("over:", errno.errorcode[error.errno], flush=True)
    # Like the kernel, the library reports the error once.
    print("after it:", connection.recv(1), connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), flush=True)


def impatient(connect, folder):
    """TCP_USER_TIMEOUT ends it when what has been sent is not acknowledged for so long, and at no other time."""
    connection = connect()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1500)
    come_to_be_accelerated(connection)
    wait_for(folder, "down")
    # Nothing has been sent for longer than the timeout.
    time.sleep(3)
    connection.setblocking(False)
    try:
        print("received", connection.recv(1), flush=True)
    except BlockingIOError:
        print("waited", flush=True)
    connection.setblocking(True)
    wait_for(folder, "up")
    converse(connection, 20)
    print("went on", flush=True)
    wait_for(folder, "down_again")
    connection.sendall(b"x")
    try:
        connection.recv(1)
    except OSError as error:
        print("over:", errno.errorcode[error.errno], flush=True)
    print("after it:", connection.recv(1), connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), flush=True)


def killed(connect, _):
    connection = connect()
    come_to_be_accelerated(connection)
    os.kill(os.getpid(), 9)


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(*sys.argv[2:])
    else:
        case, address, port, source, folder = (sys.argv[2:] + ["", ""])[:5]
        globals()[case](lambda **how: connect(address, port, source, **how), folder)
    print("ok")
