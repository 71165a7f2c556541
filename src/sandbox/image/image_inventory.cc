#include "sandbox/image/image_inventory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "sandbox/image/image_tools.h"
#include "sandbox/trees/remove_tree.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr char kUsers[] = "/users";
constexpr std::chrono::milliseconds kHoldTimeout(2000), kHoldPause(10);

// Opens the file that processes using the store lock. Other users can also read it.
Fd OpenUsers(const std::string& root) {
  Fd file(open((root + kUsers).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  if (file.valid()) fchmod(file.get(), 0644);
  return file;
}

// The first two lines of each file in sources/: a digest, and the name of a source. Older files have no name.
struct KnownSource {
  std::string file, digest, source;
};

std::vector<KnownSource> KnownSources(const std::string& root) {
  std::vector<KnownSource> known;
  std::error_code error;
  for (fs::directory_iterator it(root + "/sources", error), end; !error && it != end; it.increment(error)) {
    KnownSource each{.file = it->path().string(), .digest = "", .source = ""};
    std::ifstream lines(it->path());
    std::getline(lines, each.digest);
    std::getline(lines, each.source);
    known.push_back(std::move(each));
  }
  return known;
}

// Returns the folder's disk usage. A file with several hard links counts once.
int64_t BytesOf(const std::string& folder) {
  int64_t blocks = 0;
  std::set<std::pair<dev_t, ino_t>> seen;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(folder, options, error), end; !error && it != end; it.increment(error)) {
    struct stat info;
    if (lstat(it->path().c_str(), &info) != 0) continue;
    if (!S_ISDIR(info.st_mode) && info.st_nlink > 1 && !seen.emplace(info.st_dev, info.st_ino).second) continue;
    blocks += info.st_blocks;
  }
  return blocks * 512;
}

}  // namespace

std::string ImageFolder(const std::string& root, const std::string& digest) {
  std::string name = digest;
  std::replace(name.begin(), name.end(), ':', '-');
  return absl::StrCat(root, "/", name);
}

bool IsImageDigest(const std::string& text) {
  return text.starts_with("sha256:") && text.size() == 71 &&
         std::all_of(text.begin() + 7, text.end(), [](char c) { return std::isxdigit(static_cast<unsigned char>(c)); });
}

Fd HoldImages(const std::string& root) {
  Fd file = OpenUsers(root);
  if (!file.valid()) file.Reset(open((root + kUsers).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const auto end = std::chrono::steady_clock::now() + kHoldTimeout;
  while (file.valid() && flock(file.get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(kHoldPause);
      continue;
    }
    INGOT_LOG(warn, "the images in {} are not protected against removal: cannot acquire its lock", root);
    file.Reset();
  }
  return file;
}

void NoteUse(const std::string& root, const std::string& digest) {
  utimensat(AT_FDCWD, (ImageFolder(root, digest) + "/image.json").c_str(), nullptr, 0);
}

absl::StatusOr<std::vector<StoredImage>> ListImages(const std::string& root) {
  std::map<std::string, std::vector<std::string>> sources;
  for (const KnownSource& known : KnownSources(root)) {
    if (!known.source.empty()) sources[known.digest].push_back(known.source);
  }
  std::vector<StoredImage> images;
  std::error_code error;
  if (!fs::exists(root, error)) return images;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    std::string digest = it->path().filename().string();
    std::replace(digest.begin(), digest.end(), '-', ':');
    struct stat info;
    if (!IsImageDigest(digest) || stat((it->path() / "image.json").c_str(), &info) != 0) continue;
    std::vector<std::string> names = sources[digest];
    std::sort(names.begin(), names.end());
    images.push_back({.digest = std::move(digest),
                      .sources = std::move(names),
                      .bytes = BytesOf(it->path().string()),
                      .last_use = info.st_mtim.tv_sec});
  }
  if (error) return absl::UnavailableError(absl::StrCat("cannot list ", root, ": ", error.message()));
  std::sort(images.begin(), images.end(), [](const StoredImage& a, const StoredImage& b) {
    return std::tie(a.last_use, a.digest) < std::tie(b.last_use, b.digest);
  });
  return images;
}

absl::Status RemoveImages(const std::string& root, const std::vector<std::string>& digests) {
  std::vector<std::string> taken;
  absl::Status done;
  {
    const Fd users = OpenUsers(root);
    if (!users.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", root, kUsers));
    if (flock(users.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoStatus(errno, absl::StrCat("cannot lock ", root, kUsers));
      return absl::FailedPreconditionError(absl::StrCat("a run, a service, or a command is using images in ", root,
                                                        ": nothing was removed; wait until it ends"));
    }
    std::error_code error;
    for (const std::string& digest : digests) {
      if (fs::is_directory(ImageFolder(root, digest), error)) continue;
      return absl::NotFoundError(absl::StrCat("the store ", root, " has no image ", digest, "; nothing was removed"));
    }
    // Uses scratch folder names, so that the next unpack removes anything left by an interrupted removal.
    std::set<std::string> renamed;
    for (const std::string& digest : digests) {
      std::string folder = absl::StrCat(root, "/", kScratchPrefix, "removed-XXXXXX");
      if (mkdtemp(folder.data()) == nullptr) {
        done.Update(ErrnoStatus(errno, absl::StrCat("cannot make ", folder)));
        continue;
      }
      fs::rename(ImageFolder(root, digest), folder, error);
      if (error) {
        done.Update(absl::UnavailableError(absl::StrCat("cannot remove ", digest, ": ", error.message())));
        continue;
      }
      taken.push_back(std::move(folder));
      renamed.insert(digest);
    }
    for (const KnownSource& known : KnownSources(root)) {
      if (renamed.contains(known.digest)) fs::remove(known.file, error);
    }
  }
  for (const std::string& folder : taken) done.Update(RemoveTree(folder));
  return done;
}

}  // namespace ingot::sandbox
