// Implements Registry on etcd v3, for runs on several machines. Uses the etcd gRPC API through a trimmed copy of its
// proto (proto/etcd.proto).
//
//   call    tries one member at a time, for up to two seconds each, until one answers; all members have all data lease
//    renewed by ordinary calls, so a failed member delays only one call
//   watch   a stream from one member; if it breaks, another opens on the next member, after the last reported revision
//
// A lease's time to live should be at least six seconds because an etcd election takes one to two.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "registry/registry.h"

namespace ingot::registry {

struct EtcdOptions {
  std::vector<std::string> endpoints;          // HOST:PORT of each member, at least one; the first one is tried first
  std::string user, password;                  // both empty = no authentication
  std::string ca;                              // PEM-encoded CA certificates that verify the members; empty = plaintext
  std::string certificate, key;                // PEM-encoded client certificate and key; both or neither. REQUIRES: ca.
  std::chrono::milliseconds deadline{10'000};  // deadline for a call, across all members

  absl::Status Validate() const;
};

// Queries every member once. Returns UNAVAILABLE if none answers, FAILED_PRECONDITION if the members belong to
// different clusters or a server is not etcd, UNAUTHENTICATED or PERMISSION_DENIED if etcd rejects the user, and
// INVALID_ARGUMENT if Validate fails.
absl::StatusOr<std::unique_ptr<Registry>> ConnectEtcd(const EtcdOptions& options,
                                                      const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::registry
