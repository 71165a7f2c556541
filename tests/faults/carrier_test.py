#!/usr/bin/env python3
"""The carrier of the fault tests, in a network namespace of its own: an answer takes at least twice the least delay, TCP
brings every byte in order though packets overtake each other, and nothing is late before and after. Exits with 77 where the
machine grants no such namespace or device."""
import os
import socket
import subprocess
import sys
import threading
import time

OWN = "INGOT_CARRIER_TEST_OWN_NETWORK"
if os.environ.get(OWN) is None:
    os.environ[OWN] = "1"
    granted = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    if granted.returncode != 0:
        print(f"SKIPPED carrier: no network namespace: {granted.stderr.strip()}")
        sys.exit(77)
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])

from carrier import Carrier  # noqa: E402

LOW, HIGH, DATA = 0.02, 0.06, os.urandom(1 << 20)


def check(condition, message):
    if not condition:
        print(f"FAILED: {message}")
        os._exit(1)  # threads may wait for packets


def echo(listener):
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def answer(connection, data):
    """Seconds until all of `data` came back."""
    began, received = time.monotonic(), b""
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    while len(received) < len(data):
        received += connection.recv(1 << 16)
    sender.join()
    check(received == data, "other bytes came back")
    return time.monotonic() - began


def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    try:
        carrier = Carrier(seed=1)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"SKIPPED carrier: {error} {getattr(error, 'stderr', '')}")
        sys.exit(77)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        with socket.create_connection(listener.getsockname()) as connection:
            answer(connection, b"x")
            check(carrier.carried == 0, "a packet went through the carrier before the delay")
            with carrier.delaying(LOW, HIGH):
                took = [answer(connection, b"x") for _ in range(5)]
                check(min(took) >= 2 * LOW, f"answers before their time: {took}")
                answer(connection, DATA)
            check(carrier.carried > 20 and carrier.overtook > 0, f"{carrier.carried} packets, {carrier.overtook} overtook")
            deadline, before = time.monotonic() + 60, -1
            while before != carrier.carried:  # some were under way
                check(time.monotonic() < deadline, "packets still go through the carrier after the delay")
                before = carrier.carried
                answer(connection, DATA)
    carrier.close()
    print(f"carrier: passed: {carrier.carried} packets, {carrier.overtook} overtook; answers took "
          f"{', '.join(f'{one * 1e3:.0f}' for one in took)} ms")


if __name__ == "__main__":
    main()
