#include "sandbox/image/image_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_join.h"
#include "base/checksum.h"
#include "sandbox/image/image_inventory.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kKinds = {"oci-archive", "docker-archive", "oci",
                                                    "dockerfile",  "folder",         "docker"};

// Parses the name without accessing the machine's files.
absl::StatusOr<ImageSource> Split(const std::string& text) {
  const size_t colon = text.find(':');
  ImageSource source{.kind = text.substr(0, colon), .path = colon == std::string::npos ? "" : text.substr(colon + 1)};
  const bool is_remote = source.kind == "docker";
  const bool is_known = std::find(kKinds.begin(), kKinds.end(), source.kind) != kKinds.end();
  if (!is_known || source.path.empty() || (is_remote && (!source.path.starts_with("//") || source.path.size() == 2))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the image '", text, "' must be oci-archive:FILE, docker-archive:FILE, ",
                     "oci:FOLDER, dockerfile:FOLDER, folder:FOLDER, docker://NAME, or sha256:HEX"));
  }
  if (is_remote) source.moves = !IsImageDigest(source.path.substr(source.path.rfind('@') + 1));
  return source;
}

// REQUIRES: both are absolute and normalized.
bool IsIn(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

fs::path Normal(const std::string& path) {
  std::error_code error;
  const fs::path normal = fs::absolute(path, error).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();  // without a trailing slash
}

// Returns where the path leads if that is in one of the folders. Accesses nothing outside them, except for the targets
// of their own links.
fs::path PlaceIn(const std::vector<std::string>& folders, const std::string& path) {
  for (const std::string& folder : folders) {
    std::error_code error;
    const fs::path named = Normal(folder), real = fs::canonical(named, error), wanted = Normal(path);
    if (error || (!IsIn(wanted, named) && !IsIn(wanted, real))) continue;
    fs::path found = fs::canonical(wanted, error);
    if (!error && IsIn(found, real)) return found;
  }
  return {};
}

// Tools follow links in a layout.
absl::Status CheckNoLinks(const ImageSource& source) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(source.path, error), end; !error && it != end; it.increment(error)) {
    const fs::file_type type = it->symlink_status(error).type();
    if (type == fs::file_type::regular || type == fs::file_type::directory) continue;
    return absl::InvalidArgumentError(absl::StrCat("the layout ", source.path, " has a link or a special file"));
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read the layout ", source.path, ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImageSource> ParseImageSource(const std::string& text) {
  INGOT_ASSIGN_OR_RETURN(ImageSource source, Split(text));
  if (source.kind == "docker") return source;
  std::error_code error;
  if (!fs::exists(source.path, error)) {
    return absl::NotFoundError(absl::StrCat(source.path, ", which the image '", text, "' refers to, does not exist"));
  }
  source.path = fs::absolute(source.path).string();
  return source;
}

absl::StatusOr<ImageSource> ParseStrangersSource(const std::string& text, const std::vector<std::string>& folders) {
  INGOT_ASSIGN_OR_RETURN(ImageSource source, Split(text));
  if (source.kind == "docker") return source;
  source.path = PlaceIn(folders, source.path).string();
  if (source.path.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the image '", text,
                     "' is not in a folder that tasks and clients can use images from: agents.image_folders, or ",
                     "--image-folder of a service, lists such folders. docker://NAME and sha256:HEX do not need one"));
  }
  if (source.kind == "oci") INGOT_RETURN_IF_ERROR(CheckNoLinks(source));
  return source;
}

std::string Fingerprint(const ImageSource& source) {
  std::vector<std::string> facts;
  const auto add = [&facts](const fs::path& each) {
    struct stat info;
    if (lstat(each.c_str(), &info) != 0) return;
    facts.push_back(
        absl::StrCat(each.string(), " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec));
  };
  std::error_code error;
  if (source.kind == "docker") {
    facts.push_back(source.path);
  } else {
    add(source.path);
    if (fs::is_directory(source.path, error)) {
      for (fs::recursive_directory_iterator it(source.path, error), end; !error && it != end; it.increment(error))
        add(it->path());
    }
  }
  std::sort(facts.begin(), facts.end());
  return base::Hex(base::ContentKey(absl::StrCat(source.kind, "\n", absl::StrJoin(facts, "\n"))));
}

int64_t SizeOf(const std::string& path) {
  const auto size = [](const fs::path& each) -> int64_t {
    struct stat info;
    return lstat(each.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : 0;
  };
  int64_t bytes = size(path);
  std::error_code error;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    bytes += size(it->path());
  return bytes;
}

}  // namespace ingot::sandbox
