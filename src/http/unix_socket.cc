#include "http/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ingot::http {
namespace {

constexpr int kBacklog = 64;
constexpr time_t kTimeoutSeconds = 1;

// Creates a socket. A connection attempt waits while the listener's queue is full.
int NewSocket() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval longest{.tv_sec = kTimeoutSeconds, .tv_usec = 0};
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest));
  return fd;
}

// A socket file's name in its folder and its address.
struct Place {
  SocketName socket;
  std::string name;
  sockaddr_un address{};

  absl::Status Find(const std::string& path) {
    INGOT_ASSIGN_OR_RETURN(socket, NameOfSocket(path));
    name = path.substr(path.rfind('/') + 1);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket.path.data(), socket.path.size());
    return absl::OkStatus();
  }
  bool Connect(int fd) const { return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0; }
  bool Bind(int fd) const { return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0; }
};

}  // namespace

absl::StatusOr<SocketName> NameOfSocket(const std::string& path) {
  constexpr size_t kMax = sizeof(sockaddr_un::sun_path) - 1;
  const size_t name = path.rfind('/') + 1;
  const std::string folder = name == 0 ? "." : path.substr(0, name);
  SocketName socket{.folder = base::Fd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), .path = path};
  if (!socket.folder.valid()) return absl::UnavailableError(std::strerror(errno));
  if (path.size() > kMax) socket.path = absl::StrCat("/proc/self/fd/", socket.folder.get(), "/", path.substr(name));
  if (name < path.size() && socket.path.size() <= kMax) return socket;
  return absl::UnavailableError("the socket file's name is too long or empty");
}

absl::StatusOr<int> ListenUnix(const std::string& path) {
  const auto fail = [&](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", path, ": ", why));
  };
  Place place;
  if (const absl::Status found = place.Find(path); !found.ok()) return fail(std::string(found.message()));
  struct stat what{};
  if (fstatat(place.socket.folder.get(), place.name.c_str(), &what, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISSOCK(what.st_mode)) return fail("a file with this name exists and is not a socket");
    const base::Fd probe(NewSocket());
    if (!probe.valid()) return fail(std::strerror(errno));
    if (place.Connect(probe.get()) || errno != ECONNREFUSED) return fail("another process is listening there");
    if (unlinkat(place.socket.folder.get(), place.name.c_str(), 0) != 0) return fail(std::strerror(errno));
  }
  base::Fd made(NewSocket());
  // The file gets the descriptor's mode, so it is never accessible to others.
  if (!made.valid() || fchmod(made.get(), S_IRUSR | S_IWUSR) != 0 || !place.Bind(made.get()) ||
      listen(made.get(), kBacklog) != 0) {
    return fail(std::strerror(errno));
  }
  return made.Release();
}

absl::StatusOr<int> ConnectUnix(const std::string& path) {
  const auto fail = [&](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("no process is listening at ", path, ": ", why));
  };
  Place place;
  if (const absl::Status found = place.Find(path); !found.ok()) return fail(std::string(found.message()));
  base::Fd made(NewSocket());
  if (!made.valid()) return fail(std::strerror(errno));
  if (place.Connect(made.get())) return made.Release();
  if (errno != EAGAIN) return fail(std::strerror(errno));
  return absl::DeadlineExceededError(absl::StrCat("the process listening at ", path,
                                                  " has not accepted a connection for ", kTimeoutSeconds,
                                                  " s: it may be stopped"));
}

pid_t ListenerOf(int fd) {
  ucred who = {};
  socklen_t size = sizeof(who);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}

}  // namespace ingot::http
