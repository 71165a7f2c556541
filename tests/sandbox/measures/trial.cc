#include "sandbox/measures/trial.h"

#include <arpa/inet.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "sandbox/local_substrate.h"
#include "sandbox/marked_processes.h"
#include "test_paths.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

std::string LinkOf(const std::string& path) {
  std::error_code error;
  return fs::read_symlink(path, error).string();
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "none";
}

// The folders and files of one trial, on a file system with all rights. Whatever the trial does, they go with it.
class Ground {
 public:
  Ground() {
    char name[] = "/ingot-measures-XXXXXX";
    path_ = mkdtemp(name);
    chmod(path_.c_str(), 0777);
    for (const char* const folder : {"shown", "shown/secret-folder", "outside", "outside/folder"}) {
      fs::create_directories(Path(folder));
      chmod(Path(folder).c_str(), 0777);
    }
    for (const char* const file : {"shown/secret-folder/file", "shown/secret-file", "outside/file", "outside/victim"}) {
      std::ofstream(Path(file)) << "secret";
      chmod(Path(file).c_str(), 0666);
    }
    std::ofstream(Path("closed")) << "secret";  // root may read it by a capability alone
    chmod(Path("closed").c_str(), 0);
    EXPECT_EQ(lchown(Path("closed").c_str(), kNobody, kNobody), 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    Path("shown/stream").copy(address.sun_path, sizeof(address.sun_path) - 1);
    bind(Fd(socket(AF_UNIX, SOCK_STREAM, 0)).get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
    chmod(Path("shown/stream").c_str(), 0777);
    mknod(Path("shown/device").c_str(), S_IFCHR | 0666, makedev(1, 3));
    chmod(Path("shown/device").c_str(), 0666);
  }
  ~Ground() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;
  std::string Path(const std::string& name) const { return absl::StrCat(path_, "/", name); }

 private:
  std::string path_;
};

// A listening socket of the machine.
class Listener {
 public:
  // At an abstract name; empty: at a TCP port of the loopback interface.
  explicit Listener(const std::string& name)
      : fd_(socket(name.empty() ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un local{.sun_family = AF_UNIX, .sun_path = {}};
    sockaddr_in internet{};
    internet.sin_family = AF_INET;
    internet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.copy(local.sun_path + 1, sizeof(local.sun_path) - 1);
    if (name.empty()) {
      bind(fd_.get(), reinterpret_cast<sockaddr*>(&internet), sizeof(internet));
      socklen_t size = sizeof(internet);
      getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&internet), &size);
      port_ = ntohs(internet.sin_port);
    } else {
      bind(fd_.get(), reinterpret_cast<sockaddr*>(&local),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
    }
    listen(fd_.get(), 16);
  }
  int port() const { return port_; }

 private:
  const Fd fd_;
  int port_ = 0;
};

bool IsUsers(Setting setting) {
  return setting == Setting::kUsers || setting == Setting::kLandlock || setting == Setting::kPlain;
}

// Of root, whose capabilities commands do not keep.
bool HasSharedUid(Setting setting) { return setting == Setting::kSharedUid || setting == Setting::kClosedProgram; }

// Takes the identity of the trial. Mounts that leave the wall reach no other process.
bool Become(Setting setting) {
  const gid_t other = 4242;
  const rlimit cores{RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_CORE, &cores) != 0) return false;
  if (IsUsers(setting)) return setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0;
  return setgroups(1, &other) == 0 && unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr) == 0;
}

class Trial {
 public:
  Trial(const Ground& ground, const TrialOptions& trial) : ground_(ground), trial_(trial) {}

