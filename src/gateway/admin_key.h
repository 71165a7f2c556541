// The gateway's admin key: it opens, rewards and ends episodes, and calls no model. Constant, so thread safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace ingot::gateway {

class AdminKey {
 public:
  // An empty `key` = there is none, and any client may open episodes. `from_file`: the operator chose it
  // (gateway.admin_key_file); otherwise only this run's own runner and gateway have it.
  AdminKey(std::string key, bool from_file) : key_(std::move(key)), from_file_(from_file) {}

  // Whether `sent` is the key; false if there is none.
  bool Is(const std::string& sent) const;
  // OK if `sent` may open episodes. 401: no key was sent. 403: it is another key.
  absl::Status Check(const std::string& sent) const;
  // OK if `sent` may do `what`, which only the run's owner can reach: it is the key that the operator chose, or there is
  // no such key. Errors as Check.
  absl::Status CheckOwner(const std::string& sent, std::string_view what) const;

 private:
  const std::string key_;
  const bool from_file_;
};

}  // namespace ingot::gateway
