#include "app/socket_question.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "app/silent_roles.h"
#include "http/unix_socket.h"

namespace ingot::app {
namespace {

constexpr size_t kMostBytes = 1 << 20;

struct Received {
  std::string text;
  int error = 0;  // of the system; 0 = the text has its end
  bool late = false;
};

Received ReceiveAll(int fd, std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  Received received;
  while (received.text.size() < kMostBytes) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd waits{.fd = fd, .events = POLLIN, .revents = 0};
    received.late = poll(&waits, 1, static_cast<int>(std::max<int64_t>(left, 0))) == 0;
    if (received.late) return received;
    std::array<char, 4096> bytes;
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) received.error = errno;
    if (got <= 0) return received;
    received.text.append(bytes.data(), static_cast<size_t>(got));
  }
  return received;
}

}  // namespace

absl::StatusOr<SocketAnswer> AskSocket(const std::string& path, const std::string& target, const std::string& who,
                                       std::chrono::milliseconds patience) {
  INGOT_ASSIGN_OR_RETURN(const int fd, http::ConnectUnix(path));
  const std::string request = absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: run\r\nConnection: close\r\n\r\n");
  const bool sent = send(fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size());
  const int unsent = errno;
  const Received received = sent ? ReceiveAll(fd, patience) : Received{.text = "", .error = unsent, .late = false};
  const pid_t process = http::ListenerOf(fd);
  close(fd);
  if (received.late) {
    return absl::DeadlineExceededError(absl::StrCat(who, " at ", path, " gives no answer within ", patience.count(),
                                                    " ms: ", DescribeProcess(process)));
  }
  constexpr std::string_view kVersion = "HTTP/1.1 ", kEnd = "\r\n\r\n";
  const size_t end = received.text.find(kEnd);
  if (received.error != 0 || !received.text.starts_with(kVersion) || end == std::string::npos) {
    const int error = received.error;
    return absl::UnavailableError(absl::StrCat(who, " at ", path, " gives no answer",
                                               error == 0 ? "" : absl::StrCat(": ", std::strerror(error))));
  }
  return SocketAnswer{std::atoi(received.text.c_str() + kVersion.size()), received.text.substr(end + kEnd.size())};
}

}  // namespace ingot::app
