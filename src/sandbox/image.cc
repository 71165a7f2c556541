#include "sandbox/image.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/checksum.h"
#include "base/json.h"
#include "sandbox/process.h"
#include "sandbox/remove_tree.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kToolPatience(30);

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

// Waits for a tool, and ends it when its folder is too large or it takes too long. Returns the wait status.
absl::StatusOr<int> AwaitTool(pid_t pid, const std::string& name, DiskWatch& disk) {
  const auto deadline = DiskWatch::SteadyClock::now() + kToolPatience;
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  int status = 0;
  absl::Status ended;
  pollfd end{process.get(), POLLIN, 0};
  while (ended.ok() && poll(&end, 1, 200) == 0) {
    const auto now = DiskWatch::SteadyClock::now();
    if (const auto fault = disk.Fault(now)) ended = StatusOf(*fault);
    if (now >= deadline)
      ended = absl::DeadlineExceededError(absl::StrCat(name, " ran for half an hour, and was ended"));
  }
  if (!ended.ok()) kill(-pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  INGOT_RETURN_IF_ERROR(ended);
  if (const auto fault = disk.FaultAtEnd()) return StatusOf(*fault);
  return status;
}

// Outside of rooms a user of the machine could gain from these.
absl::Status DropPrivilegeBits(const std::string& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat info;
    const char* const path = it->path().c_str();
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) continue;
    lremovexattr(path, "security.capability");
    if ((info.st_mode & (S_ISUID | S_ISGID)) != 0 && chmod(path, info.st_mode & 01777) != 0)
      return ErrnoStatus(errno, absl::StrCat("cannot take setuid from ", path));
  }
  return error ? absl::UnavailableError(absl::StrCat("cannot read ", folder, ": ", error.message())) : absl::OkStatus();
}

}  // namespace

std::string PlaceIn(const std::string& rootfs, const std::string& path) {
  constexpr int kMostLinks = 40;  // of a path, as in the kernel
  std::vector<std::string> done;
  std::vector<std::string> left;  // the next one last
  const auto add = [&left](const std::string& more) {
    const std::vector<std::string> parts = absl::StrSplit(more, '/', absl::SkipEmpty());
    left.insert(left.end(), parts.rbegin(), parts.rend());
  };
  add(path);
  for (int links = 0; !left.empty();) {
    const std::string part = std::move(left.back());
    left.pop_back();
    if (part == ".") continue;
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(part);
    std::error_code none;
    const fs::path target = fs::read_symlink(absl::StrCat(rootfs, "/", absl::StrJoin(done, "/")), none);
    if (none) continue;
    if (++links > kMostLinks) return path;
    done.pop_back();
    if (target.is_absolute()) done.clear();
    add(target.string());
  }
  return absl::StrCat("/", absl::StrJoin(done, "/"));
}

absl::Status ImageStore::RunTool(const std::vector<std::string>& argv, const std::string& scratch) const {
  const std::string log = scratch + "/log";
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd out(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!null.valid() || !out.valid()) return ErrnoStatus(errno, absl::StrCat("cannot write ", log));
  Command command{.argv = argv,
                  .env = InheritedEnvironment({"PATH", "HOME", "HTTPS_PROXY", "SSL_CERT_FILE"}),
                  .working_dir = "/",
                  .stdin_text = ""};
  command.env["XDG_RUNTIME_DIR"] = scratch;
  command.env["TMPDIR"] = scratch;
  const absl::StatusOr<pid_t> pid = Spawn(command, {null.get(), out.get(), out.get()}, {});
  if (!pid.ok()) {
    return base::Annotate(pid.status(),
                          absl::StrCat("images need ", argv[0], " (scripts/setup.sh services installs it)"));
  }
  DiskWatch disk(scratch, limits_);
  INGOT_ASSIGN_OR_RETURN(const int status, AwaitTool(*pid, argv[0], disk));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(argv[0], " failed: ", LastLineOf(ReadText(log))));
}

