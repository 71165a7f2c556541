#include "kv/folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/file.h"

namespace ingot::kv {
namespace {

namespace fs = std::filesystem;

constexpr double kDraftSeconds = 600;  // an older draft from another machine belongs to a killed process
constexpr int64_t kKeptCorrupt = 16;
constexpr double kRoom = 0.9;  // share of max_bytes that is used after chunks have been removed
constexpr char kEnd[] = ".kv";

absl::Status FolderError(std::string_view action, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("rollout.kv_store.path: cannot ", base::View(action), " ", path, ": ", std::strerror(errno)));
}

// Holds the store's lock.
class Lock {
 public:
  static absl::StatusOr<Lock> Take(const std::string& path) {
    base::Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd.valid()) return FolderError("open", path);
    while (flock(fd.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return FolderError("lock", path);
    }
    return Lock(std::move(fd));
  }

 private:
  explicit Lock(base::Fd fd) : fd_(std::move(fd)) {}
  base::Fd fd_;  // closing it releases the lock
};

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("rollout.kv_store.path: cannot create ", path, ": ", error.message()));
}

absl::Status Touch(const std::string& path) {
  const base::Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  if (!fd.valid() || futimens(fd.get(), nullptr) != 0) return FolderError("touch", path);
  return absl::OkStatus();
}

double Seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Returns the modification time in seconds; 0 = the file does not exist.
double ModifiedAt(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 ? Seconds(info.st_mtim) : 0;
}

// Calls `visit` for each entry. Entries may disappear in the meantime.
void ForEntries(const std::string& folder, const std::function<void(const std::string& path)>& visit) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) visit(entry->path().string());
}

struct StoredChunk {
  double used = 0;
  int64_t bytes = 0;
  std::string path;
};

std::vector<StoredChunk> ChunksIn(const std::string& root) {
  std::vector<StoredChunk> chunks;
  ForEntries(root, [&](const std::string& part) {
    ForEntries(part, [&](const std::string& path) {
      struct stat info{};
      if (!path.ends_with(kEnd) || lstat(path.c_str(), &info) != 0) return;
      chunks.push_back({Seconds(info.st_mtim), static_cast<int64_t>(info.st_size), path});
    });
  });
  return chunks;
}

std::vector<StoredChunk> AllChunks(const std::string& roots) {
  std::vector<StoredChunk> all;
  ForEntries(roots, [&](const std::string& root) {
    std::vector<StoredChunk> chunks = ChunksIn(root);
    std::move(chunks.begin(), chunks.end(), std::back_inserter(all));
  });
  return all;
}

int64_t Sum(const std::vector<StoredChunk>& chunks) {
  int64_t sum = 0;
  for (const StoredChunk& chunk : chunks) sum += chunk.bytes;
  return sum;
}

// Returns a name for this boot and PID namespace, because several machines or containers may have the same host name
// and process ids.
std::string HostName() {
  char name[256] = "", pids[64] = "";
  gethostname(name, sizeof(name) - 1);
  if (readlink("/proc/self/ns/pid", pids, sizeof(pids) - 1) < 0) pids[0] = '\0';
  const std::string boot = base::ReadFile("/proc/sys/kernel/random/boot_id", 64).value_or("");
  std::string host = name[0] == '\0' ? "host" : name;
  std::replace(host.begin(), host.end(), '/', '_');
  return absl::StrCat(host, "-", base::Hex(base::Checksum64(absl::StrCat(boot, pids))));
}

