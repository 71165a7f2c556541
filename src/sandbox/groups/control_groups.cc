#include "sandbox/groups/control_groups.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

namespace ingot::sandbox {
namespace {

constexpr const char* kControllers[] = {"memory", "pids", "cpu"};
constexpr int kPeriodUs = 100'000;  // period of CPU shares

// Returns this process and its children, such as the probe's launcher, that are in a version 2 group.
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
      INGOT_RETURN_IF_ERROR(WriteGroupFile(folder + "/memory.max", bytes));
      WriteGroupFile(folder + "/memory.swap.max", "0").IgnoreError();
      return absl::OkStatus();
    }
    INGOT_RETURN_IF_ERROR(WriteGroupFile(folder + "/memory.limit_in_bytes", bytes));
    WriteGroupFile(folder + "/memory.memsw.limit_in_bytes", bytes).IgnoreError();  // some kernels lack this file
    return absl::OkStatus();
  }
  if (controller == "pids") return WriteGroupFile(folder + "/pids.max", Value(limits.processes, "max"));
  if (limits.cpus <= 0) return absl::OkStatus();
  const auto quota = std::max<int64_t>(1000, static_cast<int64_t>(limits.cpus * kPeriodUs));
  if (version == 2) return WriteGroupFile(folder + "/cpu.max", absl::StrCat(quota, " ", kPeriodUs));
  INGOT_RETURN_IF_ERROR(WriteGroupFile(folder + "/cpu.cfs_period_us", absl::StrCat(kPeriodUs)));
  return WriteGroupFile(folder + "/cpu.cfs_quota_us", absl::StrCat(quota));
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

absl::Status ControlGroups::FindVersion1() {
  version_ = 1;
  std::vector<Controller> found;
  for (const std::string name : kControllers) {
    INGOT_ASSIGN_OR_RETURN(const std::string own, OwnGroup(tree_, name));
    INGOT_ASSIGN_OR_RETURN(std::string sandboxes, MakeSandboxesGroup(tree_, own));
    found.push_back({name, std::move(sandboxes)});
  }
  controllers_ = std::move(found);
  return absl::OkStatus();
}

absl::Status ControlGroups::FindVersion2() {
  version_ = 2;
  INGOT_ASSIGN_OR_RETURN(const std::string folder, OwnGroup(tree_, ""));
  const std::string all = "+memory +pids +cpu";
  INGOT_ASSIGN_OR_RETURN(const std::string own, MakeSandboxesGroup(tree_, folder));
  // A group with processes cannot delegate controllers unless it is the root, so its processes move to a leaf.
  if (!WriteGroupFile(folder + "/cgroup.subtree_control", all).ok()) {
    const std::string leaf = absl::StrCat(folder, base::View(kLeafGroup));
    if (!MakeGroup(tree_, leaf) && errno != EEXIST) {
      return ErrnoStatus(errno, absl::StrCat("cannot create the control group ", leaf));
    }
    for (const int pid : OwnProcesses(tree_.root, folder)) {
      INGOT_RETURN_IF_ERROR(WriteGroupFile(leaf + "/cgroup.procs", absl::StrCat(pid)));
    }
    INGOT_RETURN_IF_ERROR(WriteGroupFile(folder + "/cgroup.subtree_control", all));
  }
  INGOT_RETURN_IF_ERROR(WriteGroupFile(own + "/cgroup.subtree_control", all));
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
      if (!MakeGroup(tree_, folder))
        return ErrnoStatus(errno, absl::StrCat("cannot create the control group ", folder));
      group.folders_.push_back(folder);
      Fd entrance(open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
      if (!entrance.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", folder, "/cgroup.procs"));
      group.entrances_.push_back(std::move(entrance));
    }
    if (controller.name == "memory") group.memory_folder_ = folder;
    if (version_ == 2) group.folder2_ = folder;
    INGOT_RETURN_IF_ERROR(SetLimits(version_, controller.name, folder, limits));
  }
  return group;
}

ControlGroup::~ControlGroup() {
  entrances_.clear();
  for (const std::string& folder : folders_) RemoveGroup(folder);
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
