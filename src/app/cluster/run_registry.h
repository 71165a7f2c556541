// Registers a run's processes in the run's registry. Each process registers its role's name and address and finds the
// other roles by name.
//
//   ingot/RUN/launch          the process that drives the run: `ingot launch`
//   ingot/RUN/roles/NAME      a role: datapool, scheduler, gateway, rollout-0, rollout-1, ...
//   ingot/RUN/leaders/ROLE    the only process that may write for a role: the scheduler, which writes the journal
//   ingot/RUN/nodes/GROUP-N   a node in cluster.groups: its agent, or the agent that took over after it died
//   ingot/RUN/engines/NAME    the node that runs an engine, if dead nodes' engines move (cluster.takeover_engines)
//
// A role that restarts, on this or another machine, takes over its entry. Channels then connect to the new address, and
// rpcs that wait for the old address end with UNAVAILABLE so that callers retry. Thread safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "app/cluster/access/grpc_access.h"
#include "app/run/run_config.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "proto/grpc_channel.h"
#include "registry/registration.h"
#include "registry/registry.h"

namespace ingot::app {

// The location of one of a run's processes.
struct RolePlace {
  std::string name;
  std::string address;  // HOST:PORT of its gRPC service
  std::string node;     // machine name
  int64_t pid = 0;
  std::string http;  // a gateway's HOST:PORT for agents; empty = none
  std::string
      waits;  // what the process is waiting for, such as "datapool (AppendCall), ..."; empty = it is not waiting
};

// A node's agent and a description of the roles it runs.
struct NodePlace {
  std::string name;  // GROUP-NUMBER
  std::string machine;
  std::string roles;             // "scheduler, rollout-0 (restarted 2 times), gateway (NOT RUNNING)"
  int64_t reported_unix_ns = 0;  // time on the node's clock when it wrote this entry
  int64_t token = 0;             // this agent's fencing token; later agents for the same node have greater tokens
};

// Returns "rollout-INDEX" for an engine, and otherwise the role name itself.
std::string RoleName(const std::string& role, int index);

// Returns the error with which this process exits if another process has taken over `name`. It names the new
// holder.
std::string DescribeTaken(const std::string& name, const std::string& holder, double ttl_s);

// Returns this machine's name, or "unknown" if the system does not report one.
std::string MachineName();
// Returns cluster.host, or this machine's name if it is `auto`.
std::string OwnHost(const ClusterOptions& cluster);

class RunRegistry {
 public:
  // Opens the configured registry. `folder` is the run's folder, which only a local registry uses. Returns UNAVAILABLE
  // or a credential error, with one line that names the registry.
  static absl::StatusOr<std::unique_ptr<RunRegistry>> Open(const RunConfig& config, const std::string& folder,
                                                           RpcAccess access,
                                                           const base::Clock& clock = base::Clock::Real());
  // Wraps a registry that is already open.
  static std::unique_ptr<RunRegistry> Over(std::unique_ptr<registry::Registry> registry, const RunConfig& config,
                                           RpcAccess access, const base::Clock& clock = base::Clock::Real());
  // REQUIRES: all clients that use this object's channels have been destroyed.
  ~RunRegistry();

  // Starts following the roles' addresses. Call once, before To.
  absl::Status Follow();

  // Calls `observer` with the name of each role of this kind (such as "rollout"), now and as roles register. Each name
  // is reported once. Calls never overlap. The observer must not call OnRole. REQUIRES: Follow was called, and
  // everything the observer uses outlives the registry.
  void OnRole(const std::string& kind, std::function<void(const std::string& name)> observer);

  // Returns a channel to a role, wherever it runs. If the role is not registered, rpcs wait for it or fail with
  // UNAVAILABLE, just as they do if the role does not answer.
  v1::RoleChannel To(const std::string& name);

  // Returns a channel to one of several equivalent processes. It stays with the same process while that process is
  // registered. When the entry disappears, pending rpcs end with UNAVAILABLE, and later rpcs use another process.
  // REQUIRES: Follow was called.
  v1::RoleChannel ToAny(std::vector<std::string> names);

  // Registers this process until the registry is destroyed. If another process takes over the role, this process exits.
  // `http` is RolePlace::http.
  absl::Status Register(const std::string& name, const std::string& address, const std::string& http = "");

  // Returns the rpcs to other roles that have been running for longer than `than`, and the streams to roles that do not
  // answer: "datapool (AppendCall: no answer at 10.0.0.5:41277)".
  std::vector<std::string> LongCalls(std::chrono::milliseconds than);
  // Writes what this process is waiting for into its entry (RolePlace::waits).
  void ReportWaits(const std::string& waits);

