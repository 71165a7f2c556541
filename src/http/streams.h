// Sends requests whose responses arrive over a long time, such as server-sent events, all on one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "http/client.h"

namespace ingot::http {

// Thread safe. Callbacks run on the object's thread, so they must not block. They may call Start and Close. After a
// response, its connection stays open for later requests.
class Streams {
 public:
  struct Request {
    ClientRequest head;  // `body` and `cancelled` have no effect
    std::string body;
    // Called once, after all of the request's other callbacks, with the response (without a body if `on_bytes` received
    // it) or with an error as from Client::Send. CANCELLED = Close or the destructor was called.
    std::function<void(absl::StatusOr<Answer>)> on_end;
  };

  // `max_connections` is a limit on open connections, > 0. Further requests wait for a connection.
  explicit Streams(int max_connections);
  ~Streams();  // ends all requests with CANCELLED
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Starts a request and returns immediately. Returns its id, which is never 0.
  uint64_t Start(Request request);
  // Closes the request's connection so that the server aborts the request. Returns immediately. Does nothing if the
  // request has ended.
  void Close(uint64_t id);
  // Runs `task` once on the object's thread, unless the object is being destroyed. Returns immediately.
  void Post(std::function<void()> task);

 private:
  struct Open;  // a request on its libcurl handle
  void Run();
  // Executes what Start, Close, and Post requested. Returns false when the object is being destroyed.
  bool TakeInbox() ABSL_LOCKS_EXCLUDED(mu_);
  void Begin(std::unique_ptr<Open> open);
  void Settle();
  void End(uint64_t id, absl::StatusOr<Answer> answer);

  struct Multi;
  const std::unique_ptr<Multi> multi_;
  std::map<uint64_t, std::unique_ptr<Open>> open_;  // used by the thread
  base::Mutex mu_;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 1;
  std::vector<std::unique_ptr<Open>> started_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> closed_ ABSL_GUARDED_BY(mu_);
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // declared last because it uses the other members
};

}  // namespace ingot::http
