"""asyncio, socketserver, multiprocessing, http and ssl."""

import asyncio
import hashlib
import http.client
import http.server
import multiprocessing
import os
import socketserver
import ssl
import subprocess
import threading
import urllib.request

from common import main, pattern, recv_exactly, say, warm

CHUNK = 65536


def echo_bytes():
    return int(os.environ.get("SOVIA_TEST_BYTES", str(50_000_000)))


async def asyncio_server_main(peer):
    finished = asyncio.Event()
    total = 0

    async def handle(reader, writer):
        nonlocal total
        while data := await reader.read(CHUNK):
            total += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()
        # The end of the loop would discard its unsent bytes.
        await writer.wait_closed()
        finished.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    peer.leave_port(server.sockets[0].getsockname()[1])
    await finished.wait()
    server.close()
    say(total, "bytes echoed")


async def asyncio_client_main(peer):
    reader, writer = await asyncio.open_connection("127.0.0.1", peer.port())
    chunk = pattern(0, CHUNK)
    for i in range(50):
        writer.write(chunk[:64])
        await writer.drain()
        if await reader.readexactly(64) != chunk[:64]:
            say("wrong echo", i)
    count = echo_bytes() // CHUNK

    async def send():
        for _ in range(count):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()

    sending = asyncio.create_task(send())
    wrong = 0
    for _ in range(count):
        wrong += await reader.readexactly(CHUNK) != chunk
    await sending
    say(count, "chunks,", wrong, "wrong, then", await reader.read())
    writer.close()
    await writer.wait_closed()


async def many_clients_main(peer):
    port = peer.port()

    async def one(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for turn in range(40):
            message = f"{number} {turn}\n".encode()
            writer.write(message)
            if await reader.readline() != message:
                say("wrong answer", number, turn)
            if turn % 10 == number % 10:
                await asyncio.sleep(0.001)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(one(number) for number in range(100)))
    say("100 clients")


async def many_server_main(peer):
    done = asyncio.Event()
    gone = 0

    async def handle(reader, writer):
        nonlocal gone
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()
        gone += 1
        if gone == 100:
            done.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=200)
    peer.leave_port(server.sockets[0].getsockname()[1])
    await done.wait()
    server.close()
    say("100 clients")


async def cancelling_main(peer):
    """Reads with timeouts that are cancelled, then go on."""
    if peer.server:
        done = asyncio.Event()

        async def handle(reader, writer):
            while line := await reader.readline():
                await asyncio.sleep(0.08)
                writer.write(line)
            writer.close()
            done.set()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        peer.leave_port(server.sockets[0].getsockname()[1])
        await done.wait()
        return
    reader, writer = await asyncio.open_connection("127.0.0.1", peer.port())
    timeouts = 0
    for turn in range(10):
        writer.write(f"turn {turn}\n".encode())
        while True:
            try:
                line = await asyncio.wait_for(reader.readline(), 0.02)
                break
            except asyncio.TimeoutError:
                timeouts += 1
        if line != f"turn {turn}\n".encode():
            say("wrong line", line)
    say("timeouts came:", timeouts > 10)
    writer.close()
    await writer.wait_closed()


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line[::-1].strip() + b"\n")


def socketserver_with(kind):
    def serve(peer):
        class Server(kind):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 50

        with Server(("127.0.0.1", 0), Echo) as server:
            peer.leave_port(server.server_address[1])
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            peer.hear()
            server.shutdown()
            thread.join()
        say("served")

    return serve


def visits(peer):
    for visit in range(8):
        s = peer.connect()
        file = s.makefile("rwb")
        for i in range(50):
            file.write(f"{visit}-{i:03}\n".encode())
            file.flush()
            if file.readline() != f"{visit}-{i:03}\n".encode().strip()[::-1] + b"\n":
                say("wrong answer", visit, i)
        file.close()
        s.close()
    say("eight visits")
    peer.tell()


def works(connection, number):
    warm(connection, True)
    data = recv_exactly(connection, 100_000)
    connection.sendall(hashlib.sha256(data).digest())
    connection.close()
    os._exit(number)


