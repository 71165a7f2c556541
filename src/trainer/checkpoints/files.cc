#include "trainer/checkpoints/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/file.h"

namespace ingot::trainer {
namespace {

using base::Fd;

absl::Status Failed(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return Failed("open", path);
  std::string contents;
  std::vector<char> block(size_t{1} << 16);
  for (;;) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0) return contents;
    contents.append(block.data(), static_cast<size_t>(got));
  }
}

absl::Status WriteTexts(const std::string& dir, const std::map<std::string, std::string>& texts) {
  std::set<std::string> folders;
  for (const auto& [name, text] : texts) {
    const std::string path = dir + "/" + name, folder = std::filesystem::path(path).parent_path().string();
    std::error_code error;
    if (folder != dir && folders.insert(folder).second) std::filesystem::create_directory(folder, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot create ", folder, ": ", error.message()));
    INGOT_RETURN_IF_ERROR(base::WriteFileDurably(path, text));
  }
  for (const std::string& folder : folders) INGOT_RETURN_IF_ERROR(base::SyncDir(folder));
  return absl::OkStatus();
}

}  // namespace ingot::trainer
