// Stores the sessions of all APIs, which persist between requests. A session ends at a set time or when it has been
// idle too long. After that, requests cannot find it. It counts toward the limits until its sandbox is gone, but
// request threads do not wait for that. Thread safe.
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
  int sessions = 64;                         // maximum number at a time
  int64_t memory_bytes = 0;                  // total memory for all sessions; 0 = no limit
  int64_t session_bytes = int64_t{1} << 30;  // memory for a session that does not request a size
  std::chrono::nanoseconds idle = std::chrono::seconds(600);
  std::chrono::nanoseconds longest = std::chrono::hours(24);  // maximum lifetime of a session
  std::chrono::nanoseconds timeout = SessionOptions().timeout;
  const base::Clock* clock = &base::Clock::Real();  // measures session times
};

struct OpenRequest {
  std::string image;        // see sandbox/image/image.h; empty = the machine's programs
  sandbox::Image unpacked;  // the unpacked image
  std::map<std::string, std::string> env;
  sandbox::GroupLimits totals;           // 0 = the store's or the substrate's default
  std::chrono::nanoseconds idle{0};      // 0 = the store's default; negative = no idle limit
  std::chrono::nanoseconds lifetime{0};  // 0 = the store's maximum
  std::string template_name;             // string from the client, shown when it lists sandboxes
  std::map<std::string, std::string> metadata;
};

// A session with its interpreters.
class HeldSession {
 public:
  using Clock = std::chrono::system_clock;
  HeldSession(std::string id, OpenRequest request, std::shared_ptr<Session> session, Clock::time_point now);

  const std::string id;
  const std::string token;  // clients must send it to use this session
  const OpenRequest request;
  const Clock::time_point started_at;
  const std::shared_ptr<Session> session;

  // Empty `name` = the default interpreter, which is created on first use. Returns null if there is no such
  // interpreter.
  std::shared_ptr<Interpreter> FindInterpreter(const std::string& name);
  std::string AddInterpreter(const std::string& folder);  // returns its name; empty = too many interpreters
  bool RemoveInterpreter(const std::string& name);
  std::map<std::string, std::shared_ptr<Interpreter>> Interpreters();

  Clock::time_point ends_at();
  void SetEnd(Clock::time_point end);

 private:
  friend class SessionStore;
  void Use(Clock::time_point now);

  base::Mutex mu_;
  Clock::time_point ends_at_ ABSL_GUARDED_BY(mu_), used_ ABSL_GUARDED_BY(mu_);
  bool found_ ABSL_GUARDED_BY(mu_) = false;  // true = a request has found this session
  std::map<std::string, std::shared_ptr<Interpreter>> interpreters_ ABSL_GUARDED_BY(mu_);

 public:
  // Threads for this session's requests. Batches have separate threads because they may take hours. Declared last
  // because their tasks use the other members.
  Lane orders{4, 64}, batches{4, 16};
};

class SessionStore {
 public:
  SessionStore(sandbox::Substrate& substrate, StoreOptions options) : substrate_(substrate), options_(options) {}
  ~SessionStore() { Close(); }

  // Ends all sessions. Blocks until all pointers to sessions have been dropped and all sandboxes are gone. Do not call
  // Open afterwards.
  void Close();

  // Opens a session. Blocks. Returns RESOURCE_EXHAUSTED if there are too many sessions or too little memory is left.
  // Returns CANCELLED, after removing the session, if `cancel` was canceled.
  absl::StatusOr<std::shared_ptr<HeldSession>> Open(OpenRequest request, const sandbox::Cancellation& cancel);
  // Returns a session, or null if it does not exist or has ended. The session is considered in use until the last copy
  // of the pointer is dropped. REQUIRES: the store outlives the pointer. This function and those below never block.
  // Dropping a pointer does not block either.
  std::shared_ptr<HeldSession> Find(const std::string& id);
  // Removes a session. Returns false if it does not exist. Calls `gone`, if not null, on any thread once its sandbox is
  // gone.
  bool Remove(const std::string& id, std::function<void()> gone = nullptr);
  // Removes a session if no request has found it yet. Used if the client that opened it did not receive the id.
  void RemoveUnused(const std::string& id);
  // Removes expired sessions.
  void RemoveEnded();
  std::vector<std::shared_ptr<HeldSession>> List();  // sorted by id
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
  int owned_ ABSL_GUARDED_BY(mu_) = 0;               // HeldSessions that have not been destroyed yet
  int sandboxes_ ABSL_GUARDED_BY(mu_) = 0;           // sandboxes that are opening, open, or closing
  int64_t promised_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // memory limits of these sandboxes
  // Destroys sessions, which blocks until their threads exit. Declared last so that it stops before the other members
  // are destroyed.
  base::Executor ends_{{.name = "session ends", .threads = 1}};
};

}  // namespace ingot::execution
