"""PORT: pages by asyncio's streams."""

import asyncio
import sys


async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    except (asyncio.IncompleteReadError, ConnectionResetError):
        writer.close()


async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()


asyncio.run(main())
