// Represents one program in a Session: the request, its output as it arrives, and its end.
//
//   guest agent ──kOutput──▶ Session ──▶ Process ──▶ Subscription, Subscription, ..  each receives every chunk
//       ◀──────────────── kCredit ─────────────── sent when the last holder of a chunk releases it
//
// Held chunks slow the process down, because at most kWindowBytes of its output may be held. If there is no
// subscription, output is released immediately. All classes are thread safe.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "sandbox/process.h"

namespace ingot::execution {

struct Program {
  std::vector<std::string> argv = {};
  std::map<std::string, std::string> env = {};  // added to the session's variables
  std::string folder = {};                      // empty = the session's
  bool has_input = false;
  bool has_notes = false;    // descriptor 3 is a pipe to the service
  int64_t memory_bytes = 0;  // address space limit; 0 = the session's
  int64_t cpu_seconds = 0;   // 0 = no limit
  // Time from the start until the process group gets SIGKILL; 0 = no limit.
  std::chrono::nanoseconds wall_time{0};
  std::string tag = {};  // opaque string from the client
};

enum class Stream { kOut, kErr, kNotes };

// A chunk of output. The destructor returns its bytes to the process's window.
class Chunk {
 public:
  Chunk(Stream stream, std::string bytes, std::function<void()> let_go)
      : stream(stream), bytes(std::move(bytes)), let_go_(std::move(let_go)) {}
  ~Chunk() { let_go_(); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  const Stream stream;
  const std::string bytes;

 private:
  const std::function<void()> let_go_;
};

struct ProcessEnd {
  // kCancelled: the session ended first. kMemoryFull: the kernel killed the program because its sandbox ran out of
  // memory.
  sandbox::Ending ending = sandbox::Ending::kExited;
  int exit_code = -1;  // kExited
  int signal = 0;      // kSignalled, kMemoryFull
  std::chrono::nanoseconds wall{0}, cpu{0};
  int64_t max_rss_bytes = 0;
  int64_t memory_kills = 0;  // kills in the sandbox while the program ran; may include other programs' kills
  std::string why = {};      // kCancelled: why the session ended
};

// Receives one process's output from the time of the subscription. Destroying it unsubscribes.
class Subscription {
 public:
  // Calls `news` after each change, on one of the session's threads. `news` must not block.
  explicit Subscription(std::function<void()> news) : news_(std::move(news)) {}

  struct News {
    std::vector<std::shared_ptr<const Chunk>> chunks;
    std::optional<ProcessEnd> end;  // set once, after all chunks
  };
  News TakeNews();

 private:
  friend class Process;
  void Add(std::shared_ptr<const Chunk> chunk);
  void End(const ProcessEnd& end);

  const std::function<void()> news_;
  base::Mutex mu_;
  News news_left_ ABSL_GUARDED_BY(mu_);
};

class Process {
 public:
  Process(uint32_t id, Program program) : id_(id), program_(std::move(program)) {}

  uint32_t id() const { return id_; }
  const Program& program() const { return program_; }
  uint32_t pid() const { return pid_; }  // pid inside the sandbox; set after Session::Start

  // If the process has ended, the subscription immediately receives its ProcessEnd.
  std::shared_ptr<Subscription> Subscribe(std::function<void()> news);
  std::optional<ProcessEnd> end() const;

 private:
  friend class Session;
  void Deliver(std::shared_ptr<const Chunk> chunk);
  void Finish(ProcessEnd end);
  std::vector<std::shared_ptr<Subscription>> Subscribers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint32_t id_;
  const Program program_;
  uint32_t pid_ = 0;                                 // set before the process is handed out
  std::chrono::steady_clock::time_point started_{};  // set at the same time as pid_
  int64_t memory_kills_before_ = 0;                  // kills in the sandbox; set at the same time as pid_
  mutable base::Mutex mu_;
  std::vector<std::weak_ptr<Subscription>> subscribers_ ABSL_GUARDED_BY(mu_);
  std::optional<ProcessEnd> end_ ABSL_GUARDED_BY(mu_);

  // Total cost of the chunks that are held. Chunks may outlive the process.
  const std::shared_ptr<std::atomic<int64_t>> held_ = std::make_shared<std::atomic<int64_t>>(0);

  // Guarded by the session's lock.
  int64_t untaken_ = 0;  // bytes of input not yet accepted by the process
  std::chrono::steady_clock::time_point deadline_{};
  int deadline_signal_ = 0;  // 0 = no deadline
  bool timed_out_ = false;
  bool was_killed_ = false;  // deadline now limits how long the process takes to end after SIGKILL
};

}  // namespace ingot::execution