namespace {

// A folder for one unpacking, on the store's file system. Removed with the object.
class Scratch {
 public:
  static absl::StatusOr<Scratch> Make(const std::string& root) {
    std::error_code error;
    fs::create_directories(root + "/sources", error);
    std::string path = root + "/unpack-XXXXXX";
    if (error || mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat("cannot make a folder in the image store ", root, ": ",
                                                 error ? error.message() : std::strerror(errno)));
    }
    return Scratch(std::move(path));
  }
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ~Scratch() {
    if (!path_.empty()) RemoveTree(path_).IgnoreError();
  }
  const std::string& path() const { return path_; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string FolderName(std::string digest) {
  std::replace(digest.begin(), digest.end(), ':', '-');
  return digest;
}

bool IsDigest(const std::string& text) {
  return text.starts_with("sha256:") && text.size() == 71 &&
         std::all_of(text.begin() + 7, text.end(), [](char c) { return std::isxdigit(static_cast<unsigned char>(c)); });
}

// Names, sizes and times of a file, or of all files of a folder.
std::string Fingerprint(const std::string& kind, const std::string& path) {
  std::vector<std::string> facts;
  const auto add = [&facts](const fs::path& each) {
    struct stat info;
    if (lstat(each.c_str(), &info) != 0) return;
    facts.push_back(
        absl::StrCat(each.string(), " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec));
  };
  add(path);
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      add(it->path());
  }
  std::sort(facts.begin(), facts.end());
  return base::Hex(base::ContentKey(absl::StrCat(kind, "\n", absl::StrJoin(facts, "\n"))));
}

// The digest of the one manifest of an OCI layout.
absl::StatusOr<std::string> DigestOf(const std::string& layout) {
  INGOT_ASSIGN_OR_RETURN(const base::json::value index, base::ParseJson(ReadText(layout + "/index.json")));
  const base::json::value* const manifests = base::Find(index, "manifests");
  if (manifests == nullptr || !manifests->is_array() || manifests->get_array().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(layout, " holds no image"));
  }
  const base::json::value* const digest = base::Find(manifests->get_array()[0], "digest");
  if (digest == nullptr || !digest->is_string()) return absl::InvalidArgumentError("an image without a digest");
  return std::string(digest->get_string());
}

}  // namespace

absl::StatusOr<Image> ImageStore::Load(const std::string& digest) const {
  const std::string folder = absl::StrCat(root_, "/", FolderName(digest));
  Image image;
  image.digest = digest;
  image.rootfs = fs::absolute(folder + "/rootfs").string();
  std::error_code error;
  if (!fs::is_directory(image.rootfs, error)) {
    return absl::NotFoundError(absl::StrCat("the store ", root_, " has no image ", digest));
  }
  INGOT_ASSIGN_OR_RETURN(const base::json::value config, base::ParseJson(ReadText(folder + "/image.json")));
  const base::json::value* const process = base::Find(config, "process");
  if (process == nullptr) return image;
  if (const auto* const cwd = base::Find(*process, "cwd"); cwd != nullptr && cwd->is_string()) {
    image.working_dir = std::string(cwd->get_string());
  }
  const base::json::value* const env = base::Find(*process, "env");
  if (env == nullptr || !env->is_array()) return image;
  for (const base::json::value& entry : env->get_array()) {
    if (!entry.is_string()) continue;
    const std::string text(entry.get_string());
    const size_t equals = text.find('=');
    if (equals != std::string::npos && equals > 0) image.env[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return image;
}

absl::StatusOr<std::string> ImageStore::Build(const std::string& folder, const std::string& scratch) {
  const std::string archive = scratch + "/built.tar";
  const std::vector<std::string> buildah = {"buildah",   "--storage-driver", "vfs", "--root", scratch + "/storage",
                                            "--runroot", scratch + "/run"};
  std::vector<std::string> build = buildah;
  build.insert(build.end(), {"bud", "--isolation", "chroot", "--tag", "ingot-image", folder});
  INGOT_RETURN_IF_ERROR(RunTool(build, scratch));
  std::vector<std::string> push = buildah;
  push.insert(push.end(), {"push", "ingot-image", "oci-archive:" + archive});
  INGOT_RETURN_IF_ERROR(RunTool(push, scratch));
  return "oci-archive:" + archive;
}

absl::StatusOr<std::string> ImageStore::Unpack(const std::string& source, const std::string& scratch) {
  const std::string layout = scratch + "/layout", bundle = scratch + "/bundle";
  INGOT_RETURN_IF_ERROR(RunTool({"skopeo", "--insecure-policy", "copy", source, "oci:" + layout + ":image"}, scratch));
  INGOT_ASSIGN_OR_RETURN(std::string digest, DigestOf(layout));
  const std::string place = absl::StrCat(root_, "/", FolderName(digest));
  std::error_code error;
  if (fs::is_directory(place, error)) return digest;
  // Without owners: rooms show all files as their own root's.
  INGOT_RETURN_IF_ERROR(RunTool({"umoci", "unpack", "--rootless", "--image", layout + ":image", bundle}, scratch));
  INGOT_RETURN_IF_ERROR(DropPrivilegeBits(bundle + "/rootfs"));
  fs::rename(bundle + "/config.json", bundle + "/image.json", error);
  for (fs::directory_iterator it(bundle, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name != "rootfs" && name != "image.json") INGOT_RETURN_IF_ERROR(RemoveTree(it->path().string()));
  }
  chmod(bundle.c_str(), 0755);
  fs::rename(bundle, place, error);
  if (error && !fs::is_directory(place)) {
    return absl::UnavailableError(absl::StrCat("cannot put an image into ", place, ": ", error.message()));
  }
  return digest;
}

absl::StatusOr<Image> ImageStore::Resolve(const std::string& source) {
  if (IsDigest(source)) return Load(source);
  const size_t colon = source.find(':');
  const std::string kind = source.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : source.substr(colon + 1);
  static const std::vector<std::string> kinds = {"oci-archive", "docker-archive", "oci",
                                                 "dockerfile",  "folder",         "docker"};
  if (path.empty() || std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the image '", source, "' is none of oci-archive:FILE, docker-archive:FILE, ",
                     "oci:FOLDER, dockerfile:FOLDER, folder:FOLDER, docker://NAME and sha256:HEX"));
  }
  std::error_code error;
  if (kind != "docker" && !fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("there is no ", path, ", which the image '", source, "' names"));
  }
  if (kind == "folder")
    return Image{.digest = "", .rootfs = fs::absolute(path).string(), .env = {}, .working_dir = "/"};
  const std::string whole = kind == "docker" ? path : fs::absolute(path).string();
  const std::string known = absl::StrCat(root_, "/sources/", Fingerprint(kind, whole));
  base::MutexLock lock(mu_);
  if (const std::string digest = ReadText(known); IsDigest(digest)) {
    auto image = Load(digest);
    if (image.ok()) return image;
  }
  INGOT_ASSIGN_OR_RETURN(const Scratch scratch, Scratch::Make(root_));
  std::string archive = absl::StrCat(kind, ":", whole);
  if (kind == "dockerfile") {
    INGOT_ASSIGN_OR_RETURN(archive, Build(whole, scratch.path()));
  }
  auto digest = Unpack(archive, scratch.path());
  if (!digest.ok()) return base::Annotate(digest.status(), absl::StrCat("the image '", source, "'"));
  std::ofstream(known) << *digest;
  return Load(*digest);
}

}  // namespace ingot::sandbox
