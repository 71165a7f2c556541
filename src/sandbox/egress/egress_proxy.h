// Runs an HTTP proxy that lets a sandbox without a network reach the hosts in an EgressList. It accepts connections on
// a listening socket in the sandbox. This process then connects to the hosts.
//
//   CONNECT HOST:PORT           opens a tunnel, as used for https
//   GET http://HOST[:PORT]/..   sends one request, then closes the connection; HEAD works the same way
//
// Clients are untrusted. A request head is limited to 16 KiB and must arrive within 30 s. At most 64 connections are
// open at a time, and others wait. A connection is closed after five minutes without traffic. A rejected request gets a
// 403 with the reason.
//
// One thread accepts connections, and each connection has its own thread. The destructor ends them all immediately.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/egress/egress_list.h"
#include "sandbox/process.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

class EgressProxy {
 public:
  // Serves `listener` until destroyed. Returns UNAVAILABLE if a thread cannot be started.
  static absl::StatusOr<std::unique_ptr<EgressProxy>> Start(Fd listener, EgressList hosts);
  ~EgressProxy();
  EgressProxy(const EgressProxy&) = delete;
  EgressProxy& operator=(const EgressProxy&) = delete;

  // Returns up to 16 distinct hosts that clients were denied: "pypi.org:443" if the host is not in the list, and
  // otherwise the host with the reason.
  std::vector<std::string> Rejected() const;
  // Returns up to 16 distinct allowed hosts that the proxy could not connect to, with the reasons.
  std::vector<std::string> Unreached() const;
  // Returns the number of pauses in accepting because all connections were in use. A pause lasts at most 0.1 s.
  int64_t pauses() const { return pauses_; }

 private:
  EgressProxy(Fd listener, EgressList hosts) : listener_(std::move(listener)), hosts_(std::move(hosts)) {}
  void Accept();
  void Serve(const Fd& client);
  void JoinEnded();
  // Connects to an allowed host. The error is sent to the client.
  absl::StatusOr<Fd> Connect(const HostPort& host);
  absl::StatusOr<Fd> ConnectListed(EgressList::Match match, const HostPort& host);
  absl::Status Reject(const std::string& what);

  const Fd listener_;
  const EgressList hosts_;
  Cancellation stop_;
  std::atomic<int64_t> pauses_{0};
  mutable base::Mutex mu_;
  std::vector<std::string> rejected_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> unreached_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::thread> serving_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> done_ ABSL_GUARDED_BY(mu_);  // threads in `serving_` to join
  std::thread accepting_;                            // declared last because it uses everything above
};

}  // namespace ingot::sandbox
