#include "sandbox/image_tools.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "base/log.h"
#include "sandbox/remove_tree.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string LastLineOf(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return lines.empty() ? "it said nothing" : lines.back();
}

// Of a fault of the disk while an image is unpacked.
absl::Status StatusOf(Ending fault) {
  return absl::ResourceExhaustedError(fault == Ending::kNoSpace ? "the disk of the image store is full"
                                                                : "the image is larger than the store's limits");
}

// Invalid: a sweep took the folder before it was locked. A file system without locks has no sweeps either.
Fd LockScratch(const std::string& folder) {
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Shared, for NFS takes no other lock on a folder.
  if (!fd.valid() || (flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)) return Fd();
  struct stat info;
  if (fstat(fd.get(), &info) != 0 || info.st_nlink == 0) return Fd();
  return fd;
}

}  // namespace

absl::StatusOr<ImageTools> ImageTools::Make(const std::string& root, const DiskLimits& limits,
                                            const Cancellation& cancel) {
  constexpr int kMostSweeps = 5;
  std::error_code error;
  fs::create_directories(root, error);
  std::string why = error ? error.message() : "";
  for (int i = 0; i < kMostSweeps && why.empty(); ++i) {
    std::string path = absl::StrCat(root, "/", kScratchPrefix, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) {
      why = std::strerror(errno);
    } else if (Fd lock = LockScratch(path); lock.valid()) {
      return ImageTools(std::move(path), std::move(lock), limits, cancel);
    }
  }
  if (why.empty()) why = "its lock is taken, or no descriptor is left";
  return absl::UnavailableError(absl::StrCat("cannot make a folder in the image store ", root, ": ", why));
}

ImageTools::~ImageTools() {
  if (folder_.empty()) return;
  const absl::Status removed = RemoveTree(folder_);
  if (!removed.ok())
    INGOT_LOG(warn, "the scratch folder {} stays in part: {}", folder_, std::string(removed.message()));
}

absl::StatusOr<std::string> ImageTools::Run(const std::vector<std::string>& argv, std::chrono::seconds patience) const {
  const std::string log = folder_ + "/log";
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd out(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!null.valid() || !out.valid()) return ErrnoStatus(errno, absl::StrCat("cannot write ", log));
  Command command{.argv = argv,
                  .env = InheritedEnvironment({"PATH", "HOME", "HTTPS_PROXY", "SSL_CERT_FILE"}),
                  .working_dir = "/",
                  .stdin_text = ""};
  command.env["XDG_RUNTIME_DIR"] = folder_;
  command.env["TMPDIR"] = folder_;
  // The parent of the tool is this thread, which waits for it.
  const absl::StatusOr<pid_t> pid = Spawn(command, {null.get(), out.get(), out.get()}, {.dies_with_its_thread = true});
  if (!pid.ok()) {
    return base::Annotate(pid.status(),
                          absl::StrCat("images need ", argv[0], " (scripts/setup.sh services installs it)"));
  }
  INGOT_ASSIGN_OR_RETURN(const int status, Await(*pid, argv[0], patience));
  std::string output = ReadText(log);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  return absl::InvalidArgumentError(absl::StrCat(argv[0], " failed: ", LastLineOf(output)));
}

absl::StatusOr<int> ImageTools::Await(pid_t pid, const std::string& name, std::chrono::seconds patience) const {
  const auto deadline = DiskWatch::SteadyClock::now() + patience;
  DiskWatch disk(folder_, limits_);
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  absl::Status ended;
  pollfd events[] = {{process.get(), POLLIN, 0}, {cancel_.fd(), POLLIN, 0}};
  while (ended.ok() && poll(events, 2, 200) <= 0) {
    const auto now = DiskWatch::SteadyClock::now();
    if (const auto fault = disk.Fault(now)) ended = StatusOf(*fault);
    if (now >= deadline) {
      ended = absl::DeadlineExceededError(
          absl::StrCat(name, " has not ended within ", patience.count(), " s, and was killed"));
    }
  }
  if (ended.ok() && cancel_.cancelled()) ended = absl::CancelledError(absl::StrCat("stopped, and ", name, " with it"));
  if (!ended.ok()) kill(-pid, SIGKILL);  // its processes too
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  INGOT_RETURN_IF_ERROR(ended);
  if (const auto fault = disk.FaultAtEnd()) return StatusOf(*fault);
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
      INGOT_LOG(warn, "the scratch folder {} of an ended process stays in part: {}", it->path().string(),
                std::string(removed.message()));
    }
  }
}

}  // namespace ingot::sandbox
