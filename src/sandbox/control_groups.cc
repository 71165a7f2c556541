#include "sandbox/control_groups.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/str_split.h"
#include "base/log.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr const char* kControllers[] = {"memory", "pids", "cpu"};
constexpr std::string_view kPrefix = "ingot-";
constexpr int kPeriodUs = 100'000;  // of CPU shares

absl::Status WriteValue(const std::string& path, const std::string& value) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  if (write(file.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size())) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot write '", value, "' into ", path));
}

struct Mount {
  std::string top;    // the path of the hierarchy that is mounted
  std::string point;  // where
  bool is_version2 = false;
  std::vector<std::string> options;
};

std::vector<Mount> GroupMounts(const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // ID PARENT MAJOR:MINOR TOP POINT OPTIONS.. - TYPE SOURCE SUPER-OPTIONS
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    if (dash[1] != "cgroup" && dash[1] != "cgroup2") continue;
    mounts.push_back({words[3], root + words[4], dash[1] == "cgroup2", absl::StrSplit(dash[3], ',')});
  }
  return mounts;
}

// This process's group of a controller, "" = of version 2.
std::optional<std::string> OwnPath(const std::string& root, const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> names = absl::StrSplit(parts[1], ',');
    if (std::find(names.begin(), names.end(), controller) != names.end()) return parts[2];
  }
  return std::nullopt;
}

std::string OwnFolder(const Mount& mount, const std::string& path) {
  const std::string below = mount.top != "/" && path.starts_with(mount.top) ? path.substr(mount.top.size()) : path;
  const std::string folder = mount.point + (below == "/" ? "" : below);
  std::error_code error;
  return fs::is_directory(folder, error) ? folder : mount.point;  // the path is of another namespace
}

// Groups of processes that were killed.
void RemoveStaleGroups(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> stale;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    int pid = 0;
    if (!name.starts_with(kPrefix)) continue;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), pid);
    if (pid > 0 && pid != getpid() && kill(pid, 0) != 0 && errno == ESRCH) stale.push_back(it->path().string());
  }
  for (const std::string& group : stale) {
    for (fs::directory_iterator it(group, error), end; !error && it != end; it.increment(error)) {
      if (it->is_directory(error)) rmdir(it->path().c_str());
    }
    rmdir(group.c_str());
  }
}

// This process and its children in a group of version 2, such as a launcher that the probe started.
std::vector<int> OwnProcesses(const std::string& root, const std::string& folder) {
  std::vector<int> own = {getpid()};
  std::ifstream file(folder + "/cgroup.procs");
  for (int pid = 0; file >> pid;) {
    std::ifstream status(absl::StrCat(root, "/proc/", pid, "/status"));
    for (std::string line; std::getline(status, line);) {
      if (line == absl::StrCat("PPid:\t", getpid())) own.push_back(pid);
    }
  }
  return own;
}

std::string Value(int64_t limit, const char* none) { return limit > 0 ? absl::StrCat(limit) : none; }

absl::Status SetLimits(int version, const std::string& controller, const std::string& folder,
                       const GroupLimits& limits) {
  if (controller == "memory") {
    if (limits.memory_bytes == 0) return absl::OkStatus();
    const std::string bytes = absl::StrCat(limits.memory_bytes);
    if (version == 2) {
      INGOT_RETURN_IF_ERROR(WriteValue(folder + "/memory.max", bytes));
      WriteValue(folder + "/memory.swap.max", "0").IgnoreError();
      return absl::OkStatus();
    }
    INGOT_RETURN_IF_ERROR(WriteValue(folder + "/memory.limit_in_bytes", bytes));
    WriteValue(folder + "/memory.memsw.limit_in_bytes", bytes).IgnoreError();  // a kernel may have no such file
    return absl::OkStatus();
  }
  if (controller == "pids") return WriteValue(folder + "/pids.max", Value(limits.processes, "max"));
  if (limits.cpus <= 0) return absl::OkStatus();
  const auto quota = std::max<int64_t>(1000, static_cast<int64_t>(limits.cpus * kPeriodUs));
  if (version == 2) return WriteValue(folder + "/cpu.max", absl::StrCat(quota, " ", kPeriodUs));
  INGOT_RETURN_IF_ERROR(WriteValue(folder + "/cpu.cfs_period_us", absl::StrCat(kPeriodUs)));
  return WriteValue(folder + "/cpu.cfs_quota_us", absl::StrCat(quota));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlGroups>> ControlGroups::Make(GroupTree tree) {
  std::unique_ptr<ControlGroups> groups(new ControlGroups(std::move(tree)));
  const absl::Status one = groups->FindVersion1();
  if (one.ok()) return groups;
  const absl::Status two = groups->FindVersion2();
  if (two.ok()) return groups;
  return absl::FailedPreconditionError(absl::StrCat("version 1: ", one.message(), "; version 2: ", two.message()));
}

ControlGroups::~ControlGroups() {
  for (const Controller& controller : controllers_) rmdir(controller.folder.c_str());
}

bool ControlGroups::MakeFolder(const std::string& folder) const {
  if (mkdir(folder.c_str(), 0755) != 0) return false;
  if (tree_.fill != nullptr) tree_.fill(folder);
  return true;
}

absl::StatusOr<std::string> ControlGroups::MakeOwnGroup(const std::string& folder) const {
  RemoveStaleGroups(folder);
  static std::atomic<uint64_t> next{0};  // a process may have several objects
  std::string own = absl::StrCat(folder, "/", base::View(kPrefix), getpid(), "-", next++);
  if (MakeFolder(own) || errno == EEXIST) return own;
  return ErrnoStatus(errno, absl::StrCat("cannot make the control group ", own));
}

absl::Status ControlGroups::FindVersion1() {
  version_ = 1;
  const std::vector<Mount> mounts = GroupMounts(tree_.root);
  std::vector<Controller> found;
  for (const std::string name : kControllers) {
    const auto mount = std::find_if(mounts.begin(), mounts.end(), [&](const Mount& each) {
      return !each.is_version2 && std::find(each.options.begin(), each.options.end(), name) != each.options.end();
    });
    const auto path = OwnPath(tree_.root, name);
    if (mount == mounts.end() || !path.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat("the controller ", name, " is not mounted"));
    }
    INGOT_ASSIGN_OR_RETURN(std::string own, MakeOwnGroup(OwnFolder(*mount, *path)));
    found.push_back({name, std::move(own)});
  }
  controllers_ = std::move(found);
  return absl::OkStatus();
}

