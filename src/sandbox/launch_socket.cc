#include "sandbox/launch_socket.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "sandbox/launch_messages.h"

// The linker's names for the embedded program (CMakeLists.txt).
extern "C" const char _binary_ingot_launcher_start[];
extern "C" const char _binary_ingot_launcher_end[];

namespace ingot::sandbox {

absl::StatusOr<Fd> LauncherProgram() {
  const std::string_view program(_binary_ingot_launcher_start,
                                 static_cast<size_t>(_binary_ingot_launcher_end - _binary_ingot_launcher_start));
  return MemoryFile("ingot-launcher", program);
}

absl::StatusOr<Fd> MemoryFile(const char* name, std::string_view content) {
  Fd file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, "cannot create a file in memory");
  while (!content.empty()) {
    const ssize_t wrote = write(file.get(), content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return ErrnoStatus(errno, "cannot write a file in memory");
    content.remove_prefix(static_cast<size_t>(wrote));
  }
  return file;
}

void AddString(std::string& parcel, std::string_view text) {
  parcel += text;
  parcel += '\0';
}

absl::StatusOr<SocketPair> MakeSocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "cannot create a socket pair");
  }
  return SocketPair{Fd(ends[0]), Fd(ends[1])};
}

bool SendDescriptors(int socket, const std::vector<int>& fds) {
  constexpr size_t kMax = kOpenDescriptors + kMaxGroups + kFreezerDescriptors;
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char buffer[CMSG_SPACE(sizeof(int) * kMax)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = buffer;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
  cmsghdr* const control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
  memcpy(CMSG_DATA(control), fds.data(), sizeof(int) * fds.size());
  ssize_t sent;
  do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

}  // namespace ingot::sandbox
