"""request|push serve|ask PORT: requests and their answers one by one, or messages in one direction. Prints how many a second."""

import sys
import time

import zmq

REQUESTS = 20000
PUSHES = 500000
# A socket of ZeroMQ's waits for good for a server that has died: it connects again and again. Milliseconds.
LONGEST = 60000


def serve(kind, address):
    context = zmq.Context()
    if kind == "request":
        socket = context.socket(zmq.REP)
        socket.bind(address)
        while True:
            socket.send(socket.recv())
    socket = context.socket(zmq.PAIR)
    socket.bind(address)
    while True:
        for number in range(PUSHES):
            got = socket.recv()
            if got != b"%-100d" % number:
                socket.send(b"message %d differs: %s" % (number, got))
                break
        else:
            socket.send(b"all")


def main():
    kind, role, port = sys.argv[1:]
    address = f"tcp://127.0.0.1:{port}"
    if role == "serve":
        serve(kind, address)
    socket = zmq.Context().socket(zmq.REQ if kind == "request" else zmq.PAIR)
    socket.setsockopt(zmq.RCVTIMEO, LONGEST)
    socket.setsockopt(zmq.SNDTIMEO, LONGEST)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(address)
    begun = time.monotonic()
    if kind == "request":
        for number in range(REQUESTS):
            message = b"%d" % number * 10
            socket.send(message)
            got = socket.recv()
            if got != message:
                sys.exit(f"answer {number} differs: {got}")
        print(REQUESTS / (time.monotonic() - begun))
    else:
        for number in range(PUSHES):
            socket.send(b"%-100d" % number)
        answer = socket.recv()
        if answer != b"all":
            sys.exit(answer.decode())
        print(PUSHES / (time.monotonic() - begun))


main()
