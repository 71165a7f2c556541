#include "base/secret.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_replace.h"
#include "base/open_file.h"

namespace ingot::base {
namespace {

constexpr size_t kShortest = 16, kLongest = 4096;
constexpr char kSpace[] = " \t\r\n";

}  // namespace

bool IsSecret(std::string_view word) {
  const auto is_graphic = [](char c) { return c > ' ' && c <= '~'; };
  return word.size() >= kShortest && word.size() <= kLongest && std::all_of(word.begin(), word.end(), is_graphic);
}

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  const auto reject = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' ", why));
  };
  const auto file = OpenToRead(path);
  if (!file.ok()) return absl::InvalidArgumentError(file.status().message());
  struct stat what{};
  if (fstat(file->get(), &what) != 0) return reject(absl::StrCat("cannot be read: ", std::strerror(errno)));
  if ((what.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return reject(absl::StrCat("can be read by other users of this machine: run `chmod 600 ", path, "`"));
  }
  const auto text = ReadOpenFile(*file, path, kLongest);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  const size_t begin = text->find_first_not_of(kSpace);
  const std::string word =
      begin == std::string::npos ? "" : text->substr(begin, text->find_last_not_of(kSpace) + 1 - begin);
  if (IsSecret(word)) return word;
  return reject(absl::StrCat("must contain one word of ", kShortest, " to ", kLongest,
                             " printable ASCII characters, such as the output of `openssl rand -hex 32`"));
}

std::string WithoutKey(const std::string& text, const std::string& key) {
  return key.empty() ? text : absl::StrReplaceAll(text, {{key, "[the key]"}});
}

absl::Status WithoutKey(const absl::Status& error, const std::string& key) {
  return absl::Status(error.code(), WithoutKey(std::string(error.message()), key));
}

}  // namespace ingot::base
