// A Session is a sandbox that stays, with a guest agent in it (guest_agent_messages.h). Programs run in parallel and
// keep running between requests, and files stay.
//
//   request threads ── Start, Send, Signal, Ask ──▶ orders ──▶ loop thread ──socket──▶ guest agent, in the sandbox
//   subscriptions  ◀──────────────────────────────── news ◀──      │
//                                                   keeper thread: Sandbox::Run of the guest agent, to its end
//
// The session ends by End, with the last pointer that Open returned, when the guest agent is gone (the sandbox's
// programs may kill it) or breaks the protocol, and when the sandbox's disk is full. Its processes then end with
// Ending::kCancelled and the reason. Programs may also stop the guest agent. An order that it does not answer fails
// after SessionOptions::timeout, and the session ends if a killed program does not end within that time. Dropping the
// last pointer blocks until the sandbox's last process is gone. Thread safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "execution/guest_agent_messages.h"
#include "execution/outbox.h"
#include "execution/process.h"
#include "sandbox/spawn.h"
#include "sandbox/substrate.h"

namespace ingot::execution {

struct SessionOptions {
  sandbox::SandboxOptions sandbox = {};
  std::map<std::string, std::string> env = {};  // of every process, over the defaults
  std::string folder = {};                      // where programs and paths begin; "" = the sandbox's work()
  std::string home = {};                        // "" = the sandbox's
  // The longest life.
  std::chrono::nanoseconds lifetime = std::chrono::hours(24);
  int processes = 64;                                           // programs at a time
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);  // of one order to the guest agent
};

// The answer to a file order.
struct FileAnswer {
  absl::Status
      status;  // NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, INVALID_ARGUMENT, UNAVAILABLE
  std::string bytes;
};

// A program of the sandbox may stop the guest agent, or keep it busy.
inline constexpr char kNoAnswer[] = "the session's guest agent does not answer";

class Session : public std::enable_shared_from_this<Session> {
 public:
  static absl::StatusOr<std::shared_ptr<Session>> Open(sandbox::Substrate& substrate, SessionOptions options);

  // Starts a program. `news`: of a subscription that sees its output from the first byte; null = no subscription.
  // Blocks until the program runs. NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT: it cannot run; RESOURCE_EXHAUSTED:
  // too many run; UNAVAILABLE: the session has ended.
  struct StartedProgram {
    std::shared_ptr<Process> process;
    std::shared_ptr<Subscription> subscription;
  };
  absl::StatusOr<StartedProgram> Start(Program program, std::function<void()> news);
  // Bytes for stdin. RESOURCE_EXHAUSTED: the process has not taken the last ones, or too many orders wait; these bytes
  // were not sent. FAILED_PRECONDITION: it has no stdin.
  absl::Status Send(Process& process, std::string_view bytes);
  absl::Status CloseInput(Process& process);
  void Signal(const Process& process, int signal);
  // Signals the process after a while, and kills it two seconds later; 0 = forget it.
  void SetDeadline(Process& process, std::chrono::nanoseconds after, int signal);
  std::vector<std::shared_ptr<Process>> Processes() const;  // the running ones, oldest first
  std::shared_ptr<Process> FindPid(uint32_t pid) const;     // null = none such runs

  // `first` and `second` are paths as commands see them; relative ones begin in folder(). Ask blocks; Order calls
  // `done` once, on the loop thread, or at once if the session has ended. UNAVAILABLE: the guest agent does not answer.
  FileAnswer Ask(FileOp op, const FileFacts& facts, const std::string& first, const std::string& second = "",
                 std::string_view bytes = "");
  void Order(FileOp op, const FileFacts& facts, const std::string& first, const std::string& second,
             std::string_view bytes, std::function<void(FileAnswer)> done);

  // An absolute path for one that may be relative or begin with "~".
  std::string Absolute(const std::string& path) const;
  const std::string& folder() const { return options_.folder; }
  const std::string& home() const { return options_.home; }

  void End(const std::string& why);
  bool has_ended() const;
  std::string why() const;  // why it has ended
  // Calls `call` once the sandbox is gone, on the keeper thread, or at once if it is gone already.
  void WhenGone(std::function<void()> call);

 private:
  using SteadyClock = std::chrono::steady_clock;
  struct Starting {
    std::shared_ptr<Process> process;
    std::optional<absl::Status> answer;
  };
  struct FileOrder {
    std::function<void(FileAnswer)> done;
    SteadyClock::time_point deadline;
  };

  explicit Session(SessionOptions options) : options_(std::move(options)) {}
  absl::Status Begin(std::unique_ptr<sandbox::Sandbox> sandbox);

  void Join();
  void RunKeeper();  // the keeper thread
  void RunGuestAgent();
  void Loop();  // the loop thread
  // Reads the bytes that arrived. False: the socket has ended.
  bool Read();
  // False: the frame breaks the protocol.
  bool HandleFrame(const FrameHeader& header, std::string_view payload);
  bool TakeEnd(const FrameHeader& header, std::string_view payload);
  bool TakeOutput(const FrameHeader& header, std::string_view payload);
  // Fires deadlines, and returns the milliseconds until the next one; -1 = none.
  int FireDeadlines();
  // These fire the deadlines of their kind, and return the next one.
  SteadyClock::time_point FireProcesses(SteadyClock::time_point now);
  SteadyClock::time_point FireOrders(SteadyClock::time_point now);
  void FinishAll(const std::string& why);

  std::shared_ptr<Process> Find(uint32_t id) const;
  int64_t MemoryKills() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  SessionOptions options_;
  std::map<std::string, std::string> env_;
  sandbox::Fd link_;      // of the loop thread
  sandbox::Fd far_link_;  // the guest agent's end; of the keeper thread
  sandbox::Cancellation cancel_;
  std::string incoming_;    // of the loop thread
  bool is_broken_ = false;  // of the loop thread: it ignores frames from here on
  std::shared_ptr<Outbox> outbox_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  // The keeper thread runs it without the lock. Null once it is going.
  std::unique_ptr<sandbox::Sandbox> sandbox_ ABSL_GUARDED_BY(mu_);
  uint32_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint32_t, Starting*> starting_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, std::shared_ptr<Process>> processes_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, FileOrder> files_ ABSL_GUARDED_BY(mu_);  // by id, so by deadline too
  bool gone_ ABSL_GUARDED_BY(mu_) = false;                    // the sandbox is
  std::vector<std::function<void()>> when_gone_ ABSL_GUARDED_BY(mu_);
  std::optional<std::string> why_ ABSL_GUARDED_BY(mu_);  // set: it has ended
  std::thread keeper_, loop_;
};

}  // namespace ingot::execution