  Lines Look() {
    const std::string mounts = Mounts();
    auto made = LocalSubstrate::Make(Options(), Rejected(), trial_.left_out);
    lines_["mounts outside"] = mounts == Mounts() ? "as before" : "changed";
    if (!made.ok()) {
      lines_["refused"] = made.status().ToString();
      return lines_;
    }
    substrate_ = *std::move(made);
    lines_["isolation"] = std::string(IsolationLevelName(substrate_->probe_result().isolation));
    const std::string launcher = absl::StrCat("/proc/", substrate_->launcher_pid());
    lines_["launcher's mounts"] = LinkOf(launcher + "/ns/mnt") == LinkOf("/proc/self/ns/mnt") ? "ours" : "its own";
    lines_["launcher's environment"] = access((launcher + "/fd").c_str(), R_OK) == 0 ? "open" : "closed";
    const absl::Status ran = RunProbe(launcher);
    if (!ran.ok()) lines_["failed"] = ran.ToString();
    const int left = shmget(IpcKey(), 0, 0);
    lines_["left shared memory"] = left >= 0 ? "there" : "gone";
    if (left >= 0) shmctl(left, IPC_RMID, nullptr);
    return lines_;
  }

 private:
  static std::string Mounts() {
    std::ostringstream text;
    text << std::ifstream("/proc/self/mountinfo").rdbuf();
    return text.str();
  }
  static int IpcKey() { return 0x20000000 + getpid() * 2; }

  SubstrateOptions Options() const {
    SubstrateOptions options;
    options.work_root = ground_.Path("work");
    options.hidden = {ground_.Path("shown/secret-folder"), ground_.Path("shown/secret-file")};
    if (trial_.setting != Setting::kProcess && !HasSharedUid(trial_.setting)) {
      options.visible = {ground_.Path("shown")};
    }
    switch (trial_.setting) {
      case Setting::kUsers:
        options.isolation = "namespaces";
        break;
      case Setting::kLandlock:
        options.isolation = "landlock";
        break;
      case Setting::kProcess:
      case Setting::kSharedUid:
      case Setting::kClosedProgram:
      case Setting::kPlain:
        options.isolation = "process";
        break;
      default:
        options.isolation = "full";
    }
    if (trial_.setting == Setting::kClosedProgram) {
      options.programs = {{.name = "program", .argv = {"/bin/cat", ground_.Path("closed")}, .path = ""}};
    }
    options.totals = {.memory_bytes = Unless("memory", int64_t{512} << 20),
                      .processes = Unless("processes", 100),
                      .cpus = trial_.unlimited == "cpus" ? 0.0 : 1.5};
    return options;
  }

  uint32_t Rejected() const {
    if (trial_.setting == Setting::kPlain) return kPidNamespace | kMountNamespace;
    return HasSharedUid(trial_.setting) ? uint32_t{kOwnUid} : 0;
  }

  int64_t Unless(const std::string& name, int64_t limit) const { return trial_.unlimited == name ? 0 : limit; }

  Limits CommandLimits() const {
    Limits limits;
    limits.wall_time = std::chrono::seconds(60);
    limits.memory_bytes = Unless("AS", int64_t{1} << 30);
    limits.open_files = Unless("NOFILE", 77);
    limits.cpu_seconds = Unless("CPU", 50);
    limits.file_bytes = Unless("FSIZE", 1 << 24);
    return limits;
  }

