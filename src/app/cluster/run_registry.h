// The registry of a run, as its processes use it: each registers its role under its name with its address, and finds
// the other roles by name.
//
//   ingot/RUN/launch          the process that drives the run: `ingot launch`
//   ingot/RUN/roles/NAME      a role: datapool, scheduler, gateway, rollout-0, rollout-1, ...
//   ingot/RUN/leaders/ROLE    the one process that writes for a role: the scheduler, which writes the journal
//   ingot/RUN/nodes/GROUP-N   a node of cluster.groups: its agent, or the agent that has its roles since it died
//   ingot/RUN/engines/NAME    the node that runs an engine, where engines of dead nodes move (cluster.takeover_engines)
//
// A role that restarts, here or on another machine, takes its entry over. Channels then lead to its new address, and
// rpcs that wait for the old address end with UNAVAILABLE, so that their callers retry. Thread safe.
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

// Where a process of a run is.
struct RolePlace {
  std::string name;
  std::string address;  // HOST:PORT of its gRPC service
  std::string node;     // the machine
  int64_t pid = 0;
  std::string http;   // HOST:PORT for agents, of a gateway; empty = none
  std::string waits;  // "datapool (AppendCall), ...": what the process waits for. Empty = nothing
};

// A node's agent, and the roles that it runs, as text.
struct NodePlace {
  std::string name;  // GROUP-NUMBER
  std::string machine;
  std::string roles;             // "scheduler, rollout-0 (restarted 2 times), gateway (NOT RUNNING)"
  int64_t reported_unix_ns = 0;  // its machine's clock when it wrote this
  int64_t token = 0;             // of this agent; a later agent of the node has a greater token
};

// "rollout-INDEX", or the role itself.
std::string RoleName(const std::string& role, int index);

// A sentence that says why this process ends when another process has become `name`; it names the holder of the entry.
std::string DescribeTaken(const std::string& name, const std::string& holder, double ttl_s);

// This machine's name. "unknown" = the system does not report a name.
std::string MachineName();
// cluster.host; `auto` is this machine's name.
std::string OwnHost(const ClusterOptions& cluster);

class RunRegistry {
 public:
  // Opens the registry that the configuration names. `folder`: the run's, for kind local. UNAVAILABLE, and errors of
  // credentials: one line that names the registry.
  static absl::StatusOr<std::unique_ptr<RunRegistry>> Open(const RunConfig& config, const std::string& folder,
                                                           RpcAccess access,
                                                           const base::Clock& clock = base::Clock::Real());
  // Over a registry that is open already.
  static std::unique_ptr<RunRegistry> Over(std::unique_ptr<registry::Registry> registry, const RunConfig& config,
                                           RpcAccess access, const base::Clock& clock = base::Clock::Real());
  // REQUIRES: the clients of its channels are gone.
  ~RunRegistry();

  // Begins to follow the roles' places. To be called once, before To.
  absl::Status Follow();

  // Calls `observer` with the name of each role of this kind ("rollout") that is registered, or will be: once for a
  // name, on one thread at a time. It must not call OnRole. REQUIRES: Follow was called; what the observer uses
  // outlives the registry.
  void OnRole(const std::string& kind, std::function<void(const std::string& name)> observer);

  // A channel to a role, wherever it is. Rpcs to a role that is not registered wait for it, or fail with UNAVAILABLE,
  // as for a role that does not answer.
  v1::RoleChannel To(const std::string& name);

  // A channel to one of several processes of a role, which answer alike: always the same one while it is registered.
  // Once its entry is gone, rpcs that wait for it end with UNAVAILABLE, and later ones go to another. REQUIRES: Follow
  // was called.
  v1::RoleChannel ToAny(std::vector<std::string> names);

  // Registers this process until the registry is destroyed. If another process takes the role over, this process exits.
  // `http`: RolePlace::http.
  absl::Status Register(const std::string& name, const std::string& address, const std::string& http = "");

  // The rpcs to other roles that have run for `than`, and streams to roles that do not answer: "datapool (AppendCall:
  // no answer at 10.0.0.5:41277)".
  std::vector<std::string> LongCalls(std::chrono::milliseconds than);
  // Writes what this process waits for into its entry: RolePlace::waits.
  void ReportWaits(const std::string& waits);

