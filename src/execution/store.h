// The sessions that stay between requests, of every API. Each has an end: a moment, or a time without use. After it,
// requests no longer find the session. It counts until its sandbox is gone, and no request thread waits for that.
// Thread safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/status.h"
#include "execution/interpreter.h"
#include "execution/lane.h"
#include "execution/session.h"
#include "sandbox/image/image.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::execution {

struct StoreOptions {
  int sessions = 64;                         // at a time
  int64_t memory_bytes = 0;                  // that all of them may use together; 0 = no limit
  int64_t session_bytes = int64_t{1} << 30;  // a session's share, unless its opener asks for a different one
  std::chrono::nanoseconds idle = std::chrono::seconds(600);
  std::chrono::nanoseconds longest = std::chrono::hours(24);  // life of a session
  std::chrono::nanoseconds timeout = SessionOptions().timeout;
  const base::Clock* clock = &base::Clock::Real();  // of the ends
};

struct OpenRequest {
  std::string image;        // sandbox/image/image.h; empty = the machine's programs
  sandbox::Image unpacked;  // that image
  std::map<std::string, std::string> env;
  sandbox::GroupLimits totals;           // 0 = the store's share, or the substrate's
  std::chrono::nanoseconds idle{0};      // 0 = the store's; negative = it may be idle
  std::chrono::nanoseconds lifetime{0};  // 0 = the store's longest
  std::string template_name;             // the client's text, for its lists
  std::map<std::string, std::string> metadata;
};

// One session with its interpreters.
class HeldSession {
 public:
  using Clock = std::chrono::system_clock;
  HeldSession(std::string id, OpenRequest request, std::shared_ptr<Session> session, Clock::time_point now);

  const std::string id;
  const std::string token;  // shows that a client may use this session
  const OpenRequest request;
  const Clock::time_point started_at;
  const std::shared_ptr<Session> session;

  // "" = the first one, which is made on first use. Null = no such interpreter.
  std::shared_ptr<Interpreter> FindInterpreter(const std::string& name);
  std::string AddInterpreter(const std::string& folder);  // its name. "" = too many
  bool RemoveInterpreter(const std::string& name);
  std::map<std::string, std::shared_ptr<Interpreter>> Interpreters();

  Clock::time_point ends_at();
  void SetEnd(Clock::time_point end);

 private:
  friend class SessionStore;
  void Use(Clock::time_point now);

  base::Mutex mu_;
  Clock::time_point ends_at_ ABSL_GUARDED_BY(mu_), used_ ABSL_GUARDED_BY(mu_);
  bool found_ ABSL_GUARDED_BY(mu_) = false;  // a request has found it
  std::map<std::string, std::shared_ptr<Interpreter>> interpreters_ ABSL_GUARDED_BY(mu_);

 public:
  // Where requests of this session wait. Batches have their own, as they may take hours. Last: their tasks use the
  // rest.
  Lane orders{4, 64}, batches{4, 16};
};

class SessionStore {
 public:
  SessionStore(sandbox::Substrate& substrate, StoreOptions options) : substrate_(substrate), options_(options) {}
  ~SessionStore() { Close(); }

  // Ends all sessions, and blocks until the last pointer to one is gone, and its sandbox. Do not call Open afterwards.
  void Close();

  // Blocks. RESOURCE_EXHAUSTED: too many sessions, or too little memory left; CANCELLED: the caller gave up waiting,
  // and the session is gone.
  absl::StatusOr<std::shared_ptr<HeldSession>> Open(OpenRequest request, const sandbox::Cancellation& cancel);
  // A use from now until the pointer's last copy is dropped. The store outlives it. Null = no such session, or it has
  // ended. None of the functions below blocks, nor does dropping a pointer.
  std::shared_ptr<HeldSession> Find(const std::string& id);
  // False: no such session. Calls `gone`, on any thread, once the session's sandbox is gone too; null = not wanted.
  bool Remove(const std::string& id, std::function<void()> gone = nullptr);
  // Removes a session that no request has found: its opener did not get its id.
  void RemoveUnused(const std::string& id);
  // Removes sessions whose end has come.
  void RemoveEnded();
  std::vector<std::shared_ptr<HeldSession>> List();  // by id
  HeldSession::Clock::time_point now() const;

 private:
  absl::StatusOr<std::shared_ptr<Session>> OpenSandbox(const OpenRequest& request, const sandbox::Cancellation& cancel);
  std::shared_ptr<HeldSession> Own(std::unique_ptr<HeldSession> held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsOver(const std::shared_ptr<HeldSession>& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  sandbox::Substrate& substrate_;
  const StoreOptions options_;
  base::Mutex mu_;
  base::CondVar changed_;
  std::map<std::string, std::shared_ptr<HeldSession>> held_ ABSL_GUARDED_BY(mu_);
  int owned_ ABSL_GUARDED_BY(mu_) = 0;               // Held that are not destroyed
  int sandboxes_ ABSL_GUARDED_BY(mu_) = 0;           // opening, open, or ending
  int64_t promised_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of these sandboxes
  // Destroys sessions, which waits for their threads. Last: it ends before the rest.
  base::Executor ends_{{.name = "session ends", .threads = 1}};
};

}  // namespace ingot::execution
