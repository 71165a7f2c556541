// What a hostile build tries, as a static program: build_attack SECRET OUTSIDE PID PORT DEVICE. It leaves its root folder by chroot
// first, and then prints a line per attack, "NAME done" or "NAME refused: why".
//
//   SECRET   a file of the machine that root alone may read     PID    a process of the machine
//   OUTSIDE  a path of the machine that is not there yet        PORT   of a server on the machine's loopback interface
//   DEVICE   number of the disk that the machine's files are on
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

void Say(const char* name, bool done) {
  if (done) {
    printf("%s done\n", name);
  } else {
    printf("%s refused: %s\n", name, strerror(errno));
  }
}

// chroot(2) leaves the working folder where it is, and root may go up from there.
void LeaveRoot() {
  const int here = open(".", O_RDONLY | O_DIRECTORY);
  mkdir("below", 0700);
  if (chroot("below") != 0 || fchdir(here) != 0) return Say("chroot", false);
  for (int i = 0; i < 64; ++i) {
    if (chdir("..") != 0) break;
  }
  Say("chroot", chroot(".") == 0);
}

bool Reads(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  char byte;
  return fd >= 0 && read(fd, &byte, 1) == 1;
}

bool Connects(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

void TryFiles(const std::string& secret, const std::string& outside) {
  Say("secret", Reads(secret));
  for (const char* const way : {"/proc/1/root", "/proc/2/root", "/proc/self/root", "/proc/1/cwd"})
    Say((std::string("secret by ") + way).c_str(), Reads(way + secret));
  Say("shadow", Reads("/etc/shadow"));
  Say("environment of process 1", Reads("/proc/1/environ"));
  Say("write", open(outside.c_str(), O_WRONLY | O_CREAT, 0666) >= 0);
  Say("write to programs", open("/usr/bin/ingot-attack", O_WRONLY | O_CREAT, 0666) >= 0);
  Say("write to the kernel", open("/proc/sys/kernel/core_pattern", O_WRONLY) >= 0);
  Say("host of sysrq", open("/proc/sysrq-trigger", O_WRONLY) >= 0);
  Say("handle", syscall(SYS_open_by_handle_at, AT_FDCWD, nullptr, O_RDONLY) == 0);
}

void TryDevices(dev_t device) {
  const bool made = mknod("/tmp/disk", S_IFBLK | 0600, device) == 0;
  Say("device", made);
  if (made) Say("disk", Reads("/tmp/disk"));
  Say("mount of the disk", mount("/tmp/disk", "/tmp", "ext4", 0, nullptr) == 0);
  Say("writable programs", mount(nullptr, "/usr", nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0);
  Say("devices", mount(nullptr, "/.image", nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0);
  Say("what /proc covers", umount2("/proc", MNT_DETACH) == 0);
  Say("a file system of the machine's network", mount("sysfs", "/tmp", "sysfs", 0, nullptr) == 0);
}

void TryProcesses(pid_t pid) {
  Say("kill", kill(pid, SIGKILL) == 0);
  Say("kill of process 1", kill(1, SIGKILL) == 0);
  Say("trace of process 1", ptrace(PTRACE_ATTACH, 1, nullptr, nullptr) == 0);
}

void TryNetwork(int port) {
  Say("loopback", Connects(port));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  ifreq loopback{};
  strcpy(loopback.ifr_name, "lo");
  Say("interfaces", ioctl(fd, SIOCSIFFLAGS, &loopback) == 0);
  Say("raw socket", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0);
  Say("packet socket", socket(AF_PACKET, SOCK_RAW, 0) >= 0);
  Say("netlink", socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
  Say("vsock", socket(AF_VSOCK, SOCK_STREAM, 0) >= 0);
}

void TryKernel() {
  union bpf_attr attributes{};
  Say("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof(attributes)) >= 0);
  Say("keyctl", syscall(SYS_keyctl, 0, -3, 1) >= 0);
  Say("io_uring", syscall(SYS_io_uring_setup, 1, nullptr) >= 0 || errno == EFAULT);
  Say("userfaultfd", syscall(SYS_userfaultfd, 0) >= 0);
  Say("perf", syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0) >= 0 || errno == EFAULT);
  Say("module", syscall(SYS_finit_module, -1, "", 0) == 0 || errno == EBADF);
  Say("kexec", syscall(SYS_kexec_load, 0, 0, nullptr, 0) == 0);
  Say("user namespace", unshare(CLONE_NEWUSER) == 0);
  Say("network namespace", unshare(CLONE_NEWNET) == 0);
  Say("host name", sethostname("taken", 5) == 0);
  Say("clock", syscall(SYS_clock_settime, CLOCK_REALTIME, nullptr) == 0 || errno == EFAULT);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  LeaveRoot();
  TryFiles(argv[1], argv[2]);
  TryProcesses(atoi(argv[3]));
  TryNetwork(atoi(argv[4]));
  TryDevices(strtoull(argv[5], nullptr, 10));
  TryKernel();
  return 0;
}
