#include "app/cluster/status/socket_question.h"

#include "app/cluster/status/unresponsive_roles.h"
#include "base/fd.h"
#include "http/unix_socket.h"

namespace ingot::app {

absl::StatusOr<http::Answer> AskSocket(const std::string& path, const std::string& target, const std::string& who,
                                       std::chrono::milliseconds timeout) {
  return AskSocket(path, {.url = target, .timeout = timeout}, who);
}

absl::StatusOr<http::Answer> AskSocket(const std::string& path, http::ClientRequest request, const std::string& who) {
  request.url = "http://run" + request.url;
  request.unix_socket = path;
  request.max_answer_bytes = 1 << 20;
  absl::StatusOr<http::Answer> answer = http::Client().Send(request);
  if (answer.ok()) return answer;
  INGOT_ASSIGN_OR_RETURN(const int fd, http::ConnectUnix(path));  // or returns the reason why no server listens there
  const base::Fd connected(fd);
  const std::string what = absl::StrCat(who, " at ", path, " does not respond");
  if (!absl::IsDeadlineExceeded(answer.status())) {
    return absl::UnavailableError(absl::StrCat(what, ": ", answer.status().message()));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(what, " within ", request.timeout.count(), " ms: ", DescribeProcess(http::ListenerOf(fd))));
}

}  // namespace ingot::app
