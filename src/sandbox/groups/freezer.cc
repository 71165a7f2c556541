#include "sandbox/groups/freezer.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/log.h"

namespace ingot::sandbox {
namespace {

// Time that a version 1 group may be FREEZING before FROZEN is written again.
constexpr std::chrono::milliseconds kOneTry{20};

const char* StateFile(int version) { return version == 2 ? "/cgroup.freeze" : "/freezer.state"; }

}  // namespace

ScopedFreeze::~ScopedFreeze() {
  if (freezer_ != nullptr && !freezer_->Set(false)) {
    INGOT_LOG(error, "cannot thaw the processes in {}: {}", freezer_->folder_, std::strerror(errno));
  }
}

bool Freezer::Set(bool frozen) const {
  const std::string_view text = version_ == 2 ? (frozen ? "1" : "0") : (frozen ? "FROZEN" : "THAWED");
  return pwrite(state_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

bool Freezer::IsFrozen() const {
  std::ifstream file(folder_ + (version_ == 2 ? "/cgroup.events" : "/freezer.state"));
  for (std::string word; file >> word;) {
    if (version_ == 1) return word == "FROZEN";  // FREEZING = not yet
    int value = 0;
    if (word == "frozen" && file >> value) return value == 1;
  }
  return false;
}

bool Freezer::IsLetGo() const {
  char state[16] = {};
  const ssize_t size = pread(state_.get(), state, sizeof(state) - 1, 0);
  return size > 0 && std::string_view(state).starts_with(version_ == 2 ? "0" : "THAWED");
}

absl::StatusOr<ScopedFreeze> Freezer::Freeze(std::chrono::milliseconds timeout) const {
  if (!Set(true)) return ErrnoStatus(errno, absl::StrCat("cannot write ", folder_, StateFile(version_)));
  ScopedFreeze still(*this);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto again = std::chrono::steady_clock::now() + kOneTry;
  while (!IsFrozen()) {
    if (IsLetGo()) return absl::UnavailableError("the command ended while the snapshot was starting: take it again");
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) {
      return absl::UnavailableError(
          absl::StrCat("a process of the sandbox did not freeze within ", timeout.count(),
                       " ms, perhaps because it is waiting for a disk. Take the snapshot again (", folder_,
                       StateFile(version_), ")"));
    }
    // The kernel signals each process once per write. A process that starts in between may miss it, so this writes
    // again.
    if (version_ == 1 && now >= again) {
      Set(true);
      again = now + kOneTry;
    }
    poll(nullptr, 0, 1);
  }
  return still;
}

Freezer::~Freezer() {
  if (state_.valid()) Set(false);
  entrance_.Reset();
  state_.Reset();
  RemoveGroup(folder_);
}

absl::StatusOr<std::unique_ptr<Freezers>> Freezers::MakeVersion(int version, const GroupTree& tree) {
  INGOT_ASSIGN_OR_RETURN(const std::string own, OwnGroup(tree, version == 2 ? "" : "freezer"));
  INGOT_ASSIGN_OR_RETURN(std::string sandboxes, MakeSandboxesGroup(tree, own));
  return std::unique_ptr<Freezers>(new Freezers(tree, version, std::move(sandboxes)));
}

absl::StatusOr<std::unique_ptr<Freezers>> Freezers::Make(int totals, int only, GroupTree tree) {
  if (totals == 2) return std::unique_ptr<Freezers>(new Freezers(std::move(tree), 2, ""));
  std::string why;
  for (const int version : {2, 1}) {
    if (only != 0 && version != only) continue;
    auto made = MakeVersion(version, tree);
    // Version 2 groups have the file since Linux 5.2.
    const absl::Status tried = made.ok() ? (*made)->NewFreezer(nullptr).status() : made.status();
    if (tried.ok()) return made;
    absl::StrAppend(&why, why.empty() ? "" : "; ", "version ", version, ": ", tried.message());
  }
  return absl::FailedPreconditionError(why);
}

Freezers::~Freezers() {
  if (!folder_.empty()) rmdir(folder_.c_str());
}

absl::StatusOr<std::unique_ptr<Freezer>> Freezers::NewFreezer(const ControlGroup* totals) {
  std::unique_ptr<Freezer> freezer(new Freezer(version_));
  const std::string folder =
      folder_.empty() ? absl::StrCat(totals->folder2(), "/", kCommandsGroup) : absl::StrCat(folder_, "/", next_++);
  if (!MakeGroup(tree_, folder)) return ErrnoStatus(errno, absl::StrCat("cannot create the control group ", folder));
  freezer->folder_ = folder;
  freezer->entrance_ = Fd(open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  freezer->state_ = Fd(open((folder + StateFile(version_)).c_str(), O_RDWR | O_CLOEXEC));
  if (freezer->entrance_.valid() && freezer->state_.valid()) return freezer;
  return ErrnoStatus(errno, absl::StrCat("cannot open ", folder, StateFile(version_)));
}

}  // namespace ingot::sandbox
