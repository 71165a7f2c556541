#include "gateway/service.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gateway/api/api_error.h"
#include "gateway/http/http_forward.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"

namespace ingot::gateway {
namespace {

constexpr auto kCancelPoll = std::chrono::milliseconds(100);  // how quickly a canceled stream is noticed

// A flag set by gateway threads. It may outlive its stream.
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

// A question about a forwarded request's client. The thread that handles the request sends it to the RPC thread.
class ClientQuestion {
 public:
  // Blocks until there is an answer. If none arrives for a while, the client is considered gone.
  bool Ask(const std::function<void()>& wake) {
    base::MutexLock lock(mu_);
    asked_ = true;
    wake();
    const auto deadline = std::chrono::steady_clock::now() + kLongest;
    while (!gone_.has_value() && std::chrono::steady_clock::now() < deadline) changed_.WaitFor(mu_, kCancelPoll);
    return gone_.value_or(true);
  }
  bool IsAsked() {
    base::MutexLock lock(mu_);
    return asked_ && !gone_.has_value();
  }
  void Answer(bool gone) {
    base::MutexLock lock(mu_);
    gone_ = gone;
    changed_.SignalAll();
  }

 private:
  static constexpr std::chrono::seconds kLongest{10};
  base::Mutex mu_;
  base::CondVar changed_;
  bool asked_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<bool> gone_ ABSL_GUARDED_BY(mu_);
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
    return Fail(context, gateway_.RewardEpisode(*request, [context] { return context->IsCancelled(); }));
  }

  grpc::Status ReadMessages(grpc::ServerContext* context, const v1::ReadMessagesRequest* request,
                            v1::ReadMessagesResponse* response) override {
    auto read = gateway_.ReadMessages(*request);
    if (!read.ok()) return Fail(context, read.status());
    *response = *std::move(read);
    return grpc::Status::OK;
  }

  grpc::Status EndEpisode(grpc::ServerContext* context, const v1::EpisodeEndRequest* request,
                          v1::EpisodeEndResponse* response) override {
    auto ended = gateway_.EndEpisode(*request);
    if (!ended.ok()) return Fail(context, ended.status());
    *response = *std::move(ended);
    return grpc::Status::OK;
  }

  grpc::Status SnapshotEpisode(grpc::ServerContext* context, const v1::EpisodeSnapshotRequest* request,
                               v1::EpisodeSnapshotResponse* response) override {
    auto taken = gateway_.SnapshotEpisode(*request);
    if (!taken.ok()) return Fail(context, taken.status());
    *response = *std::move(taken);
    return grpc::Status::OK;
  }

  grpc::Status NextSnapshot(grpc::ServerContext* context, const v1::NextSnapshotRequest* request,
                            v1::NextSnapshotResponse* response) override {
    auto next = gateway_.NextSnapshot(*request);
    if (!next.ok()) return Fail(context, next.status());
    *response = *std::move(next);
    return grpc::Status::OK;
  }

  grpc::Status SnapshotTaken(grpc::ServerContext* context, const v1::SnapshotTakenRequest* request,
                             v1::SnapshotTakenResponse*) override {
    return Fail(context, gateway_.SnapshotTaken(*request));
  }

  grpc::Status SendSnapshotFiles(grpc::ServerContext* context, const v1::SnapshotFilesPart* part,
                                 v1::SnapshotFilesResponse*) override {
    return Fail(context, gateway_.SendSnapshotFiles(*part));
  }

  grpc::Status ChatCompletions(grpc::ServerContext* context, const v1::ChatRequest* request,
                               grpc::ServerWriter<v1::ChatResponse>* writer) override {
    RawRequest raw{.body = request->request_json(), .headers = {}};
    return Stream(context, {.api_key = request->api_key(), .episode = {}}, ChatDialect(), std::move(raw),
                  [writer](WireEvent event) {
                    v1::ChatResponse response;
                    response.set_response_json(std::move(event.data));
                    return writer->Write(response);
                  });
  }

