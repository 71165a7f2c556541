// The waits of a process for others, by cause. Code that may wait longer than a moment holds a Wait meanwhile. The log
// and `ingot status` report a wait that lasts (app/cluster/status/role_waits.h).
//
//   base::Wait wait("PostgreSQL");     from here to its end
//   wait.Because("PostgreSQL: ...");   once the cause is known
//
// Thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace ingot::base {

enum class WaitKind : uint8_t {
  kFault,  // a healthy run has no such wait that lasts for seconds
  kWork,   // for the work of others, which takes its time in a healthy run too
};

class Waits {
 public:
  // `clock` outlives it.
  explicit Waits(const Clock& clock = Clock::Real()) : clock_(clock) {}
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  // The waits of this process; never destroyed.
  static Waits& OfProcess();

  // The causes of the waits of this kind that have lasted at least `than`: sorted, without duplicates.
  std::vector<std::string> Longer(std::chrono::nanoseconds than, WaitKind kind) const;

 private:
  friend class Wait;
  struct Going {
    std::chrono::nanoseconds since;
    WaitKind kind;
    std::string cause;
  };

  const Clock& clock_;
  mutable Mutex mu_;
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, Going> going_ ABSL_GUARDED_BY(mu_);
};

// An error as a cause: "WHAT (message)", safe for a terminal.
std::string WaitCause(std::string_view what, const absl::Status& error);

class Wait {
 public:
  // `cause`: what the process waits for, and why if it is known: one short line. `waits` outlives it.
  explicit Wait(std::string cause, WaitKind kind = WaitKind::kFault, Waits& waits = Waits::OfProcess());
  ~Wait();
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  // Changes the cause of this wait.
  void Because(std::string cause);

 private:
  Waits& waits_;
  int64_t id_ = 0;
};

}  // namespace ingot::base
