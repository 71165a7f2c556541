// The servers that sample for one engine: a single server, or the workers of a fleet behind a load balancer. Requests go
// to url(), and weights to each worker.
//
// A worker of a fleet may die or join at any time. It is READY while it responds and has passed the startup check, and
// JOINED while it has the live version. MEMBERS get new versions: the ready workers that have joined. If none has, they are
// all ready ones, without those that were LEFT OUT because they failed where others did not. ExternalEngine's keeper watches the workers.
//
// Thread safe, except that ForMembers is called by one thread at a time, and that `ready` is set by that thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "engines/api/engine_api.h"
#include "engines/server/server_control.h"

namespace ingot::engines {

struct Worker {
  Worker(const EngineApi& api, const std::string& key) : control(api, key) {}

  ServerControl control;
  std::atomic<bool> ready{false};
  std::atomic<bool> joined{false};  // of a fleet
  std::atomic<bool> tried{false};   // its trial load succeeded
  // It may be another process now, with other settings and weights.
  void Forget() { ready = joined = tried = false; }

  // Used by the thread that changes weights.
  bool left_out = false;
  absl::Status last_call = {};  // how it ended in ForMembers

  // Used by the keeper's thread.
  int missed_checks = 0;
  int failed_joins = 0;  // in a row
  std::chrono::nanoseconds healthy_at{0};
  int checks_until_join = 0;  // a join tries other weights, so it is not tried at each check
  std::string problem = {};   // why it has not joined, as last logged
};

// A worker of a fleet that failed where others did not.
struct FailedWorker {
  Worker* worker = nullptr;
  absl::Status why = {};
};

class Workers {
 public:
  // `urls` are the workers behind the load balancer at `url`; empty = `url` is the only server. REQUIRES: `api` outlives
  // this object.
  Workers(const EngineApi& api, const std::string& key, std::string url, const std::vector<std::string>& urls);

  bool is_fleet() const { return fleet_; }
  const std::vector<std::unique_ptr<Worker>>& all() const { return all_; }
  // The only server, of an engine that is not a fleet.
  Worker& single() const { return *all_[0]; }
  bool AnyReady() const;
  bool AnyJoined() const;
  bool AllTried() const;  // of the members
  size_t members() const { return Members().size(); }
  void SetJoined();  // the members
  // Returns the members for which the last ForMembers failed; empty = it failed for all members.
  std::vector<FailedWorker> Failing() const;

  std::string url() const;   // of requests
  std::string name() const;  // for messages
  // Makes current and later calls fail with CANCELLED.
  void Stop();
  // The workers may be other processes now.
  void Forget();

  // Calls `call` for each member, in parallel if there are several, and returns the first error. A worker of a fleet
  // that fails and is not healthy either is no longer ready, and its error is ignored. Returns UNAVAILABLE if there is
  // no member. Blocks.
  absl::Status ForMembers(const std::function<absl::Status(Worker& worker)>& call);

 private:
  std::vector<Worker*> Members() const;
  absl::Status DropGone(Worker& worker, const absl::Status& error);

  const bool fleet_;
  const std::string url_;  // of a fleet
  std::vector<std::unique_ptr<Worker>> all_;
};

}  // namespace ingot::engines
