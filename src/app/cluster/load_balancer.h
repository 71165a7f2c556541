// Balances TCP connections across several gateways. The load balancer runs in the process that launches the run, and
// agents connect to its address. It assigns connections to gateways round-robin. It does not parse the traffic, because
// any gateway can serve any episode. TLS passes through unchanged.
//
//   agents ──▶ http.host:http.port ──┬─▶ gateway      while it is registered
//                                    └─▶ gateway-1
//
// When a gateway is no longer registered, the load balancer closes its connections, and clients retry and reach another
// gateway. It also closes connections whose client stops reading or does not close after the gateway has closed. Idle
// connections stay open, because gateways close idle clients' connections, and the kernel detects dead peers. Beyond
// max_connections, clients wait in the system's accept queue. On Kubernetes, a Service replaces this class. Thread
// safe.
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
  // Maximum client connections. Each uses two file descriptors. 0 = 5120, or fewer if the hard limit on open files is
  // lower.
  int32_t max_connections = 0;
  // A connection is closed if its client does not read, or does not close after the gateway has closed, for this long.
  std::chrono::milliseconds client_timeout{60'000};
};

class LoadBalancer {
 public:
  // Starts listening, and raises this process's open file limit to fit its connections. `port` 0 = any free port.
  // Returns UNAVAILABLE if it cannot listen, and RESOURCE_EXHAUSTED if the system does not allow max_connections.
  static absl::StatusOr<std::unique_ptr<LoadBalancer>> Listen(const std::string& host, int port,
                                                              LoadBalancerOptions options = {});
  // Closes all connections.
  ~LoadBalancer();

  int port() const;
  // From now on, forwards only to these HOST:PORT addresses, and closes connections to all others. If the list is
  // empty, clients wait.
  void SetGateways(std::vector<std::string> places);

 private:
  class Impl;
  explicit LoadBalancer(std::shared_ptr<Impl> impl);

  const std::shared_ptr<Impl> impl_;
  std::thread thread_;
};

// Returns whether the run has several gateways and the user has set up no proxy in front of them (gateway.public_url).
bool NeedsLoadBalancer(const RunConfig& config);
// Returns the agents' URL for a load balancer on this machine. `own_host` (from cluster.host) is used if http.host is a
// wildcard address.
std::string LoadBalancerUrl(const RunConfig& config, const std::string& own_host, int port);

// Keeps a load balancer's gateway list up to date with the registry.
class LoadBalancerUpdater {
 public:
  // REQUIRES: both arguments outlive it.
  LoadBalancerUpdater(LoadBalancer& load_balancer, RunRegistry& registry);
  ~LoadBalancerUpdater();

 private:
  void Run();

  LoadBalancer& load_balancer_;
  RunRegistry& registry_;
  base::Mutex mu_;
  base::CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // declared last
};

}  // namespace ingot::app
