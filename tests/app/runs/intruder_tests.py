#!/usr/bin/env python3
"""What agents reach of their run's processes: intruder_tests.py BINARY SOURCE_DIR intruder."""
import os
import pathlib
import subprocess

from ingot_runs import NOBODY, check, main, run_as_nobody, wait_for_rows, write_asking_config

# Tries to get at the processes named as arguments, which have this uid, and prints each way that was open.
INTRUDER = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Range(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(16)
here = Range(ctypes.cast(buffer, ctypes.c_void_p), 16)
def refused(result):
    if result < 0 and ctypes.get_errno() != errno.EFAULT:  # EFAULT: the right is there, the address is not
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
ways = {
    "mem": lambda pid: open(f"/proc/{pid}/mem", "rb"),
    "environ": lambda pid: open(f"/proc/{pid}/environ", "rb").read(),
    "maps": lambda pid: open(f"/proc/{pid}/maps", "rb").read(),
    "fd": lambda pid: os.listdir(f"/proc/{pid}/fd"),
    "cwd": lambda pid: os.readlink(f"/proc/{pid}/cwd"),
    "ptrace": lambda pid: refused(libc.ptrace(0x4206, pid, 0, 0)),
    "process_vm_readv": lambda pid: refused(libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(here), 1, 0)),
    "pidfd_getfd": lambda pid: refused(libc.syscall(438, os.pidfd_open(pid), 0, 0)),
}
for pid in map(int, sys.argv[1:]):
    for name, way in ways.items():
        try:
            way(pid)
            print(f"open: {name} of", open(f"/proc/{pid}/comm").read().strip())
        except OSError:
            pass
print("tried", len(sys.argv) - 1)
"""


def case_intruder(ingot):
    """What shares the user of a run, as its agents may, reads neither memory nor descriptors of its processes."""
    user = os.geteuid() or NOBODY
    folder = write_asking_config(ingot)
    if os.geteuid() == 0:
        for path in [folder, *folder.iterdir()]:
            os.chown(path, user, user)
        if run_as_nobody([ingot.binary, "--version"]) is None:
            return
    switch = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
    settings = {"run.name": "walled", "scheduler.total_steps": 1000, "scheduler.drop_zero_variance": "false",
                "agents.work_root": folder / "work"}
    launch = ingot.start("launch", settings, **switch)
    try:
        wait_for_rows(ingot, launch, "walled", 1)
        names, parents = {}, {}
        for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
            try:
                pid, parent = int(comm.parent.name), int((comm.parent / "stat").read_text().rsplit(")", 1)[1].split()[1])
                name = comm.read_text().strip()
            except OSError:
                continue
            names[pid], parents[pid] = name, parent
        # The launcher's children have its name until they are agents, and other runs of this machine have launchers too.
        roles = [pid for pid, name in names.items() if name == "ingot" and parents[pid] == launch.pid]
        launchers = [pid for pid, name in names.items() if name == "ingot-launcher" and parents[pid] in roles]
        ours = [launch.pid, *roles, *launchers]
        check(len(roles) == 6 and len(launchers) == 1, f"six roles and a launcher: {roles} {launchers} {names}")

        def intrude(*victims):
            return subprocess.run(["/usr/bin/python3", "-I", "-c", INTRUDER, *map(str, victims)], capture_output=True,
                                  text=True, timeout=60, cwd="/", **switch)

        victim = subprocess.Popen(["sleep", "100"], **switch)
        tried, sample = intrude(*ours), intrude(victim.pid)
        victim.kill()
        victim.wait()
        check("open: environ of sleep" in sample.stdout, f"the intruder is not able to anything: {sample}")
        check(tried.stdout.strip() == "tried 8", f"{tried}")
    finally:
        launch.terminate()
        launch.communicate(timeout=180)


if __name__ == "__main__":
    main(case_intruder)
