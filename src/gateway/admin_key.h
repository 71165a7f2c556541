// Checks the gateway's admin key, which can open, reward, and end episodes but cannot call models. Immutable and thread
// safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace ingot::gateway {

class AdminKey {
 public:
  // If `key` is empty, there is no admin key and any client may open episodes. `from_file` is true if the operator
  // configured the key (gateway.admin_key_file). Otherwise, only this run's runner and gateway have it.
  AdminKey(std::string key, bool from_file) : key_(std::move(key)), from_file_(from_file) {}

  // Returns true if `sent` is the admin key. Returns false if there is no admin key.
  bool Is(const std::string& sent) const;
  // Returns OK if `sent` may open episodes, 401 if no key was sent, and 403 if the key is wrong.
  absl::Status Check(const std::string& sent) const;
  // Returns OK if `sent` is the operator's key or the operator did not configure a key. `what` is an action reserved
  // for the run's owner. Returns the same errors as Check.
  absl::Status CheckOwner(const std::string& sent, std::string_view what) const;

 private:
  const std::string key_;
  const bool from_file_;
};

}  // namespace ingot::gateway
