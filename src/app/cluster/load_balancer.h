// The address that agents know when a run has several gateways: a forwarder of TCP connections in the process that
// launches the run. Each connection goes to the next gateway in turn. Any gateway answers for every episode, so the
// forwarder reads nothing; TLS passes through it.
//
//   agents ──▶ http.host:http.port ──┬─▶ gateway      while it is registered
//                                    └─▶ gateway-1
//
// When a gateway is no longer registered, its connections are closed, so its clients retry and reach another one. The
// connection of a client that reads no bytes, or stays after its gateway has closed, is closed too. Idle connections
// stay: a gateway closes the connections of its idle clients, and the kernel finds peers that are gone. Beyond
// max_connections, clients wait in the system's queue. On Kubernetes a Service does the same. Thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "app/cluster/run_registry.h"
#include "app/run/run_config.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace ingot::app {

struct LoadBalancerOptions {
  // Of clients. Each takes two file descriptors. 0 = 5120, or as many as the hard limit of open files leaves.
  int32_t max_connections = 0;
  // Until a client is closed that reads no bytes, or that stays after its gateway has closed.
  std::chrono::milliseconds client_timeout{60'000};
};

class LoadBalancer {
 public:
  // Listens, and raises this process's limit of open files for its connections. `port` 0 = a free one. UNAVAILABLE: it
  // cannot listen. RESOURCE_EXHAUSTED: max_connections are more than the system allows.
  static absl::StatusOr<std::unique_ptr<LoadBalancer>> Listen(const std::string& host, int port,
                                                              LoadBalancerOptions options = {});
  // Closes all connections.
  ~LoadBalancer();

  int port() const;
  // Forwards to these HOST:PORT from now on, and closes connections to others. If the list is empty, clients wait.
  void SetGateways(std::vector<std::string> places);

 private:
  class Impl;
  explicit LoadBalancer(std::shared_ptr<Impl> impl);

  const std::shared_ptr<Impl> impl_;
  std::thread thread_;
};

// Whether the run has several gateways and its owner put no proxy in front of them (gateway.public_url).
bool NeedsLoadBalancer(const RunConfig& config);
// The URL of a load balancer on this machine, for agents. `own_host`: of cluster.host, where http.host is every
// address.
std::string LoadBalancerUrl(const RunConfig& config, const std::string& own_host, int port);

// Updates a load balancer's gateways from the registry.
class LoadBalancerUpdater {
 public:
  // REQUIRES: both outlive it.
  LoadBalancerUpdater(LoadBalancer& load_balancer, RunRegistry& registry);
  ~LoadBalancerUpdater();

 private:
  void Run();

  LoadBalancer& load_balancer_;
  RunRegistry& registry_;
  base::Mutex mu_;
  base::CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last
};

}  // namespace ingot::app
