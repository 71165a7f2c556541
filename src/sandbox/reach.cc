#include "sandbox/reach.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_split.h"
#include "sandbox/process.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystem[] = {"/usr",   "/bin",    "/sbin", "/lib", "/lib32",
                                   "/lib64", "/libx32", "/etc",  "/opt", "/nix/store"};

std::string Octal(mode_t mode) {
  return absl::StrCat("0", absl::Hex(mode >> 6 & 7), absl::Hex(mode >> 3 & 7), absl::Hex(mode & 7));
}

std::string UsersHome() {
  const passwd* const user = getpwuid(geteuid());
  return user == nullptr || user->pw_dir == nullptr ? "" : Canonical(user->pw_dir);
}

// Returns the folder that a program needs: a prefix with bin/ and lib/, Node's packages, or the program's own folder.
std::string FolderOf(const std::string& file) {
  if (const size_t modules = file.find("/node_modules/"); modules != std::string::npos)
    return file.substr(0, modules + 13);
  const fs::path folder = fs::path(file).parent_path();
  const fs::path prefix = folder.parent_path();
  if (folder.filename() == "bin" && !IsTooWide(prefix.string())) return prefix.string();
  return folder.string();
}

void Show(const std::string& path, std::vector<std::string>& shown) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return;
  const std::string folder = S_ISDIR(info.st_mode) ? path : FolderOf(path);
  const std::string& chosen = IsTooWide(folder) ? path : folder;
  if (!IsTooWide(chosen)) shown.push_back(chosen);
}

}  // namespace

bool IsTooWide(const std::string& folder) {
  static const std::vector<std::string> wide = {"/",    "/root", "/home", "/tmp",  "/var", "/var/tmp",
                                                "/run", "/srv",  "/mnt",  "/proc", "/sys", "/dev"};
  return std::find(wide.begin(), wide.end(), folder) != wide.end() || folder == UsersHome() ||
         fs::path(folder).parent_path() == "/home";
}

// See reach.h.
std::string ClosedPart(const std::string& path) {
  fs::path part;
  struct stat info;
  for (const fs::path& name : fs::path(path)) {
    part /= name;
    if (stat(part.c_str(), &info) != 0) break;
    if (S_ISDIR(info.st_mode) && (info.st_mode & S_IXOTH) == 0) {
      return absl::StrCat(part.string(), " has mode ", Octal(info.st_mode));
    }
  }
  return stat(path.c_str(), &info) == 0 ? absl::StrCat("it has mode ", Octal(info.st_mode)) : "it does not exist";
}

bool IsWithin(const std::string& path, const std::string& folder) {
  return path == folder || (path.starts_with(folder) && (folder.ends_with('/') || path[folder.size()] == '/'));
}

std::string Canonical(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path : whole.string();
}

std::vector<NeededPath> NeededPaths(const std::vector<Program>& programs) {
  std::vector<NeededPath> wishes;
  for (const Program& program : programs) {
    if (program.argv.empty()) continue;
    const std::string& name = program.argv[0];
    if (name.starts_with('/')) {
      if (access(name.c_str(), X_OK) == 0) wishes.push_back({program.name, name, true});
    } else if (name.find('/') == std::string::npos) {
      const std::string path = program.path.empty() ? SearchPath({}) : program.path;
      for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path, ':'))) {
        const std::string candidate = absl::StrCat(folder, "/", name);
        if (folder.starts_with('/') && access(candidate.c_str(), X_OK) == 0) {
          wishes.push_back({program.name, candidate, true});
          break;
        }
      }
    }
    for (size_t i = 1; i < program.argv.size(); ++i) {
      const std::string& path = program.argv[i];
      struct stat info;
      if (!path.starts_with('/') || stat(path.c_str(), &info) != 0) continue;
      wishes.push_back({program.name, path, S_ISDIR(info.st_mode)});
    }
  }
  return wishes;
}

absl::Status CheckNotHidden(const SubstrateOptions& options) {
  for (const Program& program : options.programs) {
    for (const std::string& argument : program.argv) {
      if (!argument.starts_with('/')) continue;
      for (const std::string& hidden : options.hidden) {
        if (!IsWithin(Canonical(argument), Canonical(hidden))) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            program.name, " refers to ", argument, ", which agents cannot see: ", hidden,
            " has tasks, records, or keys of the run. Put a copy of what the agent may see in another folder"));
      }
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> ShownPaths(const SubstrateOptions& options) {
  std::vector<std::string> shown(std::begin(kSystem), std::end(kSystem));
  for (const std::string& path : options.visible) {
    if (path.starts_with('/') && path != "/") shown.push_back(path);
  }
  if (!options.images.empty()) shown.push_back(options.images);
  for (const NeededPath& needed : NeededPaths(options.programs)) {
    Show(needed.path, shown);
    Show(Canonical(needed.path), shown);
  }
  // A path below a shown path needs no mount. Links in system folders remain links.
  std::sort(shown.begin() + std::size(kSystem), shown.end());
  std::vector<std::string> fewest;
  for (const std::string& path : shown) {
    const bool is_there = std::any_of(fewest.begin(), fewest.end(), [&](const std::string& other) {
      return IsWithin(path, other) || IsWithin(Canonical(path), Canonical(other));
    });
    if (!is_there || std::find(std::begin(kSystem), std::end(kSystem), path) != std::end(kSystem))
      fewest.push_back(path);
  }
  return fewest;
}

std::vector<std::string> ImageSources(const SubstrateOptions& options) {
  std::vector<std::string> sources = options.visible;
  if (!options.images.empty()) sources.push_back(options.images);
  std::erase_if(sources, [](const std::string& path) {
    std::error_code error;
    return !path.starts_with('/') || path == "/" || !fs::is_directory(path, error);
  });
  return sources;
}

std::vector<std::string> WithoutHidden(const std::vector<std::string>& shown, const std::vector<std::string>& hidden) {
  std::vector<std::string> kept;
  for (const std::string& path : shown) {
    const std::string whole = Canonical(path);
    bool is_hidden = false, holds_one = false;
    for (const std::string& each : hidden) {
      is_hidden = is_hidden || IsWithin(whole, Canonical(each));
      holds_one = holds_one || IsWithin(Canonical(each), whole);
    }
    if (is_hidden) continue;
    if (!holds_one) {
      kept.push_back(path);
      continue;
    }
    std::vector<std::string> entries;
    std::error_code error;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      entries.push_back(it->path().string());
    }
    const std::vector<std::string> rest = WithoutHidden(entries, hidden);
    kept.insert(kept.end(), rest.begin(), rest.end());
  }
  return kept;
}

}  // namespace ingot::sandbox
