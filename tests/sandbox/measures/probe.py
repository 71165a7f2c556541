"""What a command sees of each measure of its wall, as lines NAME=VALUE. measures_test.cc compares them with the lines of sandboxes
that lack one measure. The environment names what the test has made: SHOWN and OUTSIDE (folders), SECRET_FOLDER, SECRET_FILE,
WORK_ROOT, TMP, OWNER (a pid), PORT, ABSTRACT, IPC_KEY, COMPANION (of its command line), NS_* and LAUNCHER_MNT."""
import ctypes
import errno
import fcntl
import os
import pwd
import resource
import socket
import stat
import subprocess

LIBC = ctypes.CDLL(None, use_errno=True)
E = os.environ
OUTSIDE = E["OUTSIDE"]


def show(name, look):
    try:
        value = look()
    except OSError as error:
        value = errno.errorcode.get(error.errno, error.errno)
    except Exception as error:  # of a sandbox that lacks what the look needs
        value = type(error).__name__
    print(f"{name}={value}", flush=True)


def flag(path, bit):
    return bool(os.statvfs(path).f_flag & bit)


def show_flags(name, path):
    for word, bit in ("ro", 1), ("nosuid", 2), ("nodev", 4), ("noexec", 8):
        show(f"{name} {word}", lambda bit=bit: flag(path, bit))


def call(number, *arguments):
    if LIBC.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
    return "done"


def opens(path, flags):
    os.close(os.open(path, flags))
    return "done"


def makes_shared_file():
    path = f"/dev/shm/ingot-{os.getpid()}"
    opens(path, os.O_CREAT | os.O_WRONLY)
    os.unlink(path)
    return "done"


def connects(family, address):
    with socket.socket(family) as peer:
        peer.connect(address)
    return "done"


def binds(family, address):
    with socket.socket(family) as server:
        server.bind(address)
    return "done"


def orphans_parent():
    """The name of the process that adopts one."""
    got, put = os.pipe()
    child = os.fork()
    if child == 0:
        middle = os.getpid()
        if os.fork() == 0:
            while os.getppid() == middle:
                pass
            os.write(put, open(f"/proc/{os.getppid()}/comm").read().encode())
        os._exit(0)
    os.close(put)
    os.waitpid(child, 0)
    return os.read(got, 100).decode().strip()


def command_lines():
    lines = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines.append(open(f"/proc/{pid}/cmdline", "rb").read())
        except OSError:
            pass
    return lines


def signals_others():
    count = 0
    for pid in range(2, 400):
        try:
            os.kill(pid, 0)
            count += pid != os.getpid()
        except OSError:
            pass
    return count


def moves():
    os.makedirs("a", exist_ok=True)
    os.makedirs("b", exist_ok=True)
    open("a/x", "w").close()
    os.rename("a/x", "b/x")
    return "done"


def of_status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return line.split(":", 1)[1].strip()
    return "none"


def death_signal():
    got = ctypes.c_int()
    LIBC.prctl(2, ctypes.byref(got))
    return got.value


show("signals others", signals_others)  # before this one has children
for space in "pid", "mnt", "net", "ipc", "uts", "user":
    show("namespace " + space, lambda: os.readlink("/proc/self/ns/" + space) == E["NS_" + space])
show("namespace mnt of the launcher", lambda: os.readlink("/proc/self/ns/mnt") == E["LAUNCHER_MNT"])
for name in "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups":
    show(name, lambda: of_status(name))
