// Maintains one registry entry while this process is running. The entry has a lease. If the lease is lost because the
// process was paused or the registry was unreachable, a new one replaces it. Thread safe.
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
  std::string value;  // must be unique to this process, as must Update's values
  std::chrono::milliseconds ttl{10'000};
  // How long Start waits for another process's entry to disappear. nullopt = Start takes over the entry.
  std::optional<std::chrono::milliseconds> timeout;
  // True = Start deletes and recreates the entry that it takes over, so token() is greater than the previous holder's
  // token.
  bool leads = false;
  // Describes the process that holds an entry, in human-readable form: "process 7 on box". Null = the entry's value.
  std::function<std::string(const Entry& holder)> describe;
  // Called when another process has taken over the entry, which ends the registration. Called at most once, on the
  // registration's thread. Must not destroy the registration.
  std::function<void(const Entry& holder)> on_taken;
};

class Registration {
 public:
  // Writes the entry. Returns ALREADY_EXISTS if another process still has the entry after `timeout`. The error names
  // that process. Other errors come from the registry. REQUIRES: the registry outlives the registration.
  static absl::StatusOr<std::unique_ptr<Registration>> Start(Registry& registry, RegistrationOptions options,
                                                             const base::Clock& clock = base::Clock::Real());
  // Deletes the entry.
  ~Registration();

  // Returns the entry's create_revision after Start.
  int64_t token() const { return token_; }

  // Changes the entry's value asynchronously. Values in quick succession may be merged.
  void Update(std::string value);

 private:
  Registration(Registry& registry, RegistrationOptions options, const base::Clock& clock);

  // Writes the entry under a new lease. An entry with this process's value is its own, from an earlier lease. If the
  // result is OK and `holder` is another process, nothing was written.
  absl::Status Establish(bool take_over, Entry& holder);
  absl::Status Begin();
  std::string Described(const Entry& holder) const;
  void Run();
  // Writes Update's value, if any, under the current lease. After an error, the value is written later.
  absl::Status Renew();
  // Returns true if this process wrote the value, or if Renew may have written it.
  bool Own(const std::string& value);
  // Returns false if the thread should stop.
  bool Wait(std::chrono::nanoseconds time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Registry& registry_;
  const RegistrationOptions options_;
  const base::Clock& clock_;
  std::unique_ptr<Lease> lease_;  // used by Start and then by the thread, like value_
  std::string value_;             // the last value written
  int64_t token_ = 0;             // constant after Start
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool lost_ ABSL_GUARDED_BY(mu_) = false;                // the current lease was lost
  std::optional<std::string> next_ ABSL_GUARDED_BY(mu_);  // the value passed to Update, until it is written
  std::thread thread_;                                    // started at the end of Start
};

}  // namespace ingot::registry
