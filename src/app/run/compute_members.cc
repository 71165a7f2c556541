#include "app/run/compute_members.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/status.h"

namespace ingot::app {
namespace {

// The first half of the table is for trainer ranks, the second for engines.
constexpr int kPlacesPerRole = kernels::ComputeTable::kEntries / 2;

int FirstPlace(const std::string& role) { return role == "trainer" ? 0 : kPlacesPerRole; }

absl::Status CannotMap(const std::string& path, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot share compute threads through ", path, ": ", why));
}

// Returns whether writing to a mapped file always succeeds once its space is reserved. On others, such as Btrfs and NFS,
// a write may need new space, or a server, and ends the process (SIGBUS) without them.
bool KeepsReservedSpace(int file) {
  struct statfs info = {};
  if (fstatfs(file, &info) != 0) return false;
  switch (static_cast<uint32_t>(info.f_type)) {
    case EXT4_SUPER_MAGIC:  // also ext2 and ext3
    case XFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:  // in containers; usually on one of the above
      return true;
    default:
      return false;
  }
}

// Makes the file as large as the table. Its new bytes are zero.
absl::Status PrepareFile(int file, const std::string& path) {
  struct stat info = {};
  if (fstat(file, &info) != 0) return CannotMap(path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return CannotMap(path, "it is not a regular file; remove it");
  if (!KeepsReservedSpace(file)) {
    return CannotMap(path, "a full disk could end the process on this file system; use ext4, XFS, or tmpfs");
  }
  // Also if the file is large enough, because a copy may have a hole.
  const int error = posix_fallocate(file, 0, sizeof(kernels::ComputeTable));
  return error == 0 ? absl::OkStatus() : CannotMap(path, std::strerror(error));
}

}  // namespace

absl::StatusOr<std::shared_ptr<kernels::ComputeTable>> MapComputeTable(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file < 0) return CannotMap(path, std::strerror(errno));
  const absl::Status prepared = PrepareFile(file, path);
  void* const memory = prepared.ok()
                           ? mmap(nullptr, sizeof(kernels::ComputeTable), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                           : MAP_FAILED;
  const int error = errno;
  close(file);
  INGOT_RETURN_IF_ERROR(prepared);
  if (memory == MAP_FAILED) return CannotMap(path, std::strerror(error));
  return std::shared_ptr<kernels::ComputeTable>(
      static_cast<kernels::ComputeTable*>(memory),
      [](kernels::ComputeTable* table) { munmap(table, sizeof(kernels::ComputeTable)); });
}

std::shared_ptr<kernels::ComputeMember> ComputeMemberOf(const RunConfig& config, const std::string& device,
                                                        std::shared_ptr<kernels::ComputeTable> table,
                                                        const std::string& role, int index) {
  if (!config.lend_threads || device != "cpu" || table == nullptr || index >= kPlacesPerRole) return nullptr;
  const int own = role == "trainer" ? config.trainer.threads : config.rollout.threads;
  return std::make_shared<kernels::ComputeMember>(std::move(table), FirstPlace(role) + index, own,
                                                  SplitCores(config).total);
}

std::shared_ptr<kernels::ComputeMember> ComputeMemberOfRole(const RunConfig& config, const std::string& device,
                                                            const std::string& run_path, const std::string& role,
                                                            int index) {
  if (!config.lend_threads || device != "cpu" || config.cluster.registry.kind != RegistryKind::kLocal) return nullptr;
  auto table = MapComputeTable(run_path + "/compute_table");
  if (!table.ok()) {
    INGOT_LOG(warn, "{}; compute.lend has no effect", std::string(table.status().message()));
    return nullptr;
  }
  return ComputeMemberOf(config, device, *std::move(table), role, index);
}

double BorrowedSeconds(const kernels::ComputeTable& table, const std::string& role) {
  int64_t sum = 0;
  for (int i = 0; i < kPlacesPerRole; ++i) {
    sum += table.entries[FirstPlace(role) + i].borrowed_ns.load(std::memory_order_relaxed);
  }
  return 1e-9 * static_cast<double>(sum);
}

}  // namespace ingot::app
