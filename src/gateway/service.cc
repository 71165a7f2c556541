#include "gateway/service.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cmath>
#include <string>

#include "gateway/api_error.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"

namespace ingot::gateway {
namespace {

constexpr auto kCancelPoll = std::chrono::milliseconds(100);  // how soon a cancelled stream is noticed

// Woken from the gateway's threads; may outlive its stream.
struct Signal {
  base::Mutex mu;
  base::CondVar changed;
  bool set ABSL_GUARDED_BY(mu) = false;

  void Set() {
    base::MutexLock lock(mu);
    set = true;
    changed.SignalAll();
  }
  bool WaitAndClear(std::chrono::nanoseconds timeout) {
    base::MutexLock lock(mu);
    if (!set) changed.WaitFor(mu, timeout);
    return std::exchange(set, false);
  }
};

class GatewayService final : public v1::Gateway::Service {
 public:
  explicit GatewayService(Gateway& gateway) : gateway_(gateway) {}

  grpc::Status OpenEpisode(grpc::ServerContext* context, const v1::EpisodeOpenRequest* request,
                           v1::EpisodeOpenResponse* response) override {
    auto opened = gateway_.OpenEpisode(*request);
    if (!opened.ok()) return Fail(context, opened.status());
    *response = *std::move(opened);
    return grpc::Status::OK;
  }

  grpc::Status RewardEpisode(grpc::ServerContext* context, const v1::EpisodeRewardRequest* request,
                             v1::EpisodeRewardResponse*) override {
    return Fail(context, gateway_.RewardEpisode(*request));
  }

  grpc::Status EndEpisode(grpc::ServerContext* context, const v1::EpisodeEndRequest* request,
                          v1::EpisodeEndResponse*) override {
    return Fail(context, gateway_.EndEpisode(*request));
  }

  grpc::Status ChatCompletions(grpc::ServerContext* context, const v1::ChatRequest* request,
                               grpc::ServerWriter<v1::ChatResponse>* writer) override {
    auto signal = std::make_shared<Signal>();
    const auto call = gateway_.StartChat({.api_key = request->api_key(), .episode = {}}, request->request_json(),
                                         [signal] { signal->Set(); });
    while (true) {
      signal->WaitAndClear(kCancelPoll);
      if (context->IsCancelled()) break;
      ChatCall::Output out = call->Take();
      for (std::string& event : out.events) {
        v1::ChatResponse response;
        response.set_response_json(std::move(event));
        if (!writer->Write(response)) {
          call->Abort(absl::CancelledError("the client went away"));
          return grpc::Status::CANCELLED;
        }
      }
      if (out.done) return Fail(context, out.status);
    }
    call->Abort(absl::CancelledError("the client went away"));
    return grpc::Status::CANCELLED;
  }

  grpc::Status Status(grpc::ServerContext*, const v1::GatewayStatusRequest*,
                      v1::GatewayStatusResponse* response) override {
    *response = gateway_.Status();
    return grpc::Status::OK;
  }

 private:
  grpc::Status Fail(grpc::ServerContext* context, const absl::Status& status) {
    if (status.ok()) return grpc::Status::OK;
    context->AddTrailingMetadata("http-status", std::to_string(HttpStatusOf(status)));
    if (ShouldRetryLater(status)) {
      const auto seconds = static_cast<int64_t>(std::ceil(gateway_.options().retry_after_s));
      context->AddTrailingMetadata("retry-after", std::to_string(seconds));
    }
    return v1::ToGrpc(status);
  }

  Gateway& gateway_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewGatewayService(Gateway& gateway) { return std::make_unique<GatewayService>(gateway); }

}  // namespace ingot::gateway
