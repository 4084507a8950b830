"""A client of a service that answers with what it is sent: echoed.py PORT ROUNDS."""

import socket
import sys

port, rounds = int(sys.argv[1]), int(sys.argv[2])
stream = socket.create_connection(("127.0.0.1", port))
stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for i in range(rounds):
    sent = f"message {i} ".encode() * (1 + i % 50)
    stream.sendall(sent)
    got = bytearray()
    while len(got) < len(sent):
        more = stream.recv(1 << 16)
        assert more, f"the end, in the middle of answer {i}"
        got += more
    assert got == sent, f"answer {i} is another's"
stream.shutdown(socket.SHUT_WR)
assert stream.recv(1) == b"", "more than was sent"
print(f"{rounds} answers")
