"""serve|ask PORT: objects through multiprocessing.connection, small ones and some of megabytes. Prints round trips per second."""

import sys
import time
from multiprocessing.connection import Client, Listener

SMALL = 10000
LARGE = 50


def main():
    role, port = sys.argv[1:]
    address = ("127.0.0.1", int(port))
    if role == "serve":
        listener = Listener(address, authkey=b"matrix")
        while True:
            connection = listener.accept()
            try:
                while True:
                    connection.send(connection.recv())
            except EOFError:
                connection.close()
    connection = Client(address, authkey=b"matrix")
    begun = time.monotonic()
    for number in range(SMALL):
        message = {"number": number, "text": "x" * (number % 500)}
        connection.send(message)
        if connection.recv() != message:
            sys.exit(f"object {number} differs")
    for number in range(LARGE):
        message = bytes([number]) * (4 << 20)
        connection.send(message)
        if connection.recv() != message:
            sys.exit(f"large object {number} differs")
    print((SMALL + LARGE) / (time.monotonic() - begun))


main()