  // Makes this process a role's leader, replacing any earlier leader, and returns the new fencing token. The earlier
  // leader exits once it notices. Until then, its writes are rejected wherever tokens are compared.
  absl::StatusOr<int64_t> Lead(const std::string& role);

  // Claims the run for its launcher. Returns ALREADY_EXISTS if another launcher still holds it after one lease period.
  absl::Status ClaimRun();

  // Registers this process as a node's agent until the registry is destroyed. If another process takes over the node,
  // this process exits. Returns FAILED_PRECONDITION if another process is still the node's agent, or still has its
  // roles, after `timeout`.
  absl::Status RegisterNode(const std::string& name, const std::string& roles, std::chrono::milliseconds timeout);
  // Updates the description of the roles that run on this process's nodes. Thread safe. Call after RegisterNode.
  void UpdateNodes(const std::string& roles);
  // Returns the registered nodes, sorted by name.
  absl::StatusOr<std::vector<NodePlace>> Nodes();

  // Claims an engine for this process's node until the registry is destroyed. If another process takes over the engine,
  // this process exits, as with RegisterNode. Returns ALREADY_EXISTS if another node still holds it after `timeout`.
  absl::Status ClaimEngine(const std::string& engine, std::chrono::milliseconds timeout);
  // Returns the names of the claimed engines.
  absl::StatusOr<std::set<std::string>> ClaimedEngines();

  std::chrono::milliseconds ttl() const;

  // Returns the registered roles, sorted by name.
  absl::StatusOr<std::vector<RolePlace>> Places();
  // Returns the most recent list received since Follow. Sends no request to the registry.
  std::vector<RolePlace> LastPlaces();

  std::string Describe() const { return registry_->Describe(); }

 private:
  // A role as its callers see it.
  struct Line {
    std::string address;  // empty = unknown
    std::shared_ptr<RunningCalls> calls;
    std::shared_ptr<grpc::Channel> channel;
  };

  RunRegistry(std::string run, RegistryConfig config, RpcAccess access, std::unique_ptr<registry::Registry> registry,
              const base::Clock& clock);
  void Note(const registry::Event& event);
  void NoteGone(const std::string& name);
  // Opens a new channel to the role's address. Returns the old channel's rpcs, which the caller must close without
  // holding the lock.
  std::shared_ptr<RunningCalls> Reopen(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsThere(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Lead(const std::string& name, const std::string& address, Line& line) const;
  // Holds an entry until the registry is destroyed. `leads` is RegistrationOptions::leads.
  absl::StatusOr<registry::Registration*> KeepEntry(const std::string& key, const std::string& name,
                                                    const std::string& value,
                                                    std::optional<std::chrono::milliseconds> timeout,
                                                    bool leads = false);

  const std::string run_;
  const RegistryConfig config_;
  const RpcAccess access_;
  const std::unique_ptr<registry::Registry> registry_;
  const base::Clock& clock_;  // this machine's clock
  const int64_t began_;       // Unix time in ns; distinguishes registries within one process
  struct Following {
    std::string kind;
    std::function<void(const std::string& name)> observer;
    std::set<std::string> reported;
  };
  void ReportFollowing();

  base::Mutex following_mu_;  // acquired before mu_, and held while an observer runs
  std::vector<Following> following_ ABSL_GUARDED_BY(following_mu_);
  base::Mutex mu_;
  std::map<std::string, std::string> addresses_ ABSL_GUARDED_BY(mu_);  // by role name
  std::map<std::string, RolePlace> last_places_ ABSL_GUARDED_BY(mu_);  // by role name
  std::map<std::string, Line> lines_ ABSL_GUARDED_BY(mu_);             // roles that this process calls
  std::set<std::string> replaceable_ ABSL_GUARDED_BY(mu_);             // roles passed to ToAny
  std::set<std::string> gone_ ABSL_GUARDED_BY(mu_);                    // roles whose entries were deleted
  std::vector<Line> left_ ABSL_GUARDED_BY(mu_);  // earlier channels, which may still be used by rpcs that end late
  std::vector<std::unique_ptr<registry::Registration>> registrations_ ABSL_GUARDED_BY(mu_);
  std::vector<registry::Registration*> nodes_ ABSL_GUARDED_BY(mu_);  // a subset of registrations_
  // Created by the first Register.
  registry::Registration* own_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::string own_address_ ABSL_GUARDED_BY(mu_), own_http_ ABSL_GUARDED_BY(mu_), own_waits_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<registry::Watcher> watcher_;  // declared last because its thread uses the members above
};

}  // namespace ingot::app
