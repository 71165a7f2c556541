// Tracks what a process is waiting for. Code that may block for more than a moment holds a Wait while it blocks. The
// log and `ingot status` report long waits (app/cluster/status/role_waits.h).
//
//   base::Wait wait("PostgreSQL");     the wait starts here and ends when it goes out of scope
//   wait.Because("PostgreSQL: ...");   sets the cause once it is known
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
  kFault,  // in a healthy run, lasts at most a few seconds
  kWork,   // waits for other work, which takes time even in a healthy run
};

class Waits {
 public:
  // `clock` must outlive this object.
  explicit Waits(const Clock& clock = Clock::Real()) : clock_(clock) {}
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  // Returns this process's waits. The object is never destroyed.
  static Waits& OfProcess();

  // Returns the causes of all waits of this kind that have lasted at least `than`, sorted and without duplicates.
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

// Formats an error as a cause: "WHAT (message)", safe for a terminal.
std::string WaitCause(std::string_view what, const absl::Status& error);

class Wait {
 public:
  // `cause` is one short line that states what the process is waiting for and, if known, why. `waits` must outlive this
  // object.
  explicit Wait(std::string cause, WaitKind kind = WaitKind::kFault, Waits& waits = Waits::OfProcess());
  ~Wait();
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  // Changes this wait's cause.
  void Because(std::string cause);

 private:
  Waits& waits_;
  int64_t id_ = 0;
};

}  // namespace ingot::base
