"""Sends, under the name of some user, descriptors that take long to close.

    python3 slow_present.py NOTES same|nobody

Each is a TCP socket with bytes that nothing reads, and a linger time of a minute. So the process that closes it last
waits for a minute. The sockets go to every rendezvous name of the server whose port is in NOTES, and to the server's own
datagram sockets, until NOTES/done exists. This is a separate program, because the process that starts others must not
hold such a socket.
"""

import array
import os
import socket
import struct
import sys
import threading
import time

PRESENTS = 300
EACH = 4


def lingering():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    stream = socket.socket()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream.connect(listener.getsockname())
    unread.append(listener.accept()[0])
    stream.setblocking(False)
    try:
        while True:
            stream.send(bytes(65536))
    except BlockingIOError:
        pass
    stream.setblocking(True)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    return stream


def inodes_of_listener(port):
    """The sockets of the process that listens there; for the same user."""
    with open("/proc/net/tcp") as table:
        lines = [line.split() for line in table]
    listening = [f[9] for f in lines[1:] if f[3] == "0A" and f[1].endswith(":%04X" % port)]
    for process in filter(str.isdigit, os.listdir("/proc")):
        folder = f"/proc/{process}/fd"
        try:
            targets = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
        except OSError:
            continue
        sockets = [target[8:-1] for target in targets if target.startswith("socket:[")]
        if listening and listening[0] in sockets:
            return sockets
    return []


def names(port, inodes):
    with open("/proc/net/unix") as table:
        lines = [line.split() for line in table]
    named = [f for f in lines[1:] if len(f) > 7 and f[7].startswith("@")]
    return [f[7][1:] for f in named if f":{port}" in f[7] and "sovia/" in f[7] or f[6] in inodes]


def give(sender, name):
    present = array.array("i", [lingering().detach()])
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, present)]
    try:
        sender.sendmsg([b"a present"], rights, socket.MSG_DONTWAIT, "\0" + name)
    except OSError:
        pass
    threading.Thread(target=os.close, args=(present[0],), daemon=True).start()


unread = []
notes, user = sys.argv[1:]
while not os.path.exists(f"{notes}/port"):
    time.sleep(0.001)
with open(f"{notes}/port") as file:
    port = int(file.read())
inodes = []
mark = time.monotonic()
if user == "nobody":
    os.setresuid(65534, 65534, 65534)
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
given = {}
while not os.path.exists(f"{notes}/done"):
    if user == "same" and time.monotonic() - mark > 0.1:
        inodes, mark = inodes_of_listener(port), time.monotonic()
    for name in names(port, inodes):
        given[name] = given.get(name, 0) + 1
        if given[name] <= EACH and len(unread) < PRESENTS:
            give(sender, name)
    time.sleep(0.0005)
os._exit(0)