  grpc::Status Answer(grpc::ServerContext* context, const v1::DialectRequest* request,
                      grpc::ServerWriter<v1::DialectEvent>* writer) override {
    const Dialect* dialect = FindDialect(request->dialect());
    if (dialect == nullptr) {
      std::string known;
      for (const Dialect* one : Dialects()) absl::StrAppend(&known, " ", base::View(one->name()));
      return Fail(context,
                  BadRequest("dialect", absl::StrCat("unknown dialect '", request->dialect(), "'; known:", known)));
    }
    RawRequest raw{.body = request->request_json(), .headers = {}, .token_events = request->tokens()};
    for (const auto& [name, text] : request->headers()) raw.headers.Add(name, text);
    return Stream(context, {.api_key = request->api_key(), .episode = request->episode_id()}, *dialect, std::move(raw),
                  [writer](WireEvent event) {
                    v1::DialectEvent out;
                    out.set_event(std::move(event.name));
                    out.set_data_json(std::move(event.data));
                    for (const Token& token : event.tokens) {
                      out.add_token_ids(token.id);
                      out.add_logprobs(token.logprob);
                    }
                    return writer->Write(out);
                  });
  }

  grpc::Status Status(grpc::ServerContext*, const v1::GatewayStatusRequest*,
                      v1::GatewayStatusResponse* response) override {
    *response = gateway_.Status();
    return grpc::Status::OK;
  }

  grpc::Status EndUncalled(grpc::ServerContext* context, const v1::EndUncalledRequest* request,
                           v1::EndUncalledResponse* response) override {
    auto ended = gateway_.EndUncalled(*request);
    if (!ended.ok()) return Fail(context, ended.status());
    *response = *std::move(ended);
    return grpc::Status::OK;
  }

  grpc::Status Serves(grpc::ServerContext*, const v1::ServesRequest* request, v1::ServesResponse* response) override {
    *response = gateway_.Serves(*request);
    return grpc::Status::OK;
  }

  grpc::Status Forward(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<v1::ForwardResponse, v1::ForwardRequest>* rpc) override {
    v1::ForwardRequest request;
    if (!rpc->Read(&request)) return grpc::Status::CANCELLED;
    auto signal = std::make_shared<Signal>();
    auto question = std::make_shared<ClientQuestion>();
    const auto client_gone = [signal, question] { return question->Ask([&] { signal->Set(); }); };
    ForwardedRequest forwarded(gateway_, request, client_gone, [signal] { signal->Set(); });
    bool here = true;
    while (here) {
      signal->WaitAndClear(kCancelPoll);
      if (context->IsCancelled()) break;
      if (question->IsAsked()) {
        v1::ForwardResponse asks;
        asks.set_asks_if_gone(true);
        v1::ForwardRequest answer;
        here = rpc->Write(asks) && rpc->Read(&answer);
        question->Answer(!here || answer.client_gone());
        continue;
      }
      const v1::ForwardResponse part = forwarded.TakePart();
      if (part.status() == 0 && !part.begins() && part.data().empty() && !part.done()) continue;
      here = rpc->Write(part);
      if (here && part.done()) return grpc::Status::OK;
    }
    forwarded.Abort();
    return grpc::Status::CANCELLED;
  }

 private:
  // `write` returns false if the client is gone.
  grpc::Status Stream(grpc::ServerContext* context, const Caller& caller, const Dialect& dialect, RawRequest raw,
                      const std::function<bool(WireEvent)>& write) {
    auto signal = std::make_shared<Signal>();
    const auto answer = gateway_.StartAnswer(caller, dialect, std::move(raw), [signal] { signal->Set(); });
    bool here = true;
    while (here) {
      signal->WaitAndClear(kCancelPoll);
      here = !context->IsCancelled();
      if (!here) break;
      gateway::Answer::Output out = answer->TakeOutput();
      for (WireEvent& event : out.events) here = here && write(std::move(event));
      if (here && out.done) return Fail(context, out.status);
    }
    answer->Abort(absl::CancelledError("the client disconnected"));
    return grpc::Status::CANCELLED;
  }

  grpc::Status Fail(grpc::ServerContext* context, const absl::Status& status) {
    if (status.ok()) return grpc::Status::OK;
    context->AddTrailingMetadata("http-status", std::to_string(HttpStatusOf(status)));
    if (ShouldRetryLater(status)) {
      context->AddTrailingMetadata("retry-after", std::to_string(kRetryAfterS));
    }
    return v1::ToGrpc(status);
  }

  Gateway& gateway_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewGatewayService(Gateway& gateway) { return std::make_unique<GatewayService>(gateway); }

}  // namespace ingot::gateway
