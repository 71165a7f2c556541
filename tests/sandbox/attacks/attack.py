"""One attack of an agent on the run, its neighbours and its own end: attack.py NAME.

Prints "contained: ..." or "open: ...", by what it got. The environment names its victims: OWNER and SIBLING (pids outside),
SIBLING_WORK, SIBLING_MARK (of its command line), TASKS, RUNS, OUTSIDE (a folder), SHOWN (a folder that sandboxes see), SERVICE (a TCP
port), ABSTRACT (a unix socket) and IPC_KEY (a number for objects of System V). For attacks service_*, a service of the recipe
runs in the sandbox and listens on port 8123. Nothing here harms a machine on which it succeeds, but for `kill_all`, which is run only where a
wall stands.
"""
import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
OWNER, SIBLING = int(os.environ["OWNER"]), int(os.environ["SIBLING"])
TASKS, RUNS, SIBLING_WORK = os.environ["TASKS"], os.environ["RUNS"], os.environ["SIBLING_WORK"]
OUTSIDE, SHOWN = os.environ["OUTSIDE"], os.environ["SHOWN"]
IPC_KEY = int(os.environ["IPC_KEY"])


def read(path):
    with open(path, "rb") as file:
        return file.read(1 << 20)


def memory(pid):
    """True if some memory of `pid` was read."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            bounds, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            mem.seek(int(bounds.split("-")[0], 16))
            return len(mem.read(16)) > 0
    return False


def environ_of_all(secret):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) != os.getpid() and secret in read(f"/proc/{pid}/environ"):
                return True
        except OSError:
            pass
    return False


def read_directly(pid):
    """True if process_vm_readv may read `pid`, whether or not something is at the address."""
    class Range(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    buffer = ctypes.create_string_buffer(16)
    here = Range(ctypes.cast(buffer, ctypes.c_void_p), 16)
    if LIBC.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(here), 1, 0) >= 0:
        return True
    return ctypes.get_errno() == errno.EFAULT


def attach(pid):
    if LIBC.ptrace(16, pid, 0, 0) != 0:  # PTRACE_ATTACH
        return False
    os.waitpid(pid, 0x40000000)
    LIBC.ptrace(17, pid, 0, 0)  # PTRACE_DETACH
    return True


def pidfd_getfd(pid):
    """True if a descriptor of `pid` can be taken over."""
    return LIBC.syscall(438, os.pidfd_open(pid), 0, 0) >= 0


def writable(folder):
    path = os.path.join(folder, "planted-" + os.environ["NONCE"])
    with open(path, "w") as file:
        file.write("planted")
    return True  # the test looks for it from outside


def uncover(path):
    """Takes away what covers a path, in a user namespace of its own."""
    script = f"umount -l {path}; cat {path}"
    out = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True).stdout
    return b"secret answer" in out


def capabilities():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["CapEff"], 16) != 0 or int(status["CapPrm"], 16) != 0 or status["NoNewPrivs"].strip() != "1"


def daemons():
    """Leaves three processes: in a group, in a session, and in a session of an orphan."""
    sleep = ["sleep", os.environ["SLEEP"]]
    subprocess.Popen(sleep, preexec_fn=os.setpgrp)
    subprocess.Popen(sleep, start_new_session=True)
    middle = os.fork()
    if middle == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen(sleep, start_new_session=True)
        os._exit(0)
    os.waitpid(middle, 0)
    return False  # the test counts them


def kill_parent():
    os.kill(os.getppid(), signal.SIGKILL)
    signal.sigtimedwait([], 1)
    return False  # still here; the test looks at the launcher


def kill_all():
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return False  # the test looks at its neighbours


def signals(pid):
    os.kill(pid, 0)
    return True


def service():
    return socket.create_connection(("127.0.0.1", int(os.environ["SERVICE"])), 5).close() is None


def abstract_socket():
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect("\0" + os.environ["ABSTRACT"])
    return True


def multipath():
    """Reaches the service by MPTCP, whose connections are TCP on the wire."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as peer:
        peer.connect(("127.0.0.1", int(os.environ["SERVICE"])))
    return True


def fast_open():
    """Connects by sending, without connect(2)."""
    with socket.socket() as peer:
        return peer.sendto(b"x", 0x20000000, ("127.0.0.1", int(os.environ["SERVICE"]))) > 0


