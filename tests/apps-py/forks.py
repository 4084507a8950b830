"""A client that takes turns with many processes, each of which its server has forked for one connection.

    python3 forks.py PROCESSES [slowly]

With `slowly` each connection is on its VI before the next one is opened. Goes on until all connections are on their VIs, and
prints how many there are.
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


def main():
    count, is_slow = int(sys.argv[1]), "slowly" in sys.argv
    address = start_server(count)
    connections = []
    for _ in range(count):
        connections.append(socket.create_connection(address))
        if is_slow:
            take_turns_until_on_vis(connections[-1:])
    take_turns_until_on_vis(connections)
    print(len(connections), "on VIs")


main()