// Returns true if the draft HOST.PID.N was written by a process on this machine that is gone.
bool WriterIsGone(const std::string& draft, const std::string& host) {
  const std::string name = fs::path(draft).filename().string();
  if (!name.starts_with(host + ".")) return false;
  const std::string rest = name.substr(host.size() + 1);
  int pid = 0;
  return absl::SimpleAtoi(rest.substr(0, rest.find('.')), &pid) && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreFolder>> StoreFolder::Open(const std::string& path, int64_t max_bytes) {
  std::unique_ptr<StoreFolder> folder(new StoreFolder(path, max_bytes));
  for (const char* part : {"roots", "tmp", "trash", "corrupt"}) {
    INGOT_RETURN_IF_ERROR(MakeFolder(folder->Path(part)));
  }
  INGOT_ASSIGN_OR_RETURN(const Lock lock, Lock::Take(folder->Path("lock")));
  INGOT_RETURN_IF_ERROR(folder->Now().status());
  folder->bytes_ = folder->ReadUsage();
  INGOT_RETURN_IF_ERROR(folder->WriteUsage(folder->bytes_));
  return folder;
}

StoreFolder::StoreFolder(std::string path, int64_t max_bytes)
    : path_(std::move(path)), max_bytes_(max_bytes), host_(HostName()) {}

std::string StoreFolder::Path(std::string_view name) const { return absl::StrCat(path_, "/", base::View(name)); }

std::string StoreFolder::RootDir(const base::Key128& root) const {
  return Path("roots/" + base::Hex(base::KeyBytes(root)));
}

std::string StoreFolder::PathOf(const Chunk& chunk) const {
  const std::string key = base::Hex(base::KeyBytes(chunk.key));
  return absl::StrCat(RootDir(chunk.root), "/", key.substr(0, 2), "/", key, kEnd);
}

absl::Status StoreFolder::CheckRoot(const base::Key128& root, const std::string& text) const {
  INGOT_ASSIGN_OR_RETURN(const std::string found, base::ReadFile(RootDir(root) + "/root.json", 1 << 24));
  if (found == text) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(RootDir(root), "/root.json is for other chunks; remove the folder"));
}

std::string StoreFolder::NewDraft() { return Path(absl::StrCat("tmp/", host_, ".", getpid(), ".", ++drafts_)); }

std::string StoreFolder::NewTrash() { return Path(absl::StrCat("trash/", host_, ".", getpid(), ".", ++drafts_)); }

absl::Status StoreFolder::MakeRoot(const Root& root, const base::Key128& key) {
  const std::string dir = RootDir(key), text = root.Text();
  const absl::Status known = CheckRoot(key, text);
  if (absl::IsDataLoss(known)) {  // a machine crashed before the file was on its disk
    if (rename(dir.c_str(), NewTrash().c_str()) != 0) return FolderError("remove", dir);
  } else if (!absl::IsNotFound(known)) {
    return known;
  }
  INGOT_RETURN_IF_ERROR(MakeFolder(dir));
  INGOT_RETURN_IF_ERROR(base::ReplaceFile(dir + "/root.json", text, {.durable = false}));
  return Touch(dir + "/held");
}

absl::Status StoreFolder::Publish(const std::string& draft, int64_t bytes, const Root& root, const Chunk& chunk) {
  const std::string path = PathOf(chunk);
  const auto publish = [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(const Lock lock, Lock::Take(Path("lock")));
    INGOT_RETURN_IF_ERROR(MakeRoot(root, chunk.root));
    if (access(path.c_str(), F_OK) == 0) return absl::AlreadyExistsError(path);
    INGOT_RETURN_IF_ERROR(MakeFolder(fs::path(path).parent_path().string()));
    INGOT_ASSIGN_OR_RETURN(const int64_t used, MakeRoom(bytes));
    // The size is written first, so that it is never too small, even if this process is killed now.
    INGOT_RETURN_IF_ERROR(WriteUsage(used + bytes));
    if (rename(draft.c_str(), path.c_str()) != 0) return FolderError("rename a chunk to", path);
    bytes_ = used + bytes;
    return absl::OkStatus();
  };
  const absl::Status published = publish();
  if (!published.ok()) unlink(draft.c_str());
  return absl::IsAlreadyExists(published) ? absl::OkStatus() : published;
}

void StoreFolder::SetAside(const Chunk& chunk) {
  const std::string path = PathOf(chunk), aside = Path(absl::StrCat("corrupt/", corrupt_++ % kKeptCorrupt, kEnd));
  if (rename(path.c_str(), aside.c_str()) == 0) return;
  std::error_code error;  // it may be a folder
  fs::remove_all(path, error);
}

