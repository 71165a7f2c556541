#include "app/learning/users.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/open_file.h"
#include "base/secret.h"
#include "gateway/episodes/episode_key.h"

namespace ingot::app {
namespace {

constexpr int64_t kMaxBytes = 64 << 20;
constexpr size_t kMaxName = 64;

bool IsName(const std::string& name) {
  const auto fits = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), fits);
}

absl::StatusOr<std::string> ReadOwnersFile(const std::string& path) {
  const auto file = base::OpenToRead(path);
  if (!file.ok()) return absl::InvalidArgumentError(file.status().message());
  struct stat what{};
  if (fstat(file->get(), &what) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' cannot be read: ", std::strerror(errno)));
  }
  if ((what.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' can be read by other users of this machine: run `chmod 600 ", path, "`"));
  }
  return base::ReadOpenFile(*file, path, kMaxBytes);
}

}  // namespace

absl::StatusOr<Users> Users::Read(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(const std::string text, ReadOwnersFile(path));
  Users users;
  int64_t number = 0;
  std::set<std::string> names;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0].starts_with('#')) continue;
    absl::Status added = absl::InvalidArgumentError("a line must be NAME KEY");
    if (words.size() == 2) added = users.Add(words[0], words[1]);
    if (added.ok() && !names.insert(words[0]).second) added = absl::InvalidArgumentError("the name is given twice");
    if (!added.ok()) return base::Annotate(added, absl::StrCat(path, ":", number));
  }
  if (users.size() == 0) return absl::InvalidArgumentError(absl::StrCat(path, " lists no user: add a line NAME KEY"));
  return users;
}

absl::Status Users::Add(const std::string& name, const std::string& key) {
  if (!IsName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name must have 1 to ", kMaxName, " letters, digits, dots, hyphens, and underscores"));
  }
  if (!base::IsSecret(key)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the key of ", name, " must have at least 16 printable ASCII characters, such as the output of `openssl rand ",
        "-hex 32`"));
  }
  if (names_.emplace(gateway::KeyHashes(key).as_owner, name).second) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the key of ", name, " belongs to another user too"));
}

std::string Users::NameOf(const std::string& key) const {
  if (key.empty()) return "";
  const auto found = names_.find(gateway::KeyHashes(key).as_owner);
  return found == names_.end() ? "" : found->second;
}

}  // namespace ingot::app
