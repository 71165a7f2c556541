// The sessions that stay between requests, of every API. Each has an end: a moment, or a time without use. Thread safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/mutex.h"
#include "base/status.h"
#include "execution/interpreter.h"
#include "execution/session.h"
#include "sandbox/image.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::execution {

struct StoreOptions {
  int sessions = 64;                         // at a time
  int64_t memory_bytes = 0;                  // that all of them may use together; 0 = no bound
  int64_t session_bytes = int64_t{1} << 30;  // a session's share, unless its opener asks for another one
  std::chrono::nanoseconds idle = std::chrono::seconds(600);
  std::chrono::nanoseconds longest = std::chrono::hours(24);  // life of a session
};

struct OpenRequest {
  std::string image;  // sandbox/image.h; empty = the machine's programs
  std::map<std::string, std::string> env;
  sandbox::GroupLimits totals;           // 0 = the store's share, or the substrate's
  std::chrono::nanoseconds idle{0};      // 0 = the store's; negative = it may be idle
  std::chrono::nanoseconds lifetime{0};  // 0 = the store's longest
  std::string template_name;             // the client's words, for its lists
  std::map<std::string, std::string> metadata;
};

// One session with its interpreters.
class Held {
 public:
  using Clock = std::chrono::system_clock;
  Held(std::string id, OpenRequest request, std::shared_ptr<Session> session);

  const std::string id;
  const std::string token;  // shows that a client may use this session
  const OpenRequest request;
  const Clock::time_point started_at = Clock::now();
  const std::shared_ptr<Session> session;

  // "" = the first one, which is made when it is asked for. Null = there is none.
  std::shared_ptr<Interpreter> FindInterpreter(const std::string& name);
  std::string AddInterpreter(const std::string& folder);  // its name. "" = too many
  bool RemoveInterpreter(const std::string& name);
  std::map<std::string, std::shared_ptr<Interpreter>> Interpreters();

  Clock::time_point ends_at();
  void SetEnd(Clock::time_point end);
  void Use();  // now

 private:
  friend class SessionStore;
  base::Mutex mu_;
  Clock::time_point ends_at_ ABSL_GUARDED_BY(mu_), used_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<Interpreter>> interpreters_ ABSL_GUARDED_BY(mu_);
};

class SessionStore {
 public:
  SessionStore(sandbox::Substrate& substrate, sandbox::ImageStore& images, StoreOptions options)
      : substrate_(substrate), images_(images), options_(options) {}

  // Blocks. RESOURCE_EXHAUSTED: too many sessions, or too little memory left; INVALID_ARGUMENT, NOT_FOUND: the image;
  // CANCELLED: nobody waits for the session any more, and it is gone.
  absl::StatusOr<std::shared_ptr<Held>> Open(OpenRequest request, const sandbox::Cancellation& cancel);
  // A use from now until the pointer's last copy goes, which never blocks. The store outlives it. Null = there is no such
  // session, or it has ended.
  std::shared_ptr<Held> Find(const std::string& id);
  // False: there is none. Blocks until its room is gone, unless a request still uses it.
  bool Remove(const std::string& id);
  // Removes sessions whose end has come.
  void RemoveEnded();
  std::vector<std::shared_ptr<Held>> List();  // by id

 private:
  absl::StatusOr<std::shared_ptr<Session>> OpenRoom(const OpenRequest& request, const sandbox::Cancellation& cancel);
  // At the end of a use.
  void LetGo(std::shared_ptr<Held> held);

  sandbox::Substrate& substrate_;
  sandbox::ImageStore& images_;
  const StoreOptions options_;
  base::Mutex mu_;
  std::map<std::string, std::shared_ptr<Held>> held_ ABSL_GUARDED_BY(mu_);
  int opening_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t promised_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of the held sessions and the opening ones
  // Waits for rooms of removed sessions. Last: it ends before the rest.
  base::Executor ends_{{.name = "session ends", .threads = 1}};
};

}  // namespace ingot::execution
