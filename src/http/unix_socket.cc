#include "http/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ingot::http {
namespace {

constexpr int kBacklog = 64;

struct Descriptor {
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int fd = -1;
};

int NewSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

}  // namespace

absl::StatusOr<int> ListenUnix(const std::string& path) {
  const auto fail = [&](const char* why) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", path, ": ", why));
  };
  // A path that is too long for an address is named by its folder's descriptor.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Descriptor at{open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (at.fd < 0) return fail(std::strerror(errno));
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string shown =
      path.size() < sizeof(address.sun_path) ? path : absl::StrCat("/proc/self/fd/", at.fd, "/", name);
  if (name.empty() || shown.size() >= sizeof(address.sun_path)) return fail("its file's name is too long, or empty");
  std::memcpy(address.sun_path, shown.data(), shown.size());
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);

  struct stat what{};
  if (fstatat(at.fd, name.c_str(), &what, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISSOCK(what.st_mode)) return fail("there is a file of this name that is no socket");
    const Descriptor probe{NewSocket()};
    if (probe.fd < 0) return fail(std::strerror(errno));
    if (connect(probe.fd, where, sizeof(address)) == 0 || errno != ECONNREFUSED)
      return fail("another process listens there");
    if (unlinkat(at.fd, name.c_str(), 0) != 0) return fail(std::strerror(errno));
  }
  Descriptor made{NewSocket()};
  if (made.fd < 0) return fail(std::strerror(errno));
  // The file takes the descriptor's mode, so that it is never open to others.
  if (fchmod(made.fd, S_IRUSR | S_IWUSR) != 0 || bind(made.fd, where, sizeof(address)) != 0 ||
      listen(made.fd, kBacklog) != 0) {
    return fail(std::strerror(errno));
  }
  return std::exchange(made.fd, -1);
}

}  // namespace ingot::http