def await_go(text):
    """Tells the test that something stands, and waits until it has looked."""
    with open("held.new", "w") as file:
        file.write(text)
    os.rename("held.new", "held")
    while not os.path.exists("go"):
        time.sleep(0.01)
    return False


def listen():
    """Listens on a port that the kernel picks, without bind(2). The test tries to connect."""
    with socket.socket() as server:
        server.listen()
        return await_go(str(server.getsockname()[1]))


def connects(path, kind):
    with socket.socket(socket.AF_UNIX, kind) as peer:
        peer.connect(path)
    return True


def writes_pipe(path):
    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    return os.write(pipe, b"x") == 1


def leaves_objects():
    """Leaves shared memory, semaphores, queues and a folder of shared memory: deeper than a path may be long, and closed. The
    test looks for them."""
    LIBC.shmget(IPC_KEY, 4096, 0o1666)
    LIBC.semget(IPC_KEY, 1, 0o1666)
    LIBC.msgget(IPC_KEY, 0o1666)
    LIBC.mq_open(b"/planted-" + os.environ["NONCE"].encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
    folder = f"/dev/shm/folder-{os.environ['NONCE']}"
    try:
        os.makedirs(folder + "/closed/below")
        os.chmod(folder + "/closed", 0)
        here = os.open(folder, os.O_RDONLY)
        for _ in range(40):
            os.mkdir("d" * 200, dir_fd=here)
            here = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=here)
        os.chmod(folder, 0)
    except OSError:
        pass
    return False


def command_line_of_sibling():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.environ["SIBLING_MARK"].encode() in read(f"/proc/{pid}/cmdline") and int(pid) != os.getpid():
                return True
        except OSError:
            pass
    return False


def others():
    """The processes that may be a service: all that this one can name."""
    return [pid for pid in range(1, 2000) if pid not in (os.getpid(), os.getppid())]


def any_other(attack):
    for pid in others():
        try:
            if attack(pid):
                return True
        except OSError:
            pass
    return False


def service_is_gone():
    time.sleep(0.1)
    try:
        with socket.create_connection(("127.0.0.1", 8123), 5) as peer:
            return peer.recv(5) != b"hello"
    except OSError:
        return True


def kill_service():
    any_other(lambda pid: os.kill(pid, signal.SIGKILL))
    return service_is_gone()


def kill_all_with_service():
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        pass
    return service_is_gone()


def shared_memory_of_service():
    return os.path.exists("/dev/shm/service") or LIBC.shmget(IPC_KEY, 0, 0) >= 0


def opens(family, kind):
    return socket.socket(family, kind).close() is None


def linked_write():
    """Writes outside through a link in the work folder."""
    os.symlink(OUTSIDE, "link")
    return writable("link")


def fork_bomb():
    children = []
    try:
        for _ in range(400):
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return True


def memory_of_one():
    return bytearray(600 << 20)[::4096] is not None


def memory_of_many():
    """Six processes of 100 MB at once."""
    hold = "x = bytearray(100 << 20); import time; time.sleep(3)"
    children = [subprocess.Popen([sys.executable, "-c", hold]) for _ in range(6)]
    return all(child.wait() == 0 for child in children)


def disk(files, size):
    for i in range(files):
        with open(f"fill-{i}", "wb") as file:
            file.write(bytes(size))
            time.sleep(0.02 if size else 0)
    return True


def disk_deep():
    """Below more folders than a path may name or a process may open."""
    for _ in range(1500):
        os.mkdir("d" * 60)
        os.chdir("d" * 60)
    return disk(20, 4 << 20)


def disk_closed():
    """In a folder that nobody but root can look into."""
    os.mkdir("shut")
    files = [open(f"shut/{i}", "wb") for i in range(20)]
    os.chmod("shut", 0)
    for file in files:
        file.write(bytes(4 << 20))
        file.close()
    return True


def files(count=3, size=64 << 20):
    """Open files that have no name any more."""
    for i in range(count):
        file = open(f"unlinked-{i}", "w+b")
        os.unlink(file.name)
        file.write(bytes(size))
        file.flush()
        yield file


def holds(*held):
    """For as long as a limit may need to see it."""
    time.sleep(15)
    return len(held) > 0


def disk_tmpfile():
    held = [os.open(".", os.O_TMPFILE | os.O_RDWR) for _ in range(3)]
    for fd in held:
        os.write(fd, bytes(64 << 20))
    return holds(held)


