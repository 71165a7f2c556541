#include "engines/server/exchange_folder.h"

#include <absl/strings/str_format.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace ingot::engines {
namespace {

namespace fs = std::filesystem;

constexpr char kStart[] = "start";

absl::Status FolderError(const std::string& path, const std::error_code& error) {
  return absl::UnavailableError(
      absl::StrCat(path, ": ", error.message(), " (rollout.external.exchange is the folder for weights)"));
}

// Returns whether `name` is OWNER-PID of a process that has ended.
bool IsLeftOver(const std::string& name, const std::string& owner) {
  if (!name.starts_with(owner + "-")) return false;
  const char* const begin = name.data() + owner.size() + 1;
  const char* const end = name.data() + name.size();
  pid_t pid = 0;
  const auto [last, fault] = std::from_chars(begin, end, pid);
  if (fault != std::errc() || last != end || pid <= 0) return false;
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

void RemoveLeftOvers(const std::string& root, const std::string& owner) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored)) {
    if (IsLeftOver(entry.path().filename().string(), owner)) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

absl::StatusOr<base::Fd> ClaimServer(const std::string& root, const std::string& url) {
  std::error_code error;
  fs::create_directories(root, error);
  if (error) return FolderError(root, error);
  std::string name = url;
  while (name.ends_with('/')) name.pop_back();
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '.'; }, '_');
  const std::string path = absl::StrCat(root, "/", name.substr(0, 200), ".lock");
  base::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid()) return FolderError(path, std::error_code(errno, std::generic_category()));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  return absl::FailedPreconditionError(
      absl::StrCat("another engine on this machine loads weights into the server at ", url, " (it holds ", path,
                   "): stop it, or give each engine its own server in rollout.external.url"));
}

std::string VersionLabel(int64_t version, uint64_t checksum) { return absl::StrFormat("%d-%016x", version, checksum); }

absl::StatusOr<std::unique_ptr<ExchangeFolder>> ExchangeFolder::Open(const std::string& root, const std::string& owner,
                                                                     WriteModel write_model, WriteModel write_start) {
  std::error_code error;
  fs::create_directories(root, error);
  if (error) return FolderError(root, error);
  RemoveLeftOvers(root, owner);
  const std::string dir = absl::StrCat(root, "/", owner, "-", ::getpid());
  fs::remove_all(dir, error);
  fs::create_directory(dir, error);
  if (error) return FolderError(dir, error);
  return std::unique_ptr<ExchangeFolder>(new ExchangeFolder(dir, std::move(write_model), std::move(write_start)));
}

ExchangeFolder::~ExchangeFolder() {
  std::error_code ignored;
  fs::remove_all(dir_, ignored);
}

absl::StatusOr<std::string> ExchangeFolder::Write(const std::shared_ptr<const weights::Snapshot>& snapshot) {
  return WriteAs(VersionLabel(snapshot->version(), snapshot->checksum()), write_model_, snapshot);
}

absl::StatusOr<std::string> ExchangeFolder::WriteStart(const std::shared_ptr<const weights::Snapshot>& snapshot) {
  return WriteAs(kStart, write_start_, snapshot);
}

absl::StatusOr<std::string> ExchangeFolder::WriteAs(const std::string& name, const WriteModel& write,
                                                    const std::shared_ptr<const weights::Snapshot>& snapshot) {
  const std::string dir = absl::StrCat(dir_, "/", name);
  std::error_code error;
  if (fs::exists(dir, error)) return dir;
  const std::string draft = dir + ".new";
  fs::remove_all(draft, error);
  fs::create_directory(draft, error);
  if (error) return FolderError(draft, error);
  const absl::Status written = write(draft, snapshot);
  if (written.ok()) fs::rename(draft, dir, error);
  if (written.ok() && !error) return dir;
  std::error_code ignored;
  fs::remove_all(draft, ignored);
  return written.ok() ? FolderError(dir, error) : written;
}

void ExchangeFolder::RemoveStart() { Remove(absl::StrCat(dir_, "/", kStart)); }

void ExchangeFolder::Remove(const std::string& model_dir) {
  std::error_code error;
  fs::remove_all(model_dir, error);
  if (error) INGOT_LOG(warn, "cannot remove old weights: {}: {}", model_dir, error.message());
}

void ExchangeFolder::KeepOnly(const std::string& newest, const std::string& previous) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir_, error)) {
    const bool kept = entry.path() == newest || entry.path() == previous || entry.path().filename() == kStart;
    if (!kept) Remove(entry.path().string());
  }
}

}  // namespace ingot::engines
