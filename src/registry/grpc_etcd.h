// A registry in etcd v3, for runs on several machines. It speaks etcd's gRPC API through our own trimmed proto
// (proto/etcd.proto).
//
//   call    one member at a time, each for at most two seconds, until one answers: any member knows everything
//   lease   each renewal is a call like any other, so that a member's death costs the time of one call
//   watch   a stream from one member. When it breaks, the next member opens one, after the last revision it reported
//
// A lease's time to live should be six seconds or more: an etcd election takes one to two.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "registry/registry.h"

namespace ingot::registry {

struct EtcdOptions {
  std::vector<std::string> endpoints;          // HOST:PORT of the members, at least one; the first is asked first
  std::string user, password;                  // both empty = without authentication
  std::string ca;                              // PEM text that members are verified against. Empty = plain text
  std::string certificate, key;                // PEM text of a client certificate; both or none. REQUIRES: ca
  std::chrono::milliseconds deadline{10'000};  // of a call, over all members

  absl::Status Validate() const;
};

// Asks every member once. UNAVAILABLE: none answers. FAILED_PRECONDITION: members of two clusters, or a server that is
// not etcd. UNAUTHENTICATED, PERMISSION_DENIED: etcd rejects the user. INVALID_ARGUMENT: Validate.
absl::StatusOr<std::unique_ptr<Registry>> ConnectEtcd(const EtcdOptions& options,
                                                      const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::registry
