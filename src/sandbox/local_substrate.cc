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

absl::StatusOr<std::unique_ptr<LocalSubstrate>> LocalSubstrate::Make(const SubstrateOptions& options, uint32_t refused,
                                                                     Measure left_out) {
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
  substrate->ground_.left_out = left_out;
  substrate->ground_.work_root = Canonical(options.work_root);
  std::ifstream users("/etc/passwd");
  for (std::string line; std::getline(users, line);) absl::StrAppend(&substrate->ground_.known_users, line, "\n");
  INGOT_RETURN_IF_ERROR(substrate->Probe(refused));
  if (options.pool > 0) {
    substrate->pool_ = std::make_unique<RoomPool>(
        static_cast<size_t>(options.pool),
        [&ground = substrate->ground_](const RoomOptions& wish) { return LocalRoom::Make(ground, wish); });
  }
  return substrate;
}

absl::StatusOr<std::unique_ptr<Room>> LocalSubstrate::Prepare(const RoomOptions& options) {
  if (pool_ != nullptr && RoomPool::Holds(options)) {
    if (std::unique_ptr<Room> room = pool_->Take(options)) return room;
  }
  return LocalRoom::Make(ground_, options);
}

}  // namespace ingot::sandbox