show("leads a session", lambda: os.getsid(0) == os.getpid())
show("death signal", death_signal)
show("oom", lambda: open("/proc/self/oom_score_adj").read().strip())
for name in "CORE", "AS", "NOFILE", "CPU", "FSIZE", "NPROC":
    show("limit " + name, lambda: resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
show("environment of the first process", lambda: len(open(f"/proc/{os.getppid()}/environ", "rb").read()) >= 0)
show("orphan's parent", orphans_parent)
for line in open("/proc/self/cgroup"):
    print("cgroup of " + line.strip().split(":", 1)[1].replace(":", "="))

show("secret folder", lambda: os.listdir(E["SECRET_FOLDER"]))
show("secret file", lambda: open(E["SECRET_FILE"]).read())
show_flags("secret folder", E["SECRET_FOLDER"])
for name, path in (("/", "/"), ("/usr", "/usr"), ("/proc", "/proc"), ("/dev/shm", "/dev/shm"), ("/dev/pts", "/dev/pts"),
                   ("work", "."), ("work root", E["WORK_ROOT"]), ("channel", E["SHOWN"] + "/stream")):
    show_flags(name, path)
show("owner of /usr", lambda: os.stat("/usr").st_uid)
show("channel", lambda: stat.S_ISSOCK(os.stat(E["SHOWN"] + "/stream").st_mode))
show("above the root", lambda: sorted(os.listdir("/..")) == sorted(os.listdir("/")))
show("sources", lambda: os.listdir("/.sources"))
show("sandboxes", lambda: len(os.listdir(E["WORK_ROOT"])))
show("owner in /proc", lambda: os.path.exists(f"/proc/{E['OWNER']}/status"))
show("name", lambda: pwd.getpwuid(os.getuid()).pw_name)
show("own /tmp", lambda: os.path.samefile("/tmp", E["TMP"]))
show("write /dev/shm", makes_shared_file)
show("bytes of /dev/shm", lambda: os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize)
show("files of /dev/shm", lambda: os.statvfs("/dev/shm").f_files)
show("terminals", lambda: os.path.exists("/dev/pts/ptmx"))
show("companion in /proc", lambda: any(E["COMPANION"].encode() in line for line in command_lines()))
show("shared memory of the companion", lambda: LIBC.shmget(int(E["IPC_KEY"]) + 1, 0, 0) >= 0)
show("file of the companion", lambda: os.path.exists("/dev/shm/companion"))
LIBC.shmget(int(E["IPC_KEY"]), 4096, 0o1666)

show("read", lambda: opens(OUTSIDE + "/file", os.O_RDONLY))
show("write", lambda: opens(OUTSIDE + "/file", os.O_WRONLY))
show("truncate", lambda: os.truncate(OUTSIDE + "/file", 0))
show("list", lambda: os.listdir(OUTSIDE) != [])
show("make folder", lambda: os.mkdir(OUTSIDE + "/made-folder"))
show("remove folder", lambda: os.rmdir(OUTSIDE + "/folder"))
show("remove file", lambda: os.unlink(OUTSIDE + "/victim"))
show("make file", lambda: os.mknod(OUTSIDE + "/made-file"))
show("make pipe", lambda: os.mkfifo(OUTSIDE + "/made-pipe"))
show("make link", lambda: os.symlink("x", OUTSIDE + "/made-link"))
show("make character device", lambda: os.mknod(OUTSIDE + "/made-c", 0o600 | stat.S_IFCHR, os.makedev(1, 3)))
show("make block device", lambda: os.mknod(OUTSIDE + "/made-b", 0o600 | stat.S_IFBLK, os.makedev(7, 0)))
show("make socket", lambda: binds(socket.AF_UNIX, OUTSIDE + "/made-socket"))
show("move between folders", moves)
show("control a device", lambda: fcntl.ioctl(os.open(E["SHOWN"] + "/device", os.O_RDONLY), 0x5401, bytes(100)))
show("bind", lambda: binds(socket.AF_INET, ("127.0.0.1", 0)))
show("connect", lambda: connects(socket.AF_INET, ("127.0.0.1", int(E["PORT"]))))
show("abstract socket", lambda: connects(socket.AF_UNIX, "\0" + E["ABSTRACT"]))
show("signal", lambda: os.kill(int(E["OWNER"]), 0))
