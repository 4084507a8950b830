"""A client that takes turns with many processes, each of which its server has forked for one connection.

    python3 forks.py PROCESSES

Goes on until all connections are on their VIs, and prints how many there are.
"""

import os
import socket
import sys

from common import acknowledged

MESSAGE = b"forty bytes, which every process echoes.."


def serve(listener, count):
    for _ in range(count):
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            while data := connection.recv(4096):
                connection.sendall(data)
            os._exit(0)
        connection.close()


def take_turns(connections):
    for connection in connections:
        connection.sendall(MESSAGE)
    for connection in connections:
        assert connection.recv(len(MESSAGE), socket.MSG_WAITALL) == MESSAGE


def main():
    count = int(sys.argv[1])
    with socket.create_server(("127.0.0.1", 0), backlog=count) as listener:
        address = listener.getsockname()
        if os.fork() == 0:
            serve(listener, count)
            os._exit(0)
    connections = [socket.create_connection(address) for _ in range(count)]
    # A watchdog of the test's ends this.
    while True:
        before = [acknowledged(connection) for connection in connections]
        take_turns(connections)
        if before == [acknowledged(connection) for connection in connections]:
            break
    print(len(connections), "on VIs")


main()
