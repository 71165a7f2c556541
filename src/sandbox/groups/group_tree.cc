#include "sandbox/groups/group_tree.h"

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
#include <vector>

#include "absl/strings/str_split.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ingot-";

struct Mount {
  std::string top;    // path of the mounted hierarchy
  std::string point;  // mount point
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

// Returns this process's group for a controller; empty controller = version 2.
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
  return fs::is_directory(folder, error) ? folder : mount.point;  // the path is from another namespace
}

// The process that froze the sandbox may have been killed. Frozen processes exit after they are thawed, because their
// sandbox's socket is closed.
void RemoveStaleSandbox(const std::string& sandbox) {
  for (const std::string& folder : {absl::StrCat(sandbox, "/", kCommandsGroup), sandbox}) {
    WriteGroupFile(folder + "/cgroup.freeze", "0").IgnoreError();
    WriteGroupFile(folder + "/freezer.state", "THAWED").IgnoreError();
    rmdir(folder.c_str());
  }
}

// Removes the groups of killed processes.
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
      if (it->is_directory(error)) RemoveStaleSandbox(it->path().string());
    }
    rmdir(group.c_str());
  }
}

// An earlier object may have moved this process to a leaf. Creating groups below the leaf would nest them without
// limit.
std::string WithoutLeaf(std::string path, const std::string& controller) {
  while (controller.empty() && path.ends_with(kLeafGroup)) path.resize(path.size() - kLeafGroup.size());
  return path.empty() ? "/" : path;
}

}  // namespace

absl::Status WriteGroupFile(const std::string& path, const std::string& value) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  if (write(file.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size())) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot write '", value, "' to ", path));
}

absl::StatusOr<std::string> OwnGroup(const GroupTree& tree, const std::string& controller) {
  const std::vector<Mount> mounts = GroupMounts(tree.root);
  const auto mount = std::find_if(mounts.begin(), mounts.end(), [&](const Mount& each) {
    if (controller.empty() || each.is_version2) return controller.empty() && each.is_version2;
    return std::find(each.options.begin(), each.options.end(), controller) != each.options.end();
  });
  const auto path = OwnPath(tree.root, controller);
  if (mount != mounts.end() && path.has_value()) return OwnFolder(*mount, WithoutLeaf(*path, controller));
  return absl::FailedPreconditionError(
      controller.empty() ? "it is not mounted" : absl::StrCat("the controller ", controller, " is not mounted"));
}

bool MakeGroup(const GroupTree& tree, const std::string& folder) {
  if (mkdir(folder.c_str(), 0755) != 0) return false;
  if (tree.fill != nullptr) tree.fill(folder);
  return true;
}

absl::StatusOr<std::string> MakeSandboxesGroup(const GroupTree& tree, const std::string& own) {
  RemoveStaleGroups(own);
  static std::atomic<uint64_t> next{0};  // a process may have several objects
  std::string made = absl::StrCat(own, "/", base::View(kPrefix), getpid(), "-", next++);
  if (MakeGroup(tree, made) || errno == EEXIST) return made;
  return ErrnoStatus(errno, absl::StrCat("cannot create the control group ", made));
}

void RemoveGroup(const std::string& folder) {
  for (int tries = 0; rmdir(folder.c_str()) != 0 && errno == EBUSY && tries < 200; ++tries) poll(nullptr, 0, 1);
}

}  // namespace ingot::sandbox
