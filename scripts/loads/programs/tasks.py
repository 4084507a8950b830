"""PORT: tasks through Dask's scheduler and its two workers, with arrays that go between these. Prints tasks per second."""

import sys
import time

from distributed import Client

SMALL = 1000
LARGE = 20


def large(number):
    return bytes([number]) * (8 << 20)


def total(*parts):
    return sum(len(part) * part[0] for part in parts)


def main():
    client = Client(f"tcp://127.0.0.1:{sys.argv[1]}", timeout=60)
    client.wait_for_workers(2, timeout=60)
    workers = list(client.scheduler_info()["workers"])
    begun = time.monotonic()
    squares = client.gather(client.map(lambda number: number * number, range(SMALL), pure=False))
    if squares != [number * number for number in range(SMALL)]:
        sys.exit("a square differs")
    parts = [client.submit(large, number, workers=[workers[number % 2]], pure=False) for number in range(LARGE)]
    # Half of them come from the other worker.
    got = client.submit(total, *parts, workers=[workers[0]], pure=False).result(timeout=60)
    if got != sum(range(LARGE)) * (8 << 20):
        sys.exit(f"the sum differs: {got}")
    if client.gather(parts) != [large(number) for number in range(LARGE)]:
        sys.exit("an array differs")
    print((SMALL + LARGE) / (time.monotonic() - begun))
    client.close()


main()
