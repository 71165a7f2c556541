#include "http/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ingot::http {
namespace {

constexpr int kBacklog = 64;
constexpr time_t kPatienceSeconds = 1;

struct Descriptor {
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int fd = -1;
};

// Connecting waits while the listener's queue is full.
int NewSocket() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval longest{.tv_sec = kPatienceSeconds, .tv_usec = 0};
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest));
  return fd;
}

// A socket file: its folder, its name there, and its address. A path that is too long for an address is named by its
// folder's descriptor.
struct Place {
  Descriptor folder;
  std::string name;
  sockaddr_un address{};

  // Empty, or why there is none.
  std::string Find(const std::string& path) {
    const size_t slash = path.rfind('/');
    folder.fd =
        open(slash == std::string::npos ? "." : path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder.fd < 0) return std::strerror(errno);
    name = slash == std::string::npos ? path : path.substr(slash + 1);
    std::string shown = path;
    if (path.size() >= sizeof(address.sun_path)) shown = absl::StrCat("/proc/self/fd/", folder.fd, "/", name);
    if (name.empty() || shown.size() >= sizeof(address.sun_path)) return "the name of its file is too long, or empty";
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, shown.data(), shown.size());
    return "";
  }
  bool Connect(int fd) const { return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0; }
  bool Bind(int fd) const { return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0; }
};

}  // namespace

absl::StatusOr<int> ListenUnix(const std::string& path) {
  const auto fail = [&](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", path, ": ", why));
  };
  Place place;
  if (const std::string why = place.Find(path); !why.empty()) return fail(why);
  struct stat what{};
  if (fstatat(place.folder.fd, place.name.c_str(), &what, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISSOCK(what.st_mode)) return fail("there is a file of this name that is no socket");
    const Descriptor probe{NewSocket()};
    if (probe.fd < 0) return fail(std::strerror(errno));
    if (place.Connect(probe.fd) || errno != ECONNREFUSED) return fail("another process listens there");
    if (unlinkat(place.folder.fd, place.name.c_str(), 0) != 0) return fail(std::strerror(errno));
  }
  Descriptor made{NewSocket()};
  // The file takes the descriptor's mode, so that it is never open to others.
  if (made.fd < 0 || fchmod(made.fd, S_IRUSR | S_IWUSR) != 0 || !place.Bind(made.fd) ||
      listen(made.fd, kBacklog) != 0) {
    return fail(std::strerror(errno));
  }
  return std::exchange(made.fd, -1);
}

absl::StatusOr<int> ConnectUnix(const std::string& path) {
  const auto fail = [&](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("nobody answers at ", path, ": ", why));
  };
  Place place;
  if (const std::string why = place.Find(path); !why.empty()) return fail(why);
  Descriptor made{NewSocket()};
  if (made.fd < 0) return fail(std::strerror(errno));
  if (place.Connect(made.fd)) return std::exchange(made.fd, -1);
  if (errno != EAGAIN) return fail(std::strerror(errno));
  return absl::DeadlineExceededError(absl::StrCat("the process that listens at ", path, " has taken no connection for ",
                                                  kPatienceSeconds, " s: it may be stopped"));
}

pid_t ListenerOf(int fd) {
  ucred who = {};
  socklen_t size = sizeof(who);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}

}  // namespace ingot::http
