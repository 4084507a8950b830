"""A client that aborts transfers in their middle: `aborts.py PORT FOLDER WAY...`, each WAY `get` or `put`.

As RFC 959 has it: Telnet's "interrupt process" and its "synch", whose mark is urgent, and then ABOR. Says what the server
replies, and whether each whole transfer that follows on the same connection is right.
"""

import ftplib
import socket
import sys
import time

IAC, IP, DM = 255, 244, 242
PIECE = 65536
PIECES = 20
# Between pieces, in seconds: the ends of the connection have time to meet.
REST = 0.002


def reply(ftp, to):
    print(f"{to}: {ftp.getmultiline()[:3]}")


def abort(ftp):
    ftp.sock.sendall(bytes([IAC, IP, IAC]), socket.MSG_OOB)
    ftp.sock.sendall(bytes([DM]) + b"ABOR\r\n")


def replies_to_abort(ftp):
    reply(ftp, "ABOR")
    reply(ftp, "ABOR")
    ftp.putcmd("NOOP")
    reply(ftp, "NOOP")


def get(ftp, folder, served):
    data = ftp.transfercmd(f"RETR {folder}/served")
    got = b""
    while len(got) < PIECES * PIECE:
        got += data.recv(PIECE)
        time.sleep(REST)
    abort(ftp)
    while piece := data.recv(PIECE):
        got += piece
    data.close()
    print("what has come is right:", len(got) < len(served) and served.startswith(got))
    replies_to_abort(ftp)


def put(ftp, folder, served):
    data = ftp.transfercmd(f"STOR {folder}/part")
    for at in range(0, PIECES * PIECE, PIECE):
        data.sendall(served[at : at + PIECE])
        time.sleep(REST)
    abort(ftp)
    # The server says nothing more before it has left the transfer.
    replies_to_abort(ftp)
    data.close()
    with open(f"{folder}/part", "rb") as file:
        print("what has arrived is right:", served.startswith(file.read()))


def main():
    port, folder, ways = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    ftp = ftplib.FTP()
    ftp.connect("127.0.0.1", port)
    ftp.login("root", "x")
    ftp.voidcmd("TYPE I")
    with open(f"{folder}/served", "rb") as file:
        served = file.read()
    for way in ways:
        {"get": get, "put": put}[way](ftp, folder, served)
        got = bytearray()
        ftp.retrbinary(f"RETR {folder}/served", got.extend)
        print("the next download is right:", got == served)
        with open(f"{folder}/served", "rb") as file:
            ftp.storbinary(f"STOR {folder}/whole", file, PIECE)
        with open(f"{folder}/whole", "rb") as file:
            print("the next upload is right:", file.read() == served)
    ftp.putcmd("QUIT")
    reply(ftp, "QUIT")


main()