def multiprocessing_server(peer):
    """Processes that inherit a connection, and ones that are sent it."""
    listener = peer.listen()
    context = multiprocessing.get_context("fork")
    for number in range(3):
        connection, _ = listener.accept()
        worker = context.Process(target=works, args=(connection, number))
        worker.start()
        connection.close()
        worker.join()
        say("worker", worker.exitcode)
    queue = context.Queue()

    def takes():
        for _ in range(3):
            connection = queue.get()
            warm(connection, True)
            data = recv_exactly(connection, 100_000)
            connection.sendall(hashlib.sha256(data).digest())
            connection.close()

    worker = context.Process(target=takes)
    worker.start()
    connections = [listener.accept()[0] for _ in range(3)]
    for connection in connections:
        queue.put(connection)
    worker.join()
    say("worker", worker.exitcode)


def multiprocessing_client(peer):
    def talk(connection, number):
        warm(connection, False)
        data = pattern(number, 100_000)
        connection.sendall(data)
        say(recv_exactly(connection, 32) == hashlib.sha256(data).digest())
        connection.close()

    for number in range(3):
        talk(peer.connect(), number)
    for number, connection in enumerate([peer.connect() for _ in range(3)]):
        talk(connection, number)


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = pattern(0, int(self.path[1:]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        digest = hashlib.sha256(body).hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(digest)))
        self.end_headers()
        self.wfile.write(digest)


def http_server(peer):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        peer.leave_port(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        peer.hear()
        server.shutdown()
        thread.join()
    say("served")


def http_client(peer):
    address = f"http://127.0.0.1:{peer.port()}"
    for size in (0, 1, 1000, 100_000, 5_000_000):
        with urllib.request.urlopen(f"{address}/{size}") as answer:
            body = answer.read()
        say(answer.status, len(body), body == pattern(0, size))
        with urllib.request.urlopen(address + "/", data=body) as answer:
            say(answer.status, answer.read() == hashlib.sha256(body).hexdigest().encode())
    keep = http.client.HTTPConnection("127.0.0.1", peer.port())
    for _ in range(100):
        keep.request("GET", "/777")
        answer = keep.getresponse()
        if answer.read() != pattern(0, 777):
            say("wrong body")
    keep.close()
    say("a hundred requests on one connection")
    peer.tell()


def certificate(peer):
    files = [os.path.join(peer.folder, name) for name in ("key.pem", "cert.pem")]
    if peer.server:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
            + ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
            + ["-addext", "subjectAltName=IP:127.0.0.1"]
            + ["-keyout", files[0], "-out", files[1]],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        peer.tell()
    else:
        peer.hear()
    return files


def ssl_server(peer):
    key, cert = certificate(peer)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    s = context.wrap_socket(peer.stream(), server_side=True)
    total = 0
    while data := s.recv(100_000):
        s.sendall(data)
        total += len(data)
    say(total, "bytes echoed")
    s.close()


def ssl_client(peer):
    _, cert = certificate(peer)
    context = ssl.create_default_context(cafile=cert)
    s = context.wrap_socket(peer.stream(), server_hostname="127.0.0.1")
    say("protected:", s.version() is not None)
    for i in range(200):
        message = pattern(i, 1 + i * 211)
        s.sendall(message)
        if recv_exactly(s, len(message)) != message:
            say("wrong echo", i)
    s.close()


def run(coroutine):
    return lambda peer: asyncio.run(coroutine(peer))


main(
    {
        "asyncio_echoes": (run(asyncio_server_main), run(asyncio_client_main)),
        "asyncio_with_a_hundred_clients": (run(many_server_main), run(many_clients_main)),
        "asyncio_reads_that_are_cancelled": run(cancelling_main),
        "a_server_with_threads": (socketserver_with(socketserver.ThreadingTCPServer), visits),
        "a_server_with_forks": (socketserver_with(socketserver.ForkingTCPServer), visits),
        "multiprocessing_takes_connections": (multiprocessing_server, multiprocessing_client),
        "http_server_and_urllib": (http_server, http_client),
        "ssl_over_a_stream": (ssl_server, ssl_client),
    }
)
