// Checks arguments and creates errors for all registry implementations.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"
#include "registry/registry.h"

namespace ingot::registry {

// Returns INVALID_ARGUMENT if the key (or key prefix) is empty or too long, or if the value is too long.
inline absl::Status CheckPut(const std::string& key, const std::string& value) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a registry's key has ", key.size(), " bytes: 1 to ", kMaxKeyBytes, " are allowed"));
  }
  if (value.size() <= kMaxValueBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": the value has ", value.size(), " bytes: at most ", kMaxValueBytes, " are allowed"));
}

// Returns `ttl` rounded up, or INVALID_ARGUMENT if it is less than one second.
inline absl::StatusOr<std::chrono::seconds> WholeSeconds(std::chrono::milliseconds ttl) {
  if (ttl >= std::chrono::seconds(1)) return std::chrono::ceil<std::chrono::seconds>(ttl);
  return absl::InvalidArgumentError(
      absl::StrCat("a lease of ", ttl.count(), " ms is too short: it needs at least 1000 ms"));
}

// Returns true if an earlier attempt at the same write created the entry.
inline bool IsOwn(const Entry& entry, const std::string& key, const std::string& value, int64_t lease) {
  return entry.key == key && entry.value == value && entry.lease == lease;
}

inline absl::Status NoLease(const std::string& key, int64_t lease) {
  return absl::NotFoundError(absl::StrCat(key, ": lease ", lease, " has expired: its holder did not renew it in time"));
}

inline absl::Status StaleFence(const Fence& fence) {
  return absl::AbortedError(absl::StrCat("the fencing token ", fence.token, " of ", fence.key,
                                         " is stale: another process has taken over the lead"));
}

}  // namespace ingot::registry
