#!/usr/bin/env python3
"""Two ends of one transfer over any IP network, which check what they get.

- lane.py serve ADDRESS PORT           answers one connection: sends back the digest of the received bytes, then as many bytes
- lane.py ask ADDRESS PORT BYTES       sends BYTES bytes, and checks the digest and the bytes that come back
- lane.py noise ADDRESS PORT COUNT     sends COUNT meaningless UDP datagrams
"""
import hashlib
import random
import socket
import struct
import sys
import threading


def some(seed, count):
    return random.Random(seed).randbytes(count)


def exactly(connection, count):
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise SystemExit(f"the connection has ended {count} bytes early")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def serve(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family) as server:
        connection, _ = server.accept()
        (count,) = struct.unpack("!Q", exactly(connection, 8))
        # In both directions at the same time.
        back = threading.Thread(target=connection.sendall, args=(some(2, count),))
        back.start()
        digest = hashlib.sha256(exactly(connection, count)).digest()
        back.join()
        connection.sendall(digest)
        connection.close()


def ask(address, port, count):
    out = some(1, count)
    connection = socket.create_connection((address, port))
    connection.sendall(struct.pack("!Q", count))
    forth = threading.Thread(target=connection.sendall, args=(out,))
    forth.start()
    if exactly(connection, count) != some(2, count):
        raise SystemExit("other bytes have come back")
    forth.join()
    if exactly(connection, 32) != hashlib.sha256(out).digest():
        raise SystemExit("other bytes have arrived")
    print("ok")


def noise(address, port, count):
    source = random.Random(3)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for number in range(count):
        # Some begin like frames: with the version of the wire format.
        head = b"\2" if number % 2 else b""
        sender.sendto(head + source.randbytes(source.randrange(1400)), (address, port))


if __name__ == "__main__":
    what, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    {"serve": serve, "ask": ask, "noise": noise}[what](address, port, *map(int, sys.argv[4:]))
