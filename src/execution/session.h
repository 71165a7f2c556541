// Runs programs in a persistent sandbox through a guest agent (guest_agent_messages.h). Programs run in parallel and
// keep running between requests. Files are kept.
//
//   request threads ── Start, Send, Signal, Ask ──▶ outbox ──▶ loop thread ──socket──▶ guest agent in the sandbox
//   subscriptions  ◀──────────────────────────────── news ◀──      │
//                                                   keeper thread: runs the guest agent with Sandbox::Run
//
// A session ends when End is called, when the last pointer from Open is dropped, when the guest agent exits (programs
// in the sandbox may kill it) or violates the protocol, or when the sandbox's disk is full. Its processes then end with
// Ending::kCancelled and the reason. Programs may also stop the guest agent. A request without an answer fails after
// SessionOptions::timeout. If a killed program does not end within that time, the session ends. Dropping the last
// pointer blocks until the sandbox's last process is gone. Thread safe.
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
  std::map<std::string, std::string> env = {};  // variables for every process; override the defaults
  std::string folder = {};  // programs' working directory and base for relative paths; empty = the sandbox's work()
  std::string home = {};    // empty = the sandbox's
  // Maximum lifetime.
  std::chrono::nanoseconds lifetime = std::chrono::hours(24);
  int processes = 64;                                           // maximum number of programs at a time
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);  // timeout for one request to the guest agent
};

// The result of a file request.
struct FileAnswer {
  absl::Status
      status;  // NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, INVALID_ARGUMENT, UNAVAILABLE
  std::string bytes;
};

// Programs in the sandbox can stop the guest agent or keep it busy.
inline constexpr char kNoAnswer[] = "the session's guest agent does not respond";

class Session : public std::enable_shared_from_this<Session> {
 public:
  static absl::StatusOr<std::shared_ptr<Session>> Open(sandbox::Substrate& substrate, SessionOptions options);

  // Starts a program and blocks until it runs. `news` is for a subscription that receives the output starting with the
  // first byte; null = no subscription. Returns NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT if the program cannot
  // run, RESOURCE_EXHAUSTED if too many programs are running, and UNAVAILABLE if the session has ended.
  struct StartedProgram {
    std::shared_ptr<Process> process;
    std::shared_ptr<Subscription> subscription;
  };
  absl::StatusOr<StartedProgram> Start(Program program, std::function<void()> news);
  // Sends bytes to stdin. Returns RESOURCE_EXHAUSTED, without sending anything, if the process has not accepted earlier
  // bytes or too many requests are queued. Returns FAILED_PRECONDITION if it has no stdin.
  absl::Status Send(Process& process, std::string_view bytes);
  absl::Status CloseInput(Process& process);
  void Signal(const Process& process, int signal);
  // Signals the process after a delay and kills it two seconds later. Signal 0 clears the deadline.
  void SetDeadline(Process& process, std::chrono::nanoseconds after, int signal);
  std::vector<std::shared_ptr<Process>> Processes() const;  // the running processes, oldest first
  std::shared_ptr<Process> FindPid(uint32_t pid) const;     // null = no such process is running

  // Ask blocks. Order calls `done` once on the loop thread, or immediately if the session has ended. `first` and
  // `second` are paths as commands see them, relative to folder(). Both return UNAVAILABLE if the guest agent does not
  // answer.
  FileAnswer Ask(FileOp op, const FileFacts& facts, const std::string& first, const std::string& second = "",
                 std::string_view bytes = "");
  void Order(FileOp op, const FileFacts& facts, const std::string& first, const std::string& second,
             std::string_view bytes, std::function<void(FileAnswer)> done);

  // Makes a path absolute. It may be relative or begin with "~".
  std::string Absolute(const std::string& path) const;
  const std::string& folder() const { return options_.folder; }
  const std::string& home() const { return options_.home; }

  void End(const std::string& why);
  bool has_ended() const;
  std::string why() const;  // why it has ended
  // Calls `call` on the keeper thread once the sandbox is gone, or immediately if it is already gone.
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
  // Reads the available bytes. Returns false if the socket was closed.
  bool Read();
  // Returns false if the frame violates the protocol.
  bool HandleFrame(const FrameHeader& header, std::string_view payload);
  bool TakeEnd(const FrameHeader& header, std::string_view payload);
  bool TakeOutput(const FrameHeader& header, std::string_view payload);
  // Handles expired deadlines. Returns the milliseconds until the next one; -1 = none.
  int FireDeadlines();
  // Handle the expired deadlines of processes or file requests. Return the next deadline.
  SteadyClock::time_point FireProcesses(SteadyClock::time_point now);
  SteadyClock::time_point FireFileRequests(SteadyClock::time_point now);
  void FinishAll(const std::string& why);

  std::shared_ptr<Process> Find(uint32_t id) const;
  int64_t MemoryKills() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  SessionOptions options_;
  std::map<std::string, std::string> env_;
  sandbox::Fd link_;      // used by the loop thread
  sandbox::Fd far_link_;  // the guest agent's end; used by the keeper thread
  sandbox::Cancellation cancel_;
  std::string incoming_;    // used by the loop thread
  bool is_broken_ = false;  // used by the loop thread; true = ignores all further frames
  std::shared_ptr<Outbox> outbox_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  // The keeper thread runs it without the lock. Null after its destruction has begun.
  std::unique_ptr<sandbox::Sandbox> sandbox_ ABSL_GUARDED_BY(mu_);
  uint32_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint32_t, Starting*> starting_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, std::shared_ptr<Process>> processes_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, FileOrder> files_ ABSL_GUARDED_BY(mu_);  // sorted by id, and so also by deadline
  bool gone_ ABSL_GUARDED_BY(mu_) = false;                    // the sandbox is gone
  std::vector<std::function<void()>> when_gone_ ABSL_GUARDED_BY(mu_);
  std::optional<std::string> why_ ABSL_GUARDED_BY(mu_);  // set = the session has ended
  std::thread keeper_, loop_;
};

}  // namespace ingot::execution
