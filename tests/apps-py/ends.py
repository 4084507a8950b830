"""Exchanges messages between two threads, and ends without libc's exit handlers: ends.py WAY PORT."""

import os
import signal
import socket
import sys
import threading

MESSAGES = 1000


def serve(listener):
    connection, _ = listener.accept()
    while received := connection.recv(7):
        connection.sendall(received)


def talk(port):
    listener = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    client = socket.create_connection(("127.0.0.1", port))
    for _ in range(MESSAGES):
        client.sendall(b"message")
        assert client.recv(7) == b"message"
    return client


def end(way):
    if way == "_exit":
        os._exit(0)
    os.kill(os.getpid(), getattr(signal, way))


def main():
    way, port = sys.argv[1], int(sys.argv[2])
    if way != "child":
        client = talk(port)
        return end(way) if way != "exit" else client.close()
    if os.fork() == 0:
        client = talk(port)
        end("SIGKILL")
    os.wait()


main()
