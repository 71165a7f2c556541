#include "sandbox/disk_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "sandbox/trees/tree_walk.h"

namespace ingot::sandbox {
namespace {

constexpr uint64_t kMinFreeBytes = 1 << 20;
// Processes normally receive a passed descriptor immediately, but a check may by chance see one in flight.
constexpr int kMaxChecksInFlight = 3;

// Folders that appear or disappear during the count are not errors.
class TreeCounter : public TreeVisitor {
 public:
  // `opens`: true = also count the contents of folders that their owner has made inaccessible.
  TreeCounter(const DiskLimits& limits, bool opens, const DeletedFiles& deleted)
      : limits_(limits), opens_(opens), bytes_(deleted.bytes), files_(deleted.files) {}

  absl::Status File(int /*folder*/, const std::string& /*name*/, const struct stat& info) override {
    return Count(info);
  }
  absl::Status Found(const struct stat& folder) override { return Count(folder); }
  absl::Status Enter(int parent, const std::string& name, const struct stat& info) override {
    if (opens_ && IsClosed(info)) fchmodat(parent, name.c_str(), info.st_mode | 0500, AT_SYMLINK_NOFOLLOW);
    return absl::OkStatus();
  }
  absl::Status Leave(int folder, const struct stat& info) override {
    if (opens_ && IsClosed(info)) fchmod(folder, info.st_mode & 07777);
    return absl::OkStatus();
  }
  absl::Status Failed(const std::string& /*name*/) override { return absl::OkStatus(); }
  bool exceeds() const {
    return (limits_.bytes > 0 && bytes_ > limits_.bytes) || (limits_.files > 0 && files_ > limits_.files);
  }

 private:
  absl::Status Count(const struct stat& info) {
    bytes_ += int64_t{info.st_blocks} * 512;
    ++files_;
    return exceeds() ? absl::ResourceExhaustedError("more than the limit") : absl::OkStatus();
  }

  const DiskLimits limits_;
  const bool opens_;
  int64_t bytes_, files_;
};

}  // namespace

bool IsFull(const std::string& folder) {
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) return false;
  // File systems without a limit on blocks or files report 0 of 0.
  const bool has_blocks = info.f_blocks > 0, has_files = info.f_files > 0;
  return (has_blocks && uint64_t{info.f_bavail} * info.f_frsize < kMinFreeBytes) || (has_files && info.f_favail == 0);
}

std::optional<Ending> DiskWatch::Fault(SteadyClock::time_point now) {
  if (now < next_) return std::nullopt;
  const bool is_limited = limits_.bytes > 0 || limits_.files > 0;
  const DeletedFiles deleted = is_limited ? FindDeletedFiles(sandbox_, folder_.c_str()) : DeletedFiles();
  checks_in_flight_ = deleted.in_flight > 0 ? checks_in_flight_ + 1 : 0;
  const auto fault = checks_in_flight_ >= kMaxChecksInFlight ? std::optional(Ending::kDiskFull) : Check(false, deleted);
  const auto took = SteadyClock::now() - now;
  next_ = SteadyClock::now() + std::max<SteadyClock::duration>(std::chrono::seconds(1), 5 * took);
  return fault;
}

std::optional<Ending> DiskWatch::FaultAtEnd() const { return Check(true, {}); }

std::optional<Ending> DiskWatch::Check(bool opens, const DeletedFiles& deleted) const {
  if (limits_.bytes > 0 || limits_.files > 0) {
    TreeCounter counter(limits_, opens, deleted);
    if (counter.exceeds() || !WalkTree(folder_, counter).ok()) return Ending::kDiskFull;
  }
  return IsFull(folder_) ? std::optional(Ending::kNoSpace) : std::nullopt;
}

}  // namespace ingot::sandbox
