#include "base/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

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
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' ", why));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return refuse(absl::StrCat("cannot be read: ", std::strerror(errno)));
  struct stat what{};
  std::array<char, kLongest + 1> bytes;
  size_t size = 0;
  int error = fstat(fd, &what) == 0 ? 0 : errno;
  while (error == 0 && size < bytes.size()) {
    const ssize_t got = read(fd, bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno != EINTR) error = errno;
    if (got == 0) break;
    if (got > 0) size += static_cast<size_t>(got);
  }
  close(fd);
  if (error != 0) return refuse(absl::StrCat("cannot be read: ", std::strerror(error)));
  if ((what.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return refuse(absl::StrCat("is open to other users of this machine: `chmod 600 ", path, "`"));
  }
  const std::string_view text(bytes.data(), size);
  const size_t begin = text.find_first_not_of(kSpace);
  const std::string_view word =
      begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  if (size <= kLongest && IsSecret(word)) return std::string(word);
  return refuse(absl::StrCat("must hold one word of ", kShortest, " to ", kLongest,
                             " printable ASCII characters, e.g. of `openssl rand -hex 32`"));
}

}  // namespace ingot::base
