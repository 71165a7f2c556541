#include "sandbox/open_below.h"

#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ingot::sandbox {
namespace {

// An old filter of a container answers EPERM to a call that it does not know.
bool IsUnknownCall(int error) { return error == ENOSYS || error == EPERM; }

Fd OpenPartByPart(int folder, const std::string& path, int flags, mode_t mode) {
  Fd at;
  for (size_t from = 0;;) {
    const size_t slash = path.find('/', from);
    const std::string part = path.substr(from, slash == std::string::npos ? slash : slash - from);
    if (part == ".." || part.empty()) {
      errno = EXDEV;
      return Fd();
    }
    const int below = at.valid() ? at.get() : folder;
    if (slash == std::string::npos) return Fd(openat(below, part.c_str(), flags | O_NOFOLLOW, mode));
    at = Fd(openat(below, part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!at.valid()) return Fd();
    from = slash + 1;
  }
}

}  // namespace

Fd OpenBelow(int folder, const std::string& path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_NOFOLLOW);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  Fd opened(static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how))));
  if (opened.valid() || !IsUnknownCall(errno)) return opened;
  return OpenPartByPart(folder, path, flags, mode);
}

}  // namespace ingot::sandbox
