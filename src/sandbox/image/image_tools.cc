#include "sandbox/image/image_tools.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_split.h"
#include "base/log.h"
#include "sandbox/trees/remove_tree.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

// Returns the end of a log, because a build may write without limit.
std::string ReadTail(int fd) {
  constexpr off_t kMax = 64 * 1024;
  struct stat info;
  if (fstat(fd, &info) != 0) return "";
  std::string text(static_cast<size_t>(std::min(info.st_size, kMax)), '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), std::max<off_t>(0, info.st_size - kMax));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

std::string LastLineOf(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return lines.empty() ? "it printed nothing" : lines.back();
}

std::string Bytes(int64_t bytes) { return absl::StrCat(bytes, " bytes"); }

// Checks the limits for a running tool.
class Bounds {
 public:
  Bounds(const ImageLimits& limits, const std::string& folder, const std::optional<UnpackBound>& unpack)
      : limits_(limits), folder_(folder), disk_(folder, limits.disk) {
    if (!unpack.has_value()) return;
    archive_bytes_ = unpack->archive_bytes;
    unpacked_.emplace(unpack->folder, DiskLimits{.bytes = MaxUnpacked(limits, archive_bytes_), .files = 0});
  }

  absl::Status Check(DiskWatch::SteadyClock::time_point now) {
    INGOT_RETURN_IF_ERROR(CheckReserve(limits_, folder_));
    INGOT_RETURN_IF_ERROR(OfDisk(disk_.Fault(now)));
    return unpacked_.has_value() ? OfRatio(unpacked_->Fault(now)) : absl::OkStatus();
  }
  // Must be called after the tool has ended.
  absl::Status CheckAtEnd() const {
    INGOT_RETURN_IF_ERROR(CheckReserve(limits_, folder_));
    INGOT_RETURN_IF_ERROR(OfDisk(disk_.FaultAtEnd()));
    return unpacked_.has_value() ? OfRatio(unpacked_->FaultAtEnd()) : absl::OkStatus();
  }

 private:
  absl::Status OfDisk(const std::optional<Ending>& fault) const {
    if (!fault.has_value()) return absl::OkStatus();
    if (*fault == Ending::kNoSpace) return absl::ResourceExhaustedError("the disk of the image store is full");
    return absl::ResourceExhaustedError(absl::StrCat("the image is larger than the store's limits, ",
                                                     Bytes(limits_.disk.bytes), " and ", limits_.disk.files, " files"));
  }
  absl::Status OfRatio(const std::optional<Ending>& fault) const {
    if (fault != Ending::kDiskFull) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("the image unpacks to more than ", Bytes(MaxUnpacked(limits_, archive_bytes_)),
                     ", the limit for an archive of ", Bytes(archive_bytes_), " (", limits_.ratio,
                     " times its size, at least ", Bytes(limits_.free_bytes), ")"));
  }

  const ImageLimits& limits_;
  const std::string& folder_;
  DiskWatch disk_;
  int64_t archive_bytes_ = 0;
  std::optional<DiskWatch> unpacked_;
};

// Returns an invalid descriptor if a sweep removed the folder before it was locked. On file systems without locks,
// there are no sweeps.
Fd LockScratch(const std::string& folder) {
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A shared lock, because NFS supports no other lock on a folder.
  if (!fd.valid() || (flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)) return Fd();
  struct stat info;
  if (fstat(fd.get(), &info) != 0 || info.st_nlink == 0) return Fd();
  return fd;
}

}  // namespace

absl::StatusOr<ImageTools> ImageTools::Make(const std::string& root, const ImageLimits& limits,
                                            const Cancellation& cancel) {
  constexpr int kMaxSweeps = 5;
  std::error_code error;
  fs::create_directories(root, error);
  INGOT_RETURN_IF_ERROR(CheckReserve(limits, root));
  std::string why = error ? error.message() : "";
  for (int i = 0; i < kMaxSweeps && why.empty(); ++i) {
    std::string path = absl::StrCat(root, "/", kScratchPrefix, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) {
      why = std::strerror(errno);
    } else if (Fd lock = LockScratch(path); lock.valid()) {
      return ImageTools(std::move(path), std::move(lock), limits, cancel);
    }
  }
  if (why.empty()) why = "its lock is held, or no descriptor is left";
  return absl::UnavailableError(absl::StrCat("cannot create a folder in the image store ", root, ": ", why));
}

