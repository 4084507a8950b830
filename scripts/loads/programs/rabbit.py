"""ask PORT: messages from one connection to another by way of a queue. Prints messages per second."""

import sys
import threading
import time

import pika

COUNT = 10000


def body(number):
    return b"%d " % number * 20


def channel():
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[2]))).channel()


def publish():
    out = channel()
    for number in range(COUNT):
        out.basic_publish("", "matrix", body(number))
    out.connection.close()


def main():
    inward = channel()
    inward.queue_declare("matrix", exclusive=False)
    inward.queue_purge("matrix")
    begun = time.monotonic()
    publisher = threading.Thread(target=publish)
    publisher.start()
    expected = 0
    for method, _, got in inward.consume("matrix", auto_ack=True, inactivity_timeout=60):
        if method is None:
            sys.exit(f"only {expected} messages")
        if got != body(expected):
            sys.exit(f"message {expected} differs: {got}")
        expected += 1
        if expected == COUNT:
            break
    ended = time.monotonic()
    publisher.join()
    inward.cancel()
    inward.connection.close()
    print(COUNT / (ended - begun))


main()