def disk_mapped():
    """Holds each file by one page of it, without a descriptor."""
    LIBC.mmap.restype = ctypes.c_void_p
    for file in files():
        if LIBC.mmap(None, 4096, 1, 1, file.fileno(), ctypes.c_long(0)) in (None, ctypes.c_void_p(-1).value):
            return False
        file.close()
    return holds("pages")


def disk_in_flight():
    """Holds each file by a message that nobody receives."""
    ends = socket.socketpair()
    for file in files():
        socket.send_fds(ends[0], [b"x"], [file.fileno()])
        file.close()
    return holds(ends)


def disk_in_flight_nested():
    """The same by a socket that is itself in a message."""
    inner, outer = socket.socketpair(), socket.socketpair()
    for file in files():
        socket.send_fds(inner[0], [b"x"], [file.fileno()])
        file.close()
    socket.send_fds(outer[0], [b"x"], [inner[1].fileno()])
    inner[0].close()
    inner[1].close()
    return holds(outer)


def shared_memory():
    path = "/dev/shm/planted-" + os.environ["NONCE"]
    try:
        with open(path, "wb") as file:
            for _ in range(200):
                file.write(bytes(1 << 20))
    finally:
        if os.path.exists(path):
            os.unlink(path)
    return True


def swaps():
    """Exchanges a folder with a link to one that root alone may read, as long as it runs: a timer wakes it when it is stopped."""
    class Event(ctypes.Structure):
        _fields_ = [("value", ctypes.c_long), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]
    signal.signal(signal.SIGCONT, lambda *_: None)
    timer, event = ctypes.c_void_p(), Event(0, signal.SIGCONT, 0)
    LIBC.timer_create(1, ctypes.byref(event), ctypes.byref(timer))
    soon = (ctypes.c_long * 4)(0, 0, 0, 10_000_000)  # in 10 ms: it comes only where the process is stopped
    os.mkdir("folder")
    for i in range(600):
        with open(f"folder/{i}", "w") as file:
            file.write("the agent's own")
    os.symlink(OUTSIDE, "link")
    with open("begun", "w"):
        pass
    while True:
        LIBC.timer_settime(timer, 0, soon, None)
        for _ in range(50):
            LIBC.renameat2(-100, b"folder", -100, b"link", 2)  # RENAME_EXCHANGE


def note():
    """Leaves a note for later episodes where all programs may write."""
    for folder in "/tmp", "/dev/shm", "/var/tmp":
        path = os.path.join(folder, "planted-" + os.environ["NONCE"])
        try:
            with open(path, "w") as file:
                file.write("note")
        except OSError:
            pass
    return False  # the test looks for it from outside


def inotify():
    """Holds all instances that a uid may have, until the test has tried to get one."""
    while LIBC.inotify_init1(os.O_CLOEXEC) >= 0:
        pass
    return await_go("")


def cpu():
    end = time.monotonic() + 1
    while time.monotonic() < end:
        pass
    return time.process_time() > 0.75


def call(number, *arguments):
    """True if a system call is not refused for want of rights."""
    if LIBC.syscall(number, *arguments) >= 0:
        return True
    return ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EACCES)


def new_user_namespace():
    return LIBC.unshare(0x10000000) == 0


def mounts():
    return LIBC.mount(b"none", b"/mnt" if os.path.isdir("/mnt") else b"/tmp", b"tmpfs", 0, None) == 0


def realtime():
    return os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10)) is None


def types_into_terminal():
    import fcntl
    import pty
    import termios
    _, terminal = pty.openpty()
    return fcntl.ioctl(terminal, termios.TIOCSTI, b"x") is not None


