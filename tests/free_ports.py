"""Ports of the loopback interface for servers that start later."""
import socket

_holders = []  # until this process ends, so that the system gives their ports to nobody who asks for any


def free_port():
    """A port at which nobody listens. The server must set SO_REUSEADDR."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _holders.append(holder)
    return holder.getsockname()[1]
