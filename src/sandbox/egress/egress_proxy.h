// An EgressProxy is the way out of a sandbox without a network: an HTTP proxy on a listening socket inside it, which
// connects from this process, outside, to the hosts of an EgressList.
//
//   CONNECT HOST:PORT           a tunnel, as for https
//   GET http://HOST[:PORT]/..   one request, and HEAD; then the connection ends
//
// The client is a stranger: heads are at most 16 KiB and must arrive within 30 s, connections are at most 64 at a time
// (more wait), a connection on which nothing moves for five minutes ends. A rejected request gets 403 with a reason.
//
// A thread accepts, and each connection has one. The destructor ends them all at once.
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
  // Serves `listener` until this object is destroyed. UNAVAILABLE: cannot start a thread.
  static absl::StatusOr<std::unique_ptr<EgressProxy>> Start(Fd listener, EgressList hosts);
  ~EgressProxy();
  EgressProxy(const EgressProxy&) = delete;
  EgressProxy& operator=(const EgressProxy&) = delete;

  // Hosts that clients were denied, each once, at most 16: "pypi.org:443" if the list does not have it, otherwise the
  // host and the reason.
  std::vector<std::string> Rejected() const;
  // Listed hosts that the proxy could not connect to, each once with the reason, at most 16.
  std::vector<std::string> Unreached() const;
  // Times that the proxy accepted nobody, since all connections were taken. Each lasts a tenth of a second at most.
  int64_t pauses() const { return pauses_; }

 private:
  EgressProxy(Fd listener, EgressList hosts) : listener_(std::move(listener)), hosts_(std::move(hosts)) {}
  void Accept();
  void Serve(const Fd& client);
  void JoinEnded();
  // Connects to a host that may be reached. The error is for the client.
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
  std::vector<uint64_t> done_ ABSL_GUARDED_BY(mu_);  // of `serving_`, to be joined
  std::thread accepting_;                            // last: uses everything above
};

}  // namespace ingot::sandbox
