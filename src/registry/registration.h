// Keeps one entry in a registry for as long as this process lives. The entry is under a lease. A lost lease, after a
// pause of the process or an unreachable registry, is replaced by a new one. Thread safe.
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
  std::string value;  // unique to this process, like Update's values: no other process registers an equal value
  std::chrono::milliseconds ttl{10'000};
  // The time that Start waits for the end of another process's entry. Empty = Start takes the entry over.
  std::optional<std::chrono::milliseconds> timeout;
  // True: Start deletes the entry that it takes over and creates it again, so that token() is greater than its
  // holder's.
  bool leads = false;
  // Names the process that holds an entry, for people: "process 7 on box". Null = the entry's value.
  std::function<std::string(const Entry& holder)> describe;
  // Another process has taken the entry over, and this registration has ended. Called at most once, on the
  // registration's thread; must not destroy the registration.
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

  // Changes the entry's value soon: a thread writes it. Values in quick succession may be merged.
  void Update(std::string value);

 private:
  Registration(Registry& registry, RegistrationOptions options, const base::Clock& clock);

  // Writes the entry under a new lease. An entry with this process's value is its own, from an earlier lease. OK with
  // another process in `holder`: nothing was written.
  absl::Status Establish(bool take_over, Entry& holder);
  absl::Status Begin();
  std::string Described(const Entry& holder) const;
  void Run();
  // Writes Update's value, if any, under the present lease. On an error it stays to be written later.
  absl::Status Renew();
  // True if a value is this process's: written, or perhaps written by Renew.
  bool Own(const std::string& value);
  // False: it is time to stop.
  bool Wait(std::chrono::nanoseconds time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Registry& registry_;
  const RegistrationOptions options_;
  const base::Clock& clock_;
  std::unique_ptr<Lease> lease_;  // used by Start, then by the thread; so is value_
  std::string value_;             // the value written last
  int64_t token_ = 0;             // constant after Start
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool lost_ ABSL_GUARDED_BY(mu_) = false;                // the present lease
  std::optional<std::string> next_ ABSL_GUARDED_BY(mu_);  // the value of Update, until it is written
  std::thread thread_;                                    // from the end of Start on
};

}  // namespace ingot::registry
