#include "sandbox/local_substrate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "sandbox/reach.h"
#include "sandbox/workdir.h"

namespace ingot::sandbox {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<LocalSubstrate>> LocalSubstrate::Make(const SubstrateOptions& options,
                                                                     uint32_t refused) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_RETURN_IF_ERROR(CheckNotHidden(options));
  std::error_code error;
  fs::create_directories(options.work_root, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make agents.work_root ", options.work_root, ": ", error.message()));
  }
  if (!options.images.empty()) fs::create_directories(options.images, error);
  if (const int removed = RemoveStale(options.work_root); removed > 0) {
    INGOT_LOG(info, "removed {} work folders that an earlier run left in {}", removed, options.work_root);
  }
  struct stat info;
  if (stat(options.work_root.c_str(), &info) == 0 && info.st_uid != geteuid() && info.st_uid != 0) {
    return absl::FailedPreconditionError(absl::StrCat("agents.work_root ", options.work_root, " belongs to uid ",
                                                      info.st_uid, ", who could change agents' files: name another"));
  }
  std::unique_ptr<LocalSubstrate> substrate(new LocalSubstrate(options));
  substrate->ground_.work_root = Canonical(options.work_root);
  std::ifstream users("/etc/passwd");
  for (std::string line; std::getline(users, line);) absl::StrAppend(&substrate->ground_.known_users, line, "\n");
  INGOT_RETURN_IF_ERROR(substrate->Probe(refused));
  if (options.pool > 0) substrate->StartPool();
  return substrate;
}

LocalSubstrate::~LocalSubstrate() {
  {
    base::MutexLock lock(mu_);
    ends_ = true;
    changed_.SignalAll();
  }
  if (filler_.joinable()) filler_.join();
  base::MutexLock lock(mu_);
  ready_.clear();
}

void LocalSubstrate::StartPool() {
  filler_ = std::thread([this] { FillPool(); });
}

void LocalSubstrate::FillPool() {
  std::chrono::milliseconds pause(0);
  while (true) {
    {
      base::MutexLock lock(mu_);
      if (pause.count() > 0) base::Clock::Real().WaitUntil(changed_, mu_, base::Clock::Real().Now() + pause);
      while (!ends_ && ready_.size() >= static_cast<size_t>(ground_.options.pool)) changed_.Wait(mu_);
      if (ends_) return;
    }
    auto room = LocalRoom::Make(ground_, RoomOptions());
    // Whoever asks for a room meanwhile gets the error itself.
    pause = std::chrono::milliseconds(room.ok() ? 0 : 500);
    if (!room.ok()) continue;
    base::MutexLock lock(mu_);
    ready_.push_back(*std::move(room));
  }
}

std::unique_ptr<Room> LocalSubstrate::TakeReady() {
  base::MutexLock lock(mu_);
  if (ready_.empty()) return nullptr;
  std::unique_ptr<Room> room = std::move(ready_.front());
  ready_.pop_front();
  changed_.SignalAll();
  return room;
}

absl::StatusOr<std::unique_ptr<Room>> LocalSubstrate::Prepare(const RoomOptions& options) {
  const bool is_plain = options.image.empty() && options.binds.empty() && options.from == nullptr &&
                        !options.takes_snapshots && options.totals == GroupLimits() && options.disk == DiskLimits();
  if (is_plain) {
    if (std::unique_ptr<Room> room = TakeReady()) return room;
  }
  return LocalRoom::Make(ground_, options);
}

}  // namespace ingot::sandbox