ImageTools::~ImageTools() {
  if (folder_.empty()) return;
  const absl::Status removed = RemoveTree(folder_);
  if (!removed.ok())
    INGOT_LOG(warn, "cannot remove all of the scratch folder {}: {}", folder_, std::string(removed.message()));
}

absl::StatusOr<std::string> ImageTools::Run(const std::vector<std::string>& argv, std::chrono::seconds timeout,
                                            const std::optional<UnpackBound>& bound) const {
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return ErrnoStatus(errno, "cannot open /dev/null");
  Command command{.argv = argv,
                  .env = InheritedEnvironment({"PATH", "HOME", "HTTPS_PROXY", "SSL_CERT_FILE"}),
                  .working_dir = "/",
                  .stdin_text = ""};
  command.env["XDG_RUNTIME_DIR"] = folder_;
  command.env["TMPDIR"] = folder_;
  const auto start = [&](int out) -> absl::StatusOr<pid_t> {
    // The tool's parent is this thread, which waits for it.
    const absl::StatusOr<pid_t> pid = Spawn(command, {null.get(), out, out}, {.dies_with_its_thread = true});
    if (pid.ok()) return pid;
    return base::Annotate(pid.status(),
                          absl::StrCat("images need ", argv[0], " (scripts/setup.sh services installs it)"));
  };
  return RunStarted(argv[0], start, timeout, bound);
}

absl::StatusOr<std::string> ImageTools::RunStarted(const std::string& name,
                                                   const std::function<absl::StatusOr<pid_t>(int out)>& start,
                                                   std::chrono::seconds timeout,
                                                   const std::optional<UnpackBound>& bound) const {
  const std::string log = folder_ + "/log";
  const Fd out(open(log.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!out.valid()) return ErrnoStatus(errno, absl::StrCat("cannot write ", log));
  // Reads use a different descriptor than the tools' writes.
  const Fd written(open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  INGOT_ASSIGN_OR_RETURN(const pid_t pid, start(written.get()));
  INGOT_ASSIGN_OR_RETURN(const int status, Await(pid, name, timeout, bound));
  std::string output = ReadTail(out.get());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  return absl::InvalidArgumentError(absl::StrCat(name, " failed: ", LastLineOf(output)));
}

absl::StatusOr<int> ImageTools::Await(pid_t pid, const std::string& name, std::chrono::seconds timeout,
                                      const std::optional<UnpackBound>& bound) const {
  const auto deadline = DiskWatch::SteadyClock::now() + timeout;
  Bounds bounds(limits_, folder_, bound);
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  absl::Status ended;
  pollfd events[] = {{process.get(), POLLIN, 0}, {cancel_.fd(), POLLIN, 0}};
  while (ended.ok() && poll(events, 2, 200) <= 0) {
    const auto now = DiskWatch::SteadyClock::now();
    ended = bounds.Check(now);
    if (now >= deadline) {
      ended =
          absl::DeadlineExceededError(absl::StrCat(name, " did not end within ", timeout.count(), " s and was killed"));
    }
  }
  if (ended.ok() && cancel_.cancelled()) ended = absl::CancelledError(absl::StrCat("stopped, and ", name, " with it"));
  if (!ended.ok()) kill(-pid, SIGKILL);  // includes its child processes
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  INGOT_RETURN_IF_ERROR(ended);
  INGOT_RETURN_IF_ERROR(bounds.CheckAtEnd());
  return status;
}

void RemoveStaleScratch(const std::string& root) {
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(kScratchPrefix)) continue;
    const Fd lock(open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!lock.valid() || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    const absl::Status removed = RemoveTree(it->path().string());
    if (!removed.ok()) {
      INGOT_LOG(warn, "cannot remove all of the scratch folder {} of an ended process: {}", it->path().string(),
                std::string(removed.message()));
    }
  }
}

}  // namespace ingot::sandbox
