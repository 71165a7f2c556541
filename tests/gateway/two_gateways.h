// Two gateways of one run over one pool: requests reach either of them, and each may fall silent or leave the registry.
#pragma once

#include <absl/strings/str_split.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/listening_socket.h"
#include "datapool/make_pool.h"
#include "gateway/fakes.h"
#include "gateway/grpc_peers.h"
#include "gateway/http/http_api.h"
#include "gateway/service.h"

namespace ingot::gateway {

// Forwards everything to a pool, except what a test changes.
class SpiedPool final : public datapool::Client {
 public:
  explicit SpiedPool(datapool::Client& pool) : pool_(pool) {}

  absl::Status StoreEpisode(const v1::StoreEpisodeRequest& request) override { return pool_.StoreEpisode(request); }
  absl::Status AppendCall(const v1::AppendCallRequest& request) override { return pool_.AppendCall(request); }
  absl::Status StoreReward(const v1::StoreRewardRequest& request) override {
    if (!holds_rewards) return pool_.StoreReward(request);
    held_rewards.push_back(request);
    return absl::DeadlineExceededError("the pool does not answer");
  }
  absl::Status StoreEnd(const v1::StoreEndRequest& request) override {
    const absl::Status failure = fails();
    return failure.ok() ? pool_.StoreEnd(request) : failure;
  }
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest& request) override {
    ++takes;
    auto taken = pool_.TakeOverEpisode(request);
    if (lost_takes == 0) return taken;
    --lost_takes;
    return absl::UnavailableError("the answer is lost");
  }
  absl::Status StoreGrades(const v1::StoreGradesRequest& request) override { return pool_.StoreGrades(request); }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) override {
    ++gets;
    const absl::Status failure = fails();
    if (!failure.ok()) return failure;
    return pool_.GetEpisode(request);
  }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& request) override { return pool_.GetGroup(request); }
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override {
    if (page.has_value() && request.purpose() == v1::PURPOSE_TRAIN) return *page;
    return pool_.ListEpisodes(request);
  }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& request) override {
    return pool_.AppendJournal(request);
  }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) override {
    return pool_.ReadJournal(request);
  }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& request) override { return pool_.Trim(request); }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return pool_.Status(); }

  absl::Status fails() const { return away ? absl::UnavailableError("the pool is away") : absl::OkStatus(); }

  std::atomic<int> takes = 0, gets = 0;
  std::atomic<int> lost_takes = 0;  // so many are stored, and their answers are lost
  std::atomic<bool> away = false;   // reads and ends fail
  bool holds_rewards = false;       // rewards are on their way, and the caller gives them up
  std::vector<v1::StoreRewardRequest> held_rewards;
  std::optional<v1::ListEpisodesResponse> page;  // the answer to ListEpisodes; nullopt = the pool's

 private:
  datapool::Client& pool_;
};

class TwoGateways : public ::testing::Test {
 protected:
  // One of the gateways, with its own engine.
  struct Place {
    std::string role;
    std::function<Script(const v1::GenerateRequest&)> author;
    std::shared_ptr<ScriptedEngine> engine;
    std::unique_ptr<Peers> peers;
    std::unique_ptr<Gateway> gateway;
    std::unique_ptr<HttpApi> api;
    std::unique_ptr<grpc::Service> service;
    std::unique_ptr<grpc::Server> server;
    std::shared_ptr<grpc::Channel> channel;
    std::atomic<bool> silent = false;
    int start = 0;  // the number of its process
  };

  TwoGateways() {
    auto pool = datapool::OpenPool(datapool::testing::QuickOptions(dir_.path()));
    EXPECT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    spied_ = std::make_unique<SpiedPool>(*pool_);
    present_ = {"gateway", "gateway-1"};
    a_.role = "gateway";
    b_.role = "gateway-1";
    Start(a_);
    Start(b_);
  }
  ~TwoGateways() override {
    for (Place* place : {&a_, &b_}) {
      place->engine->Release();
      place->gateway->Shutdown();
      place->server->Shutdown();
    }
  }