  // Makes this process the leader of a role, replacing an earlier one, and returns the leadership's fencing token.
  // The earlier leader ends once it notices. Until then its writes are rejected wherever tokens are compared.
  absl::StatusOr<int64_t> Lead(const std::string& role);

  // Claims the run for its launcher. ALREADY_EXISTS: another launcher drives it, and still does after one lease's time.
  absl::Status ClaimRun();

  // Registers this process as the agent of a node until the registry is destroyed. If another one takes the node over,
  // this process exits. FAILED_PRECONDITION: another process is this node's agent or has its roles, still after
  // `timeout`.
  absl::Status RegisterNode(const std::string& name, const std::string& roles, std::chrono::milliseconds timeout);
  // Writes what the nodes of this process run now. Thread safe, after RegisterNode.
  void UpdateNodes(const std::string& roles);
  // The registered nodes, by name.
  absl::StatusOr<std::vector<NodePlace>> Nodes();

  // Claims an engine for the node of this process until the registry is destroyed; a takeover ends the process as for
  // RegisterNode. ALREADY_EXISTS: another node has it, still after `timeout`.
  absl::Status ClaimEngine(const std::string& engine, std::chrono::milliseconds timeout);
  // The names of the claimed engines.
  absl::StatusOr<std::set<std::string>> ClaimedEngines();

  std::chrono::milliseconds ttl() const;

  // The registered roles, by name.
  absl::StatusOr<std::vector<RolePlace>> Places();
  // The last list since Follow, without a request to the registry.
  std::vector<RolePlace> LastPlaces();

  std::string Describe() const { return registry_->Describe(); }

 private:
  // A role as its callers see it.
  struct Line {
    std::string address;  // empty = not known
    std::shared_ptr<RunningCalls> calls;
    std::shared_ptr<grpc::Channel> channel;
  };

  RunRegistry(std::string run, RegistryConfig config, RpcAccess access, std::unique_ptr<registry::Registry> registry,
              const base::Clock& clock);
  void Note(const registry::Event& event);
  void NoteGone(const std::string& name);
  // A new channel to the role's address; returns the rpcs of the earlier channel, to close without the lock.
  std::shared_ptr<RunningCalls> Reopen(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsThere(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Lead(const std::string& name, const std::string& address, Line& line) const;
  // Keeps an entry until the registry is destroyed. `leads`: RegistrationOptions::leads.
  absl::StatusOr<registry::Registration*> KeepEntry(const std::string& key, const std::string& name,
                                                    const std::string& value,
                                                    std::optional<std::chrono::milliseconds> timeout,
                                                    bool leads = false);

  const std::string run_;
  const RegistryConfig config_;
  const RpcAccess access_;
  const std::unique_ptr<registry::Registry> registry_;
  const base::Clock& clock_;  // this machine's
  const int64_t began_;       // Unix time in ns: distinguishes registries of one process
  struct Following {
    std::string kind;
    std::function<void(const std::string& name)> observer;
    std::set<std::string> reported;
  };
  void ReportFollowing();

  base::Mutex following_mu_;  // taken before mu_, and held while an observer runs
  std::vector<Following> following_ ABSL_GUARDED_BY(following_mu_);
  base::Mutex mu_;
  std::map<std::string, std::string> addresses_ ABSL_GUARDED_BY(mu_);  // by the roles' names
  std::map<std::string, RolePlace> last_places_ ABSL_GUARDED_BY(mu_);  // by the roles' names
  std::map<std::string, Line> lines_ ABSL_GUARDED_BY(mu_);             // of the roles that are called
  std::set<std::string> replaceable_ ABSL_GUARDED_BY(mu_);             // those of ToAny
  std::set<std::string> gone_ ABSL_GUARDED_BY(mu_);                    // their entries are deleted
  std::vector<Line> left_ ABSL_GUARDED_BY(mu_);  // earlier places: rpcs that end late may use their channels
  std::vector<std::unique_ptr<registry::Registration>> registrations_ ABSL_GUARDED_BY(mu_);
  std::vector<registry::Registration*> nodes_ ABSL_GUARDED_BY(mu_);  // among them
  // Of the first Register.
  registry::Registration* own_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::string own_address_ ABSL_GUARDED_BY(mu_), own_http_ ABSL_GUARDED_BY(mu_), own_waits_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<registry::Watcher> watcher_;  // last: its thread uses the above
};

}  // namespace ingot::app
