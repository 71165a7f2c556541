#include "kv/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "kv/chunk_io.h"

namespace ingot::kv {
namespace {

constexpr double kMaintenancePerRetirement = 4;
constexpr double kLongestMaintenanceSeconds = 5;

absl::Status Failed(const char* action, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("rollout.kv_store.path: cannot ", action, " ", path, ": ", std::strerror(errno)));
}

absl::Status Wrong(const std::string& path, const char* what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

// Reads exactly `bytes` bytes. Returns DATA_LOSS if the file ends before that.
absl::Status ReadAt(int fd, std::span<std::byte> bytes, int64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t read = pread(fd, bytes.data(), bytes.size(), offset);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return Failed("read", path);
    if (read == 0) return Wrong(path, "the file is truncated");
    bytes = bytes.subspan(static_cast<size_t>(read));
    offset += read;
  }
  return absl::OkStatus();
}

absl::Status WriteAt(int fd, std::span<const std::byte> bytes, int64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Failed("write", path);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

// Opens a chunk for reading and checks its type and size before anything is read. O_NONBLOCK returns at once for a
// named pipe.
absl::StatusOr<base::Fd> OpenChunk(const std::string& path, int64_t bytes) {
  base::Fd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return absl::NotFoundError(path);
    if (errno == ELOOP || errno == ENXIO) return Wrong(path, "it is not a file");
    return Failed("open", path);
  }
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return Failed("stat", path);
  if (!S_ISREG(info.st_mode)) return Wrong(path, "it is not a file");
  if (info.st_size != bytes) return Wrong(path, "the file's size differs from its chunk's");
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(const Options& options, const base::Clock& clock) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<StoreFolder> folder, StoreFolder::Open(options.path, options.max_bytes));
  std::unique_ptr<FileStore> store(new FileStore(options, std::move(folder), clock));
  INGOT_RETURN_IF_ERROR(store->Maintain());
  return store;
}

FileStore::FileStore(const Options& options, std::unique_ptr<StoreFolder> folder, const base::Clock& clock)
    : options_(options),
      folder_(std::move(folder)),
      errors_(absl::StrCat("the KV store ", options.path), clock),
      maintenance_({.name = "kv maintenance"}, clock) {
  const double seconds = std::min(options.retire_after_s / kMaintenancePerRetirement, kLongestMaintenanceSeconds);
  timer_ = maintenance_.PostEvery(base::FromSeconds(seconds), [this] {
    // Maintenance that works does not show that chunks can be written: it ends no pause.
    if (const absl::Status maintained = Maintain(); !maintained.ok()) errors_.Note(maintained).IgnoreError();
  });
}

FileStore::~FileStore() = default;

int64_t FileStore::Longest(const Root& root, std::span<const Chunk> chain) {
  if (chain.empty() || !errors_.Check().ok() || !CheckRoot(root, chain.front().root).ok()) return 0;
  int64_t count = 0;
  while (count < std::ssize(chain) && access(folder_->PathOf(chain[static_cast<size_t>(count)]).c_str(), R_OK) == 0)
    ++count;
  return count;
}

absl::Status FileStore::Get(const Root& root, const Chunk& chunk, const PlanesToRead& planes) {
  INGOT_RETURN_IF_ERROR(errors_.Check());
  const absl::Status read = Read(root, chunk, planes);
  if (absl::IsDataLoss(read)) {
    folder_->SetAside(chunk);
    base::MutexLock lock(mu_);
    ++stats_.corrupt;
  }
  return errors_.Note(read);
}

absl::Status FileStore::Read(const Root& root, const Chunk& chunk, const PlanesToRead& planes) {
  INGOT_RETURN_IF_ERROR(CheckSizes(planes, root));
  INGOT_RETURN_IF_ERROR(CheckRoot(root, chunk.root));
  const std::string path = folder_->PathOf(chunk);
  INGOT_ASSIGN_OR_RETURN(const base::Fd fd, OpenChunk(path, LayoutOf(chunk, root.plane_bytes).file_bytes));
  const auto read = [&](std::span<std::byte> bytes, int64_t offset) { return ReadAt(fd.get(), bytes, offset, path); };
  INGOT_RETURN_IF_ERROR(ReadChunk(root, chunk, planes, path, read));
  futimens(fd.get(), nullptr);  // records its last use; on failure, it is evicted earlier
  return absl::OkStatus();
}

absl::Status FileStore::Put(const Root& root, const Chunk& chunk, const PlanesToWrite& planes) {
  absl::Status written = errors_.Check();
  if (written.ok()) written = errors_.Note(Write(root, chunk, planes));
  base::MutexLock lock(mu_);
  written.ok() ? ++stats_.put_chunks : ++stats_.failed_puts;
  return absl::IsAlreadyExists(written) ? absl::OkStatus() : written;
}

absl::Status FileStore::Write(const Root& root, const Chunk& chunk, const PlanesToWrite& planes) {
  INGOT_RETURN_IF_ERROR(CheckSizes(planes, root));
  const bool known = CheckRoot(root, chunk.root).ok();
  if (known && access(folder_->PathOf(chunk).c_str(), F_OK) == 0) return absl::OkStatus();
  const FileLayout layout = LayoutOf(chunk, root.plane_bytes);
  const std::string draft = folder_->NewDraft();
  const std::string header = EncodeHeader(chunk, root.plane_bytes, ChecksumsOf(planes));
  const auto write = [&]() -> absl::Status {
    const base::Fd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd.valid()) return Failed("create", draft);
    INGOT_RETURN_IF_ERROR(WriteAt(fd.get(), std::as_bytes(std::span(header)), 0, draft));
    for (size_t i = 0; i < planes.size(); ++i) {
      int64_t at = layout.offsets[i];
      for (const std::span<const std::byte> piece : planes[i]) {
        INGOT_RETURN_IF_ERROR(WriteAt(fd.get(), piece, at, draft));
        at += std::ssize(piece);
      }
    }
    return absl::OkStatus();
  };
  if (const absl::Status written = write(); !written.ok()) {
    unlink(draft.c_str());
    return written;
  }
  return folder_->Publish(draft, layout.file_bytes, root, chunk);
}

void FileStore::Hold(std::vector<base::Key128> roots) {
  base::MutexLock lock(mu_);
  held_ = std::move(roots);
}

StoreStats FileStore::stats() const {
  base::MutexLock lock(mu_);
  StoreStats stats = stats_;
  stats.bytes = folder_->bytes();
  stats.retired_bytes = folder_->retired_bytes();
  stats.evicted_bytes = folder_->evicted_bytes();
  return stats;
}

absl::Status FileStore::Maintain() {
  std::vector<base::Key128> held;
  {
    base::MutexLock lock(mu_);
    held = held_;
  }
  for (const base::Key128& root : held) INGOT_RETURN_IF_ERROR(folder_->Keep(root));
  INGOT_RETURN_IF_ERROR(folder_->Retire(options_.retire_after_s));
  return folder_->Clean();
}

// Checks root.json once per root.
absl::Status FileStore::CheckRoot(const Root& root, const base::Key128& key) {
  {
    base::MutexLock lock(mu_);
    if (right_roots_.contains(key)) return absl::OkStatus();
  }
  INGOT_RETURN_IF_ERROR(folder_->CheckRoot(key, root.Text()));
  base::MutexLock lock(mu_);
  right_roots_[key] = true;
  return absl::OkStatus();
}

}  // namespace ingot::kv
