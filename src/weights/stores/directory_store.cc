#include "weights/stores/directory_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/checksum.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/random.h"
#include "base/waits.h"

namespace ingot::weights {
namespace {

namespace fs = std::filesystem;

constexpr char kWritingFolder[] = ".writing";
constexpr char kLockFile[] = ".lock";
constexpr int kAttempts = 5;
// Files left by crashed writers are deleted at this age.
constexpr std::chrono::hours kAbandoned{24};

absl::Status Failed(const char* verb, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", verb, " ", path));
}

// Returns UNAVAILABLE if another process has held the lock for `timeout`.
absl::Status Lock(int fd, const std::string& path, std::chrono::milliseconds timeout) {
  const std::string holder = absl::StrCat("the process that holds ", path);
  const base::Wait wait(holder);
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Failed("lock", path);
    if (std::chrono::steady_clock::now() >= end) {
      return absl::UnavailableError(absl::StrCat(holder, " has not released it for ", timeout.count(),
                                                 " ms: it may be paused; `fuser ", path, "` names it"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return absl::OkStatus();
}

std::string Tag(std::string_view bytes) { return base::Hex(base::Checksum64(bytes)); }

class DirectoryStore final : public ObjectStore {
 public:
  DirectoryStore(std::string path, std::chrono::milliseconds lock_timeout)
      : path_(std::move(path)), lock_timeout_(lock_timeout) {}

  absl::Status Put(const std::string& key, std::string_view bytes) override {
    INGOT_RETURN_IF_ERROR(CheckKey(key));
    const std::string writing = absl::StrCat(path_, "/", kWritingFolder, "/", base::RandomHex(16));
    absl::Status status = base::WriteFileDurably(writing, bytes);
    if (status.ok()) status = MoveTo(writing, PathOf(key));
    if (!status.ok()) ::unlink(writing.c_str());
    return status;
  }

  absl::StatusOr<StoredObject> Get(const std::string& key, int64_t max_bytes) override {
    INGOT_RETURN_IF_ERROR(CheckKey(key));
    std::error_code error;
    const uintmax_t size = fs::file_size(PathOf(key), error);
    if (!error && size > static_cast<uintmax_t>(max_bytes)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(Describe(), ": object '", key, "' has ", size, " bytes; at most ", max_bytes, " are expected"));
    }
    StoredObject object;
    INGOT_ASSIGN_OR_RETURN(object.bytes, base::ReadFile(PathOf(key), max_bytes));
    object.tag = Tag(object.bytes);
    return object;
  }

  absl::StatusOr<std::string> Swap(const std::string& key, std::string_view bytes, const std::string& tag) override {
    const std::string lock_path = absl::StrCat(path_, "/", kLockFile);
    const base::Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!lock.valid()) return Failed("open", lock_path);
    INGOT_RETURN_IF_ERROR(Lock(lock.get(), lock_path, lock_timeout_));
    const absl::StatusOr<StoredObject> now = Get(key, base::kMaxFileBytes);
    if (!now.ok() && !absl::IsNotFound(now.status())) return now.status();
    if ((now.ok() ? now->tag : "") != tag) {
      return absl::AbortedError(absl::StrCat(Describe(), ": object '", key, "' was changed by another writer"));
    }
    INGOT_RETURN_IF_ERROR(Put(key, bytes));
    return Tag(bytes);
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& prefix) override {
    // Walks only the directory that contains `prefix`.
    const std::string folder = prefix.substr(0, prefix.rfind('/') == std::string::npos ? 0 : prefix.rfind('/'));
    std::vector<std::string> keys;
    std::error_code error;
    fs::recursive_directory_iterator entry(absl::StrCat(path_, "/", folder), error);
    for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
      if (entry->path().filename().string().front() == '.') {
        entry.disable_recursion_pending();
        continue;
      }
      if (!entry->is_regular_file(error)) continue;
      std::string key = fs::path(entry->path()).lexically_relative(path_).string();
      if (key.starts_with(prefix)) keys.push_back(std::move(key));
    }
    // A directory that is missing, or that another process deletes in the meantime, has no objects.
    if (error && error != std::errc::no_such_file_or_directory) {
      return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot list ", path_, "/", folder));
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }

  absl::Status Delete(const std::string& key) override {
    INGOT_RETURN_IF_ERROR(CheckKey(key));
    fs::path path = PathOf(key);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return Failed("remove", path.string());
    // Deletes parent directories that are now empty, up to the first one that is not.
    for (path = path.parent_path(); path.string().size() > path_.size(); path = path.parent_path()) {
      if (::rmdir(path.c_str()) != 0) break;
    }
    return absl::OkStatus();
  }

  std::string Describe() const override { return absl::StrCat("directory ", path_); }

 private:
  std::string PathOf(const std::string& key) const { return absl::StrCat(path_, "/", key); }

  static absl::Status CheckKey(const std::string& key) {
    if (IsObjectKey(key)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("'", key, "' is not a valid object key"));
  }

  // Creates the parent directories of `to` and renames `from`. A Delete may remove an empty directory between the two.
  absl::Status MoveTo(const std::string& from, const fs::path& to) const {
    for (int attempt = 1;; ++attempt) {
      std::error_code error;
      fs::create_directories(to.parent_path(), error);
      if (!error && ::rename(from.c_str(), to.c_str()) == 0) break;
      if (error) errno = error.value();
      if (errno != ENOENT || attempt == kAttempts) return Failed("write", to.string());
    }
    for (fs::path folder = to.parent_path(); folder.string().size() >= path_.size(); folder = folder.parent_path()) {
      INGOT_RETURN_IF_ERROR(base::SyncDir(folder.string()));
    }
    return absl::OkStatus();
  }

  const std::string path_;  // absolute, without a trailing slash
  const std::chrono::milliseconds lock_timeout_;
};

void RemoveAbandoned(const std::string& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored)) {
    const fs::file_time_type written = file.last_write_time(ignored);
    if (!ignored && fs::file_time_type::clock::now() - written > kAbandoned) fs::remove(file.path(), ignored);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenDirectoryStore(const std::string& path,
                                                                std::chrono::milliseconds lock_timeout) {
  std::error_code error;
  std::string absolute = fs::absolute(path, error).lexically_normal().string();
  while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  const std::string writing = absl::StrCat(absolute, "/", kWritingFolder);
  fs::create_directories(writing, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot create the directory ", writing));
  RemoveAbandoned(writing);
  return std::make_unique<DirectoryStore>(std::move(absolute), lock_timeout);
}

}  // namespace ingot::weights