  absl::Status RunProbe(const std::string& launcher) {
    const Listener port(""), abstract(Abstract());
    SandboxOptions wish;
    wish.takes_snapshots = trial_.setting == Setting::kLayered;
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Sandbox> other, substrate_->Prepare(wish));
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Sandbox> sandbox, substrate_->Prepare(wish));
    std::ostringstream script;
    script << std::ifstream(INGOT_SOURCE_DIR "/tests/sandbox/measures/probe.py").rdbuf();
    INGOT_RETURN_IF_ERROR(sandbox->WriteFile("probe.py", script.str()));
    Companion companion;
    if (trial_.setting == Setting::kCompanion) {
      INGOT_ASSIGN_OR_RETURN(companion, BeginCompanion(*sandbox));
    }
    Command command{.argv = {"python3", "probe.py"},
                    .env = {{"PATH", "/usr/bin:/bin"},
                            {"SHOWN", ground_.Path("shown")},
                            {"OUTSIDE", ground_.Path("outside")},
                            {"SECRET_FOLDER", ground_.Path("shown/secret-folder")},
                            {"SECRET_FILE", ground_.Path("shown/secret-file")},
                            {"WORK_ROOT", ground_.Path("work")},
                            {"TMP", sandbox->tmp()},
                            {"OWNER", absl::StrCat(getpid())},
                            {"PORT", absl::StrCat(port.port())},
                            {"ABSTRACT", Abstract()},
                            {"IPC_KEY", absl::StrCat(IpcKey())},
                            {"COMPANION", companion_.sleep()},
                            {"LAUNCHER_MNT", LinkOf(launcher + "/ns/mnt")}},
                    .working_dir = sandbox->work(),
                    .stdin_text = ""};
    for (const std::string space : {"pid", "mnt", "net", "ipc", "uts", "user"}) {
      command.env["NS_" + space] = LinkOf("/proc/self/ns/" + space);
    }
    INGOT_ASSIGN_OR_RETURN(const Outcome outcome, sandbox->Run(command, CommandLimits(), nullptr));
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(outcome.out, '\n'))) {
      const size_t equals = line.find('=');
      if (equals != std::string::npos) lines_[line.substr(0, equals)] = line.substr(equals + 1);
    }
    if (!outcome.ok()) lines_["probe"] = Describe(outcome, CommandLimits()) + outcome.err;
    NoteGroups();
    return absl::OkStatus();
  }

  absl::StatusOr<Companion> BeginCompanion(Sandbox& sandbox) const {
    const std::string script =
        absl::StrCat("import ctypes, os; ctypes.CDLL(None).shmget(", IpcKey() + 1,
                     ", 4096, 0o1666); open('/dev/shm/companion', 'w'); open('begun', 'w'); os.execv('/bin/sleep', "
                     "['sleep', '",
                     companion_.sleep(), "'])");
    INGOT_ASSIGN_OR_RETURN(Companion companion, sandbox.StartCompanion({.argv = {"python3", "-c", script},
                                                                        .env = {{"PATH", "/usr/bin:/bin"}},
                                                                        .working_dir = sandbox.work(),
                                                                        .stdin_text = ""},
                                                                       CommandLimits()));
    pollfd gone{companion.input.get(), 0, 0};
    while (companion_.Count() == 0 && poll(&gone, 1, 5) == 0) continue;
    return companion;
  }

  static std::string Abstract() { return absl::StrCat("ingot-measures-", getpid()); }

  // The values of the sandbox's control groups.
  void NoteGroups() {
    const std::pair<const char*, std::vector<const char*>> files[] = {
        {"memory", {"memory.limit_in_bytes", "memory.max"}},
        {"pids", {"pids.max", "pids.max"}},
        {"cpu", {"cpu.cfs_quota_us", "cpu.max"}}};
    for (const auto& [controller, names] : files) {
      const std::string one = absl::StrCat("cgroup of ", controller);
      const bool is_first = lines_.contains(one) && lines_[one] != "/";
      const std::string folder = is_first ? absl::StrCat("/sys/fs/cgroup/", controller, lines_[one])
                                          : absl::StrCat("/sys/fs/cgroup", lines_["cgroup of "]);
      lines_[absl::StrCat("group ", controller)] = FirstLine(absl::StrCat(folder, "/", names[is_first ? 0 : 1]));
    }
  }

  const Ground& ground_;
  const TrialOptions trial_;
  const MarkedProcesses companion_;
  std::unique_ptr<LocalSubstrate> substrate_;
  Lines lines_;
};

}  // namespace

Lines LookAt(const TrialOptions& trial) {
  const Ground ground;
  const std::string file = ground.Path("lines");
  std::ofstream lines(file);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (!Become(trial.setting)) _exit(1);
    for (const auto& [name, value] : Trial(ground, trial).Look()) lines << name << "=" << value << "\n";
    lines.close();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  Lines seen;
  std::ifstream written(file);
  for (std::string line; std::getline(written, line);) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) seen[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return seen;
}

}  // namespace ingot::sandbox
