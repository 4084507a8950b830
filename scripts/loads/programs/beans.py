"""ask PORT: jobs through beanstalkd: put, reserved, deleted. Prints jobs per second."""

import socket
import sys
import time

COUNT = 10000


def main():
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[2])), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = connection.makefile("rb")

    def ask(command, word):
        connection.sendall(command)
        answer = answers.readline().split()
        if answer[:1] != [word]:
            sys.exit(f"{command[:20]}: {answer}")
        return answer

    begun = time.monotonic()
    for number in range(COUNT):
        body = b"job %d " % number * 5
        ask(b"put 0 0 60 %d\r\n%s\r\n" % (len(body), body), b"INSERTED")
        answer = ask(b"reserve\r\n", b"RESERVED")
        if answers.read(int(answer[2]) + 2) != body + b"\r\n":
            sys.exit(f"job {number} differs")
        ask(b"delete %s\r\n" % answer[1], b"DELETED")
    print(COUNT / (time.monotonic() - begun))


main()
