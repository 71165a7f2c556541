#include "app/role_addresses.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "app/grpc_server.h"
#include "rollout/grpc_client.h"

namespace ingot::app {
namespace {

class EngineSet final : public rollout::Client {
 public:
  explicit EngineSet(std::vector<std::shared_ptr<rollout::Client>> engines)
      : engines_(std::move(engines)), in_flight_(std::make_shared<std::vector<std::atomic<int>>>(engines_.size())) {}

  std::unique_ptr<Request> Generate(const v1::GenerateRequest& request, OnChunk on_chunk) override {
    // Starting at a different engine each time spreads equal loads.
    const size_t start = next_++ % engines_.size();
    size_t best = start;
    for (size_t i = 1; i < engines_.size(); ++i) {
      const size_t candidate = (start + i) % engines_.size();
      if ((*in_flight_)[candidate] < (*in_flight_)[best]) best = candidate;
    }
    auto counted = std::make_unique<Counted>(in_flight_, best);
    counted->request = engines_[best]->Generate(request, std::move(on_chunk));
    return counted;
  }

  absl::StatusOr<v1::EngineStatusResponse> Status() override {
    v1::EngineStatusResponse sum;
    for (size_t i = 0; i < engines_.size(); ++i) {
      INGOT_ASSIGN_OR_RETURN(const v1::EngineStatusResponse one, engines_[i]->Status());
      if (i == 0) {
        sum = one;
        continue;
      }
      sum.set_version(std::min(sum.version(), one.version()));
      sum.set_running(sum.running() + one.running());
      sum.set_waiting(sum.waiting() + one.waiting());
      sum.set_kv_blocks_total(sum.kv_blocks_total() + one.kv_blocks_total());
      sum.set_kv_blocks_used(sum.kv_blocks_used() + one.kv_blocks_used());
      sum.set_sampled_tokens(sum.sampled_tokens() + one.sampled_tokens());
      sum.set_prompt_tokens(sum.prompt_tokens() + one.prompt_tokens());
      sum.set_cached_prompt_tokens(sum.cached_prompt_tokens() + one.cached_prompt_tokens());
      sum.set_busy_seconds(sum.busy_seconds() + one.busy_seconds());
      sum.set_alive_seconds(sum.alive_seconds() + one.alive_seconds());
    }
    return sum;
  }

 private:
  using Counts = std::shared_ptr<std::vector<std::atomic<int>>>;
  struct Counted final : Request {
    Counted(Counts all, size_t index) : counts(std::move(all)), engine(index) { ++(*counts)[engine]; }
    ~Counted() override {
      request.reset();
      --(*counts)[engine];
    }
    Counts counts;
    size_t engine;
    std::unique_ptr<Request> request;
  };

  const std::vector<std::shared_ptr<rollout::Client>> engines_;
  const Counts in_flight_;
  std::atomic<size_t> next_{0};
};

std::string At(const ClusterOptions& cluster, int port) { return absl::StrCat(cluster.host, ":", port); }

}  // namespace

std::string DataPoolAddress(const ClusterOptions& cluster) { return At(cluster, cluster.datapool_port); }
std::string SchedulerAddress(const ClusterOptions& cluster) { return At(cluster, cluster.scheduler_port); }
std::string GatewayAddress(const ClusterOptions& cluster) { return At(cluster, cluster.gateway_port); }
std::string RolloutAddress(const ClusterOptions& cluster, int engine) {
  return At(cluster, cluster.rollout_port + engine);
}

std::shared_ptr<rollout::Client> ConnectEngines(const ClusterOptions& cluster) {
  std::vector<std::shared_ptr<rollout::Client>> engines;
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    engines.push_back(rollout::NewGrpcClient(Connect(RolloutAddress(cluster, i))));
  }
  if (engines.size() == 1) return engines.front();
  return std::make_shared<EngineSet>(std::move(engines));
}

std::map<std::string, std::shared_ptr<rollout::Client>> ConnectExternalModels(const gateway::GatewayOptions& options) {
  std::map<std::string, std::shared_ptr<rollout::Client>> clients;
  for (const gateway::ModelOptions& model : options.models) {
    if (model.weights != gateway::ModelWeights::kExternal) continue;
    clients[model.name] = rollout::NewGrpcClient(Connect(model.address));
  }
  return clients;
}

}  // namespace ingot::app
