#include "app/socket_question.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "http/unix_socket.h"

namespace ingot::app {
namespace {

constexpr time_t kPatienceSeconds = 60;
constexpr size_t kMostBytes = 1 << 20;

}  // namespace

absl::StatusOr<SocketAnswer> AskSocket(const std::string& path, const std::string& target, const std::string& who) {
  INGOT_ASSIGN_OR_RETURN(const int fd, http::ConnectUnix(path));
  const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const std::string request = absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: run\r\nConnection: close\r\n\r\n");
  std::string answer;
  ssize_t got = send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  for (std::array<char, 4096> bytes; got > 0 && answer.size() < kMostBytes;) {
    got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got > 0) answer.append(bytes.data(), static_cast<size_t>(got));
  }
  const int error = got < 0 ? errno : 0;
  close(fd);
  constexpr std::string_view kVersion = "HTTP/1.1 ", kEnd = "\r\n\r\n";
  const size_t end = answer.find(kEnd);
  if (error != 0 || !answer.starts_with(kVersion) || end == std::string::npos) {
    return absl::UnavailableError(absl::StrCat(who, " at ", path, " gives no answer",
                                               error == 0 ? "" : absl::StrCat(": ", std::strerror(error))));
  }
  return SocketAnswer{std::atoi(answer.c_str() + kVersion.size()), answer.substr(end + kEnd.size())};
}

}  // namespace ingot::app