absl::Status StoreFolder::Keep(const base::Key128& root) {
  const std::string dir = RootDir(root);
  if (access((dir + "/root.json").c_str(), F_OK) != 0) return absl::OkStatus();
  return Touch(dir + "/held");
}

absl::Status StoreFolder::Retire(double seconds) {
  INGOT_ASSIGN_OR_RETURN(const double now, Now());
  std::vector<std::string> old;
  ForEntries(Path("roots"), [&](const std::string& root) {
    if (std::max(ModifiedAt(root + "/held"), ModifiedAt(root)) < now - seconds) old.push_back(root);
  });
  if (old.empty()) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const Lock lock, Lock::Take(Path("lock")));
  int64_t freed = 0;
  for (const std::string& root : old) {
    const int64_t bytes = Sum(ChunksIn(root));
    if (rename(root.c_str(), NewTrash().c_str()) == 0) freed += bytes;
  }
  retired_bytes_ += freed;
  bytes_ = CountBytes();
  return WriteUsage(bytes_);
}

absl::Status StoreFolder::Clean() {
  INGOT_ASSIGN_OR_RETURN(const double now, Now());
  std::error_code error;
  ForEntries(Path("trash"), [&](const std::string& path) { fs::remove_all(path, error); });
  ForEntries(Path("tmp"), [&](const std::string& path) {
    if (WriterIsGone(path, host_) || ModifiedAt(path) < now - kDraftSeconds) fs::remove_all(path, error);
  });
  return absl::OkStatus();
}

absl::StatusOr<double> StoreFolder::Now() const {
  INGOT_RETURN_IF_ERROR(Touch(Path("clock")));
  return ModifiedAt(Path("clock"));
}

int64_t StoreFolder::ReadUsage() const {
  uint64_t read[2] = {0, 0};
  const base::Fd fd(open(Path("usage").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const bool whole = fd.valid() && pread(fd.get(), read, sizeof(read), 0) == sizeof(read);
  if (whole && read[1] == base::Checksum64(std::as_bytes(std::span(read, 1)))) return static_cast<int64_t>(read[0]);
  return CountBytes();
}

absl::Status StoreFolder::WriteUsage(int64_t bytes) {
  uint64_t written[2] = {static_cast<uint64_t>(bytes), 0};
  written[1] = base::Checksum64(std::as_bytes(std::span(written, 1)));
  const base::Fd fd(open(Path("usage").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  if (fd.valid() && pwrite(fd.get(), written, sizeof(written), 0) == sizeof(written)) return absl::OkStatus();
  return FolderError("write", Path("usage"));
}

int64_t StoreFolder::CountBytes() const { return Sum(AllChunks(Path("roots"))); }

// Returns the size after removing chunks so that `needed` more bytes fit.
absl::StatusOr<int64_t> StoreFolder::MakeRoom(int64_t needed) {
  const int64_t used = ReadUsage();
  if (used + needed <= max_bytes_) return used;
  if (needed > max_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rollout.kv_store.max_bytes is ", max_bytes_, ", but a chunk has ", needed, " bytes; raise it"));
  }
  std::vector<StoredChunk> chunks = AllChunks(Path("roots"));
  // A reader touches a chunk before its parent, so chunks at the end of a chain are removed first.
  std::sort(chunks.begin(), chunks.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  int64_t left = Sum(chunks);
  const auto target = std::min(static_cast<int64_t>(kRoom * static_cast<double>(max_bytes_)), max_bytes_ - needed);
  for (auto chunk = chunks.begin(); chunk != chunks.end() && left > target; ++chunk) {
    if (unlink(chunk->path.c_str()) != 0 && errno != ENOENT) return FolderError("remove", chunk->path);
    left -= chunk->bytes;
    evicted_bytes_ += chunk->bytes;
  }
  return left;
}

}  // namespace ingot::kv