  void Start(Place& place) {
    Place& other = &place == &a_ ? b_ : a_;
    place.start = ++starts_;
    place.author = [&place](const auto&) { return Say("from " + place.role); };
    place.engine = std::make_shared<ScriptedEngine>([&place](const auto& request) { return place.author(request); });
    place.peers = MakeGrpcPeers({.channels = {{other.role, v1::RoleChannel([this, &other] {
                                                 return other.silent ? silence_channel_ : other.channel;
                                               })}},
                                 .present = [this]() -> absl::StatusOr<std::vector<std::string>> {
                                   base::MutexLock lock(mu_);
                                   return present_;
                                 },
                                 .deadline = std::chrono::seconds(1)});
    place.gateway = Gateway::Create({}, {.engine = place.engine,
                                         .pool = spied_.get(),
                                         .admission = &admission_,
                                         .tokenizer = TestTokenizer(),
                                         .format = TestFormat(),
                                         .name = GatewayName(place.role, std::to_string(place.start)),
                                         .peers = place.peers.get(),
                                         .clock = &wall_})
                        .value();
    place.api = std::make_unique<HttpApi>(*place.gateway);
    place.service = NewGatewayService(*place.gateway);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(place.service.get());
    place.server = builder.BuildAndStart();
    place.channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  }
  // Another process in its place, as after a kill.
  void Restart(Place& place) {
    place.server->Shutdown();
    place.service.reset();
    place.api.reset();
    place.gateway.reset();
    Start(place);
    EXPECT_TRUE(place.gateway->Recover().ok());
  }
  // b_ takes the episode from a_, which runs on and does not know.
  void TakeOver(const v1::EpisodeOpenResponse& episode) {
    SetPresent({"gateway-1"});
    EXPECT_EQ(*b_.gateway->Place({.api_key = {}, .episode = episode.episode_id()}), "");
    EXPECT_EQ(Tree(episode.episode_id()).episode().gateway(), b_name());
    SetPresent({"gateway", "gateway-1"});
  }
  std::string b_name() const { return GatewayName(b_.role, std::to_string(b_.start)); }
  void SetPresent(std::vector<std::string> roles) {
    base::MutexLock lock(mu_);
    present_ = std::move(roles);
  }

  // A request and its answer, as far as it has come.
  struct Asked {
    std::shared_ptr<http::Exchange> exchange;
    std::shared_ptr<Flag> flag = std::make_shared<Flag>();
    std::optional<http::Reply> reply;
    std::string stream;
    bool done = false, broken = false;

    void Step() {
      if (!flag->WaitAndClear()) return Leave();
      http::Output output = exchange->Send();
      if (output.reply.has_value()) reply = output.reply;
      stream += output.data;
      done = done || output.done || output.reply.has_value();
      broken = broken || output.broken;
    }
    // What does not come is an answer with the status 0, so that the test continues to its end.
    void Leave() {
      exchange->Closed(http::Side::kClient);
      reply = http::Reply{.status = 0, .body = "no answer"};
      done = true;
    }
    Asked& Finish() {
      while (!done) Step();
      return *this;
    }
    // The answer's text so far. Events cut it anywhere.
    std::string Text() const {
      std::string text;
      for (const std::string& line : std::vector<std::string>(absl::StrSplit(stream, '\n'))) {
        if (!line.starts_with("data: {") || !line.ends_with("}")) continue;
        const auto event = base::ParseJson(std::string_view(line).substr(6)).value();
        const base::json::object* delta = event.at("choices").at(0).at("delta").if_object();
        if (delta == nullptr || !delta->contains("content")) continue;
        if (const auto* content = delta->at("content").if_string()) text += *content;
      }
      return text;
    }
  };
  static std::unique_ptr<Asked> Start(Place& place, const std::string& target, const base::json::value& body,
                                      const std::string& key, const std::string& method = "POST",
                                      std::function<bool()> client_gone = nullptr) {
    auto asked = std::make_unique<Asked>();
    asked->exchange = place.api
                          ->Head({.method = method,
                                  .target = target,
                                  .fields = {{"Authorization", "Bearer " + key}},
                                  .client_gone = std::move(client_gone)})
                          .exchange;
    asked->exchange->Body(base::PrintJson(body), [flag = asked->flag] { flag->Set(); });
    return asked;
  }
  static http::Reply Post(Place& place, const std::string& target, const base::json::value& body,
                          const std::string& key) {
    return *Start(place, target, body, key)->Finish().reply;
  }
  static std::string ChatOf(const v1::EpisodeOpenResponse& episode) {
    return "/s/" + episode.episode_id() + "/v1/chat/completions";
  }
  static std::string TextOf(const http::Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    const auto json = base::ParseJson(reply.body).value();
    return std::string(json.at("choices").at(0).at("message").at("content").as_string());
  }
  v1::EpisodeTree Tree(const std::string& id) {
    v1::GetEpisodeRequest request;
    request.set_episode_id(id);
    request.set_with_calls(true);
    return pool_->GetEpisode(request).value();
  }

  datapool::testing::TempDir dir_;
  std::unique_ptr<datapool::Client> pool_;
  std::unique_ptr<SpiedPool> spied_;
  base::testing::JumpingClock wall_{base::Clock::Real()};
  TestAdmission admission_;
  // Takes connections and never answers, as the port of a stopped process.
  const base::testing::ListeningSocket silence_;
  const std::shared_ptr<grpc::Channel> silence_channel_ =
      grpc::CreateChannel(silence_.place(), grpc::InsecureChannelCredentials());
  base::Mutex mu_;
  std::vector<std::string> present_ ABSL_GUARDED_BY(mu_);
  int starts_ = 0;
  Place a_, b_;
};

}  // namespace ingot::gateway
