"""Fresh request-response connections, looked at from their first byte on.

    python3 fresh.py server|client DIR CASE
"""

import socket
import struct

from common import main, recv_exactly, say

CONNECTIONS = 100
MESSAGES = 10
SIZE = 64


def serve(peer, nodelay):
    listener = peer.listen()
    for _ in range(CONNECTIONS):
        connection, _ = listener.accept()
        if nodelay:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(MESSAGES):
            connection.sendall(recv_exactly(connection, SIZE))
        # The client ends the connection.
        assert connection.recv(1) == b""
        connection.close()


def unacknowledged(connection):
    """Segments that the peer's TCP has not acknowledged (tcpi_unacked)."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)
    return struct.unpack_from("I", info, 24)[0]


def ask(peer, nodelay):
    """Checks that an answer acknowledges its request before the next request is due.

    Otherwise Nagle's algorithm would delay that request until the kernel's delayed acknowledgement.
    """
    late = 0
    port = peer.port()
    for _ in range(CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", port))
        if nodelay:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(MESSAGES):
            connection.sendall(b"x" * SIZE)
            recv_exactly(connection, SIZE)
            late += unacknowledged(connection) != 0
        connection.close()
    # A busy processor may delay one acknowledgement; a faulty switch delays a hundred.
    say("acknowledged with the answer:", late < CONNECTIONS // 10 or late)


def case(client, server):
    return (lambda peer: serve(peer, server), lambda peer: ask(peer, client))


main(
    {
        "an_answer_acknowledges_without_nodelay": case(False, False),
        "an_answer_acknowledges_with_nodelay_at_the_client": case(True, False),
        "an_answer_acknowledges_with_nodelay_at_the_server": case(False, True),
        "an_answer_acknowledges_with_nodelay_at_both": case(True, True),
    }
)
