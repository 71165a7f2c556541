// Keeps one entry in a registry for as long as this process lives. The entry is under a lease, which is granted anew when
// it was lost: after a pause of the process, or when the registry could not be reached. Thread safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "registry/registry.h"

namespace ingot::registry {

struct RegistrationOptions {
  std::string key;
  std::string value;  // of this process alone, as those of Update: no other one registers an equal value
  std::chrono::milliseconds ttl{10'000};
  // The time that Start waits for the end of another process's entry. Empty = Start takes the entry over.
  std::optional<std::chrono::milliseconds> timeout;
  // True: the entry that Start takes over is deleted and made anew, so that token() is greater than its holder's.
  bool leads = false;
  // The process that has an entry, for people: "process 7 on box". Null = the entry's value.
  std::function<std::string(const Entry& holder)> describe;
  // The entry is another process's by now, and this registration is over. Called at most once, by a thread of its own;
  // must not destroy the registration.
  std::function<void(const Entry& holder)> on_taken;
};

class Registration {
 public:
  // Writes the entry. ALREADY_EXISTS: another process still has it after `timeout`; names it. Other errors are the
  // registry's. REQUIRES: the registry outlives it.
  static absl::StatusOr<std::unique_ptr<Registration>> Start(Registry& registry, RegistrationOptions options,
                                                             const base::Clock& clock = base::Clock::Real());
  // Deletes the entry.
  ~Registration();

  // The create_revision of the entry as Start left it.
  int64_t token() const { return token_; }

  // Gives the entry another value, soon: a thread writes it. Values that follow each other at once may become one.
  void Update(std::string value);

 private:
  Registration(Registry& registry, RegistrationOptions options, const base::Clock& clock);

  // Writes the entry under a new lease. An entry with this process's value is its own of an earlier lease. OK with another
  // `holder` than this process: nothing was written.
  absl::Status Establish(bool take_over, Entry& holder);
  absl::Status Begin();
  std::string Described(const Entry& holder) const;
  void Run();
  // Writes the value of Update, if there is one, under the present lease. An error: it is to be written later.
  absl::Status Renew();
  // Whether a value is this process's: written, or perhaps written by Renew.
  bool Own(const std::string& value);
  // False: it is time to stop.
  bool Wait(std::chrono::nanoseconds time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Registry& registry_;
  const RegistrationOptions options_;
  const base::Clock& clock_;
  std::unique_ptr<Lease> lease_;  // of Start, then of the thread; as is the next
  std::string value_;             // that was written last
  int64_t token_ = 0;             // constant after Start
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool lost_ ABSL_GUARDED_BY(mu_) = false;                // the present lease
  std::optional<std::string> next_ ABSL_GUARDED_BY(mu_);  // the value of Update, until it is written
  std::thread thread_;                                    // from the end of Start on
};

}  // namespace ingot::registry