absl::Status ControlGroups::FindVersion2() {
  version_ = 2;
  const std::vector<Mount> mounts = GroupMounts(tree_.root);
  const auto mount = std::find_if(mounts.begin(), mounts.end(), [](const Mount& each) { return each.is_version2; });
  const auto path = OwnPath(tree_.root, "");
  if (mount == mounts.end() || !path.has_value()) return absl::FailedPreconditionError("it is not mounted");
  const std::string folder = OwnFolder(*mount, *path);
  const std::string all = "+memory +pids +cpu";
  INGOT_ASSIGN_OR_RETURN(const std::string own, MakeOwnGroup(folder));
  // A group with processes of its own passes no controller on, unless it is the root: they move into a leaf.
  if (!WriteValue(folder + "/cgroup.subtree_control", all).ok()) {
    const std::string leaf = folder + "/ingot-main";
    if (!MakeFolder(leaf) && errno != EEXIST) {
      return ErrnoStatus(errno, absl::StrCat("cannot make the control group ", leaf));
    }
    for (const int pid : OwnProcesses(tree_.root, folder)) {
      INGOT_RETURN_IF_ERROR(WriteValue(leaf + "/cgroup.procs", absl::StrCat(pid)));
    }
    INGOT_RETURN_IF_ERROR(WriteValue(folder + "/cgroup.subtree_control", all));
  }
  INGOT_RETURN_IF_ERROR(WriteValue(own + "/cgroup.subtree_control", all));
  for (const char* const name : kControllers) controllers_.push_back({name, own});
  return absl::OkStatus();
}

absl::StatusOr<ControlGroup> ControlGroups::NewGroup(const GroupLimits& limits) {
  ControlGroup group;
  const uint64_t number = next_++;
  for (const Controller& controller : controllers_) {
    const std::string folder = absl::StrCat(controller.folder, "/", number);
    const bool is_new = std::find(group.folders_.begin(), group.folders_.end(), folder) == group.folders_.end();
    if (is_new) {
      if (!MakeFolder(folder)) return ErrnoStatus(errno, absl::StrCat("cannot make the control group ", folder));
      group.folders_.push_back(folder);
      Fd entrance(open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
      if (!entrance.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", folder, "/cgroup.procs"));
      group.entrances_.push_back(std::move(entrance));
    }
    if (controller.name == "memory") group.memory_folder_ = folder;
    INGOT_RETURN_IF_ERROR(SetLimits(version_, controller.name, folder, limits));
  }
  return group;
}

ControlGroup::~ControlGroup() {
  entrances_.clear();
  for (const std::string& folder : folders_) {
    // Processes that were killed may need a moment to leave.
    for (int tries = 0; rmdir(folder.c_str()) != 0 && errno == EBUSY && tries < 200; ++tries) poll(nullptr, 0, 1);
  }
}

int64_t ControlGroup::MemoryKills() const {
  for (const char* const name : {"/memory.oom_control", "/memory.events"}) {
    std::ifstream file(memory_folder_ + name);
    for (std::string word; file >> word;) {
      int64_t count = 0;
      if (word == "oom_kill" && file >> count) return count;
    }
  }
  return 0;
}

}  // namespace ingot::sandbox
