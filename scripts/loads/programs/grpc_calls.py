"""serve|ask PORT: calls one after the other, by gRPC's generic handlers. Prints calls per second."""

import sys
import time
from concurrent import futures

import grpc

COUNT = 4000


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


def main():
    role, port = sys.argv[1:]
    address = f"127.0.0.1:{port}"
    if role == "serve":
        server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Echo()])
        server.add_insecure_port(address)
        server.start()
        server.wait_for_termination()
    call = grpc.insecure_channel(address).unary_unary("/matrix/echo")
    call(b"first", wait_for_ready=True, timeout=60)
    begun = time.monotonic()
    for number in range(COUNT):
        message = b"%d " % number * (number % 100 + 1)
        if call(message, timeout=60) != message:
            sys.exit(f"answer {number} differs")
    print(COUNT / (time.monotonic() - begun))


main()
