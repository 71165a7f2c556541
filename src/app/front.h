// The address that agents know when a run has several gateways: a forwarder of TCP connections in the process that launches
// the run. Each connection goes to the next gateway in turn. Any gateway answers for every episode, so the forwarder reads
// nothing; TLS passes through it.
//
//   agents ──▶ http.host:http.port ──┬─▶ gateway      while it is registered
//                                    └─▶ gateway-1
//
// The connections of a gateway that is no longer registered are closed, so that its clients ask again and reach another one.
// On Kubernetes a Service does the same. Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "app/run_config.h"
#include "app/run_registry.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace ingot::app {

class Front {
 public:
  // Listens. `port` 0 = a free one. UNAVAILABLE: it cannot.
  static absl::StatusOr<std::unique_ptr<Front>> Listen(const std::string& host, int port);
  // Closes all connections.
  ~Front();

  int port() const;
  // Forwards to these HOST:PORT from now on, and closes the connections to others. With none, clients wait.
  void SetGateways(std::vector<std::string> places);

 private:
  class Impl;
  explicit Front(std::shared_ptr<Impl> impl);

  const std::shared_ptr<Impl> impl_;
  std::thread thread_;
};

// Whether the run has several gateways, and nothing of its owner's in front of them (gateway.public_url).
bool NeedsFront(const RunConfig& config);
// The URL of a front on this machine, for agents. `own_host`: of cluster.host, where http.host is every address.
std::string FrontUrl(const RunConfig& config, const std::string& own_host, int port);

// Keeps a front's gateways as the registry tells them.
class FrontKeeper {
 public:
  // REQUIRES: both outlive it.
  FrontKeeper(Front& front, RunRegistry& registry);
  ~FrontKeeper();

 private:
  void Run();

  Front& front_;
  RunRegistry& registry_;
  base::Mutex mu_;
  base::CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last
};

}  // namespace ingot::app
