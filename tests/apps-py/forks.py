"""A client that takes turns with many processes, each of which its server has forked for one connection.

    python3 forks.py PROCESSES [slowly | inheriting]

With `slowly` each connection is on its VI before the next one is opened. With `inheriting` each belongs to a child of the client's,
and all children have inherited one more, which they use in turn. Goes on until all connections are on their VIs, and prints how many
there are.
"""

import os
import socket
import sys

from common import acknowledged

MESSAGE = b"forty bytes, which every process echoes.."


def echo(connection):
    while data := connection.recv(4096):
        connection.sendall(data)
    os._exit(0)


def serve(listener, count):
    for _ in range(count):
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            echo(connection)
        connection.close()


def start_server(count):
    """Returns the address of a server for so many connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=count) as listener:
        if os.fork() == 0:
            serve(listener, count)
            os._exit(0)
        return listener.getsockname()


def take_turns(connections):
    for connection in connections:
        connection.sendall(MESSAGE)
    for connection in connections:
        assert connection.recv(len(MESSAGE), socket.MSG_WAITALL) == MESSAGE


def take_turns_until_on_vis(connections):
    """Takes turns until a turn shows that no byte of it went over TCP. A watchdog of the test's ends this otherwise."""
    while True:
        before = [acknowledged(connection) for connection in connections]
        take_turns(connections)
        if before == [acknowledged(connection) for connection in connections]:
            return


def start_heir(address, inherited):
    """Forks a child with a connection of its own. Returns a socket on which it says when that is on its VI, hears when to use the
    inherited one, and says that it has."""
    told, own = socket.socketpair()
    if os.fork() == 0:
        take_turns_until_on_vis([socket.create_connection(address)])
        own.sendall(b"1")
        own.recv(1)
        before = acknowledged(inherited)
        take_turns([inherited])
        assert before == acknowledged(inherited), "the inherited connection is on TCP"
        own.sendall(b"2")
        # All are connected at the same time.
        own.recv(1)
        os._exit(0)
    return told


def have_heirs(count):
    address = start_server(count + 1)
    inherited = socket.create_connection(address)
    take_turns_until_on_vis([inherited])
    heirs = [start_heir(address, inherited) for _ in range(count)]
    on_vis = sum(len(heir.recv(1)) for heir in heirs)
    for heir in heirs:
        heir.sendall(b"1")
        assert heir.recv(1) == b"2"
        take_turns([inherited])
    for heir in heirs:
        heir.sendall(b"2")
    print(on_vis, "on VIs")


def main():
    count, is_slow = int(sys.argv[1]), "slowly" in sys.argv
    if "inheriting" in sys.argv:
        return have_heirs(count)
    address = start_server(count)
    connections = []
    for _ in range(count):
        connections.append(socket.create_connection(address))
        if is_slow:
            take_turns_until_on_vis(connections[-1:])
    take_turns_until_on_vis(connections)
    print(len(connections), "on VIs")


main()
