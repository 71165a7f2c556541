// A service that executes code in rooms, over HTTP (`ingot sandbox serve`):
//
//   POST   /ingot/v1/execute                one room for the request: its cases run one after another, then it is removed
//   POST   /ingot/v1/sessions               {"id": ..}: a room that stays
//   POST   /ingot/v1/sessions/ID/execute    the same request in that room, whose files stay between requests
//   GET    /ingot/v1/sessions/ID/files/PATH bytes of a file of work/
//   DELETE /ingot/v1/sessions/ID
//   GET    /health                          {"rung": ..}
//
// A request: {"language": "python" | "shell", "code": TEXT} or {"command": [..]}, and, if wanted, "files": {PATH: TEXT}, "env":
// {NAME: TEXT}, "cases": [{"stdin": TEXT}], "image": SOURCE (sandbox/image.h; not in a session's execute), "limits": {"wall_s", "memory_bytes",
// "output_bytes", "cpu_s"}. Without cases there is one without stdin. The answer: {"cases": [{"stdout", "stderr", "ending", "exit_code",
// "signal", "wall_s", "cpu_s", "max_rss_bytes"}]}; a program's own failure is an answer of 200. Errors are
// {"error": {"code", "message"}}: 400 for the request, 401 without the key, 404, 429 while all slots are taken, 503 if the
// sandbox failed. Answers are JSON, so bytes that are not UTF-8 become '?'.
//
// Thread safe. Requests run on threads of the service's own, `slots` at a time.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "base/executor.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/status.h"
#include "http/handler.h"
#include "sandbox/image.h"
#include "sandbox/substrate.h"

namespace ingot::app {

struct ExecutionOptions {
  std::string key;                                                // clients show it as a bearer; empty = nobody has to
  int slots = 4;                                                  // requests that run at a time
  int sessions = 64;                                              // rooms that stay at a time
  std::chrono::seconds session_idle = std::chrono::seconds(600);  // a session that nobody uses is removed
  std::string images;                                             // the store
};

class ExecutionService final : public http::Handler {
 public:
  ExecutionService(std::unique_ptr<sandbox::Substrate> substrate, ExecutionOptions options);
  ~ExecutionService() override;

  http::Opening Head(http::RequestHead head) override;

  // Removes sessions that nobody used for session_idle.
  void RemoveIdle();

 private:
  struct Session {
    base::Mutex mu;  // one request at a time
    std::unique_ptr<sandbox::Room> room ABSL_GUARDED_BY(mu);
    std::chrono::steady_clock::time_point used;  // guarded by the service's mu_
  };

  http::Reply Answer(const http::RequestHead& head, const std::string& body);
  absl::StatusOr<base::json::object> Execute(const std::string& body);
  absl::StatusOr<base::json::object> ExecuteIn(sandbox::Room& room, const base::json::value& request,
                                               const sandbox::Image& image) const;
  absl::StatusOr<base::json::object> OpenSession();
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& id);
  http::Reply AnswerSession(const std::string& method, const std::string& rest, const std::string& body);

  const std::unique_ptr<sandbox::Substrate> substrate_;
  const ExecutionOptions options_;
  sandbox::ImageStore images_;
  base::Mutex mu_;
  std::map<std::string, std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mu_);
  base::Executor threads_;  // last: requests end before the rest goes
};

}  // namespace ingot::app