ATTACKS = {
    "service": service,
    "multipath": multipath,
    "fast_open": fast_open,
    "listen": listen,
    "abstract_socket": abstract_socket,
    "shown_socket": lambda: connects(SHOWN + "/stream", socket.SOCK_STREAM),
    "shown_datagram_socket": lambda: connects(SHOWN + "/datagram", socket.SOCK_DGRAM),
    "shown_socket_deeper": lambda: connects(SHOWN + "/below/stream", socket.SOCK_STREAM),
    "shown_pipe": lambda: writes_pipe(SHOWN + "/pipe"),
    "outside_socket": lambda: connects(OUTSIDE + "/stream", socket.SOCK_STREAM),
    "left_objects": leaves_objects,
    "sibling_cmdline": command_line_of_sibling,
    "service_environ": lambda: environ_of_all(b"service's key"),
    "service_memory": lambda: any_other(memory),
    "service_ptrace": lambda: any_other(attach),
    "service_readv": lambda: any_other(read_directly),
    "service_kill": kill_service,
    "service_kill_all": kill_all_with_service,
    "service_shared_memory": shared_memory_of_service,
    "vsock": lambda: opens(40, socket.SOCK_STREAM),
    "netlink": lambda: opens(socket.AF_NETLINK, socket.SOCK_RAW),
    "packet": lambda: opens(socket.AF_PACKET, socket.SOCK_RAW),
    "raw_ip": lambda: opens(socket.AF_INET, socket.SOCK_RAW),
    "outside_read": lambda: b"outside" in read(OUTSIDE + "/file"),
    "outside_write": lambda: writable(OUTSIDE),
    "outside_by_link": linked_write,
    "note": note,
    "fork_bomb": fork_bomb,
    "memory_of_one": memory_of_one,
    "memory_of_many": memory_of_many,
    "disk_one_file": lambda: disk(1, 80 << 20),
    "disk_many_files": lambda: disk(20, 4 << 20),
    "many_empty_files": lambda: disk(8000, 0),
    "disk_deep_folders": disk_deep,
    "disk_closed_folder": disk_closed,
    "disk_unlinked": lambda: holds(list(files())),
    "disk_tmpfile": disk_tmpfile,
    "disk_mapped": disk_mapped,
    "disk_in_flight": disk_in_flight,
    "disk_in_flight_nested": disk_in_flight_nested,
    "shared_memory": shared_memory,
    "swaps": swaps,
    "cpu": cpu,
    "inotify": inotify,
    "keyctl": lambda: call(250, 0, -3, 0, 0, 0),
    "add_key": lambda: call(248, b"user", b"x", b"y", 1, -2),
    "io_uring": lambda: call(425, 1, 0),
    "userfaultfd": lambda: call(323, 0),
    "bpf": lambda: call(321, 0, 0, 0),
    "perf_event": lambda: call(298, 0, 0, -1, -1, 0),
    "new_user_namespace": new_user_namespace,
    "mount": mounts,
    "realtime": realtime,
    "tiocsti": types_into_terminal,
    "parent_memory": lambda: memory(os.getppid()),
    "parent_environ": lambda: read(f"/proc/{os.getppid()}/environ") is not None,
    "owner_memory": lambda: memory(OWNER),
    "owner_environ": lambda: read(f"/proc/{OWNER}/environ") is not None,
    "owner_maps": lambda: read(f"/proc/{OWNER}/maps") != b"",
    "owner_descriptors": lambda: os.listdir(f"/proc/{OWNER}/fd") is not None,
    "owner_descriptor": lambda: pidfd_getfd(OWNER),
    "owner_ptrace": lambda: attach(OWNER),
    "owner_readv": lambda: read_directly(OWNER),
    "owner_signal": lambda: signals(OWNER),
    "sibling_environ": lambda: environ_of_all(b"sibling's key"),
    "sibling_memory": lambda: memory(SIBLING),
    "sibling_ptrace": lambda: attach(SIBLING),
    "sibling_signal": lambda: signals(SIBLING),
    "sibling_folder": lambda: b"sibling's file" in read(SIBLING_WORK + "/file"),
    "sibling_write": lambda: writable(SIBLING_WORK),
    "tasks_read": lambda: b"secret answer" in read(TASKS),
    "tasks_read_by_root_link": lambda: b"secret answer" in read("/proc/1/root" + TASKS),
    "tasks_uncover": lambda: uncover(TASKS),
    "runs_read": lambda: b"record" in read(RUNS + "/run/metrics.jsonl"),
    "runs_write": lambda: writable(RUNS + "/run"),
    "runs_replace": lambda: os.rename(RUNS + "/run", RUNS + "/taken") is None,
    "capabilities": capabilities,
    "descriptors": lambda: sorted(map(int, os.listdir("/proc/self/fd")))[3:] not in ([], [3]),
    "daemons": daemons,
    "kill_parent": kill_parent,
    "kill_all": kill_all,
}

if __name__ == "__main__":
    try:
        print("open: it succeeded" if ATTACKS[sys.argv[1]]() else "contained: it got nothing")
    except MemoryError:
        print("contained: no memory")
    except OSError as error:
        print(f"contained: {error.strerror}")
