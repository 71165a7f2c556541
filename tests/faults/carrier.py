"""A network that delays: carries the packets of this network namespace's loopback addresses through a TUN device, each
after a time drawn from a seed. For kernels without netem. It must run in a network namespace of its own, as root.

  socket ──▶ mark ──▶ faults0 ──▶ heap of due times ──▶ faults0 ──▶ socket
             (iptables, while a delay is on)

A packet may overtake one that was sent before it by up to the spread of the delays. The n-th packet of a carrier has the
same delay for the same seed. Packets that are under way when a delay ends arrive at their time.
"""
import contextlib
import fcntl
import heapq
import os
import pathlib
import random
import select
import struct
import subprocess
import threading
import time

DEVICE, MARK, TABLE = "faults0", "7", "77"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
MARKING = ["OUTPUT", "-p", "tcp", "-j", "MARK", "--set-mark", MARK]


def command(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


class Carrier:
    """Raises OSError or CalledProcessError where the machine grants no TUN device, route or mark."""

    def __init__(self, seed):
        command("iptables", "-t", "mangle", "-S", MARKING[0])  # which delaying() needs
        self.random, self.low, self.high = random.Random(seed), 0.0, 0.0
        self.carried, self.overtook = 0, 0
        self.device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self.wake_read, self.wake_write = os.pipe()
        fcntl.ioctl(self.device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
        command("ip", "link", "set", DEVICE, "mtu", "65535", "up")
        for key, value in (("route_localnet", "1"), ("accept_local", "1"), ("rp_filter", "0")):
            pathlib.Path(f"/proc/sys/net/ipv4/conf/{DEVICE}/{key}").write_text(value)
        pathlib.Path("/proc/sys/net/ipv4/conf/all/rp_filter").write_text("0")
        # Marked packets leave through the device, before the table of local addresses is asked.
        command("ip", "route", "add", "default", "dev", DEVICE, "table", TABLE)
        command("ip", "rule", "add", "pref", "10", "fwmark", MARK, "iif", "lo", "lookup", TABLE)
        command("ip", "rule", "add", "pref", "20", "lookup", "local")
        command("ip", "rule", "del", "pref", "0")
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def carry(self):
        under_way, number = [], 0
        while True:
            wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
            ready, _, _ = select.select([self.device, self.wake_read], [], [], wait)
            if self.wake_read in ready:
                return
            if self.device in ready:
                packet = os.read(self.device, 65536)
                if packet[0] >> 4 == 4:  # no other traffic of the device, such as router solicitations
                    heapq.heappush(under_way, (time.monotonic() + self.random.uniform(self.low, self.high), number, packet))
                    number += 1
            while under_way and under_way[0][0] <= time.monotonic():
                _, sent, packet = heapq.heappop(under_way)
                self.overtook += any(other < sent for _, other, _ in under_way)
                self.carried += 1
                os.write(self.device, packet)

    @contextlib.contextmanager
    def delaying(self, low, high):
        """Meanwhile each packet of TCP takes from `low` to `high` seconds."""
        self.low, self.high = low, high
        command("iptables", "-t", "mangle", "-A", *MARKING)
        try:
            yield
        finally:
            command("iptables", "-t", "mangle", "-D", *MARKING)

    def close(self):
        os.write(self.wake_write, b"x")
        self.thread.join()
        for descriptor in (self.device, self.wake_read, self.wake_write):
            os.close(descriptor)
