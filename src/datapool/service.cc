#include "datapool/service.h"

#include <utility>

#include "proto/datapool.grpc.pb.h"
#include "proto/grpc_status.h"

namespace ingot::datapool {
namespace {

class Service final : public v1::DataPool::Service {
 public:
  explicit Service(Client& pool) : pool_(pool) {}

  grpc::Status StoreEpisode(grpc::ServerContext*, const v1::StoreEpisodeRequest* request,
                            v1::StoreEpisodeResponse*) override {
    return v1::ToGrpc(pool_.StoreEpisode(*request));
  }
  grpc::Status AppendCall(grpc::ServerContext*, const v1::AppendCallRequest* request,
                          v1::AppendCallResponse*) override {
    return v1::ToGrpc(pool_.AppendCall(*request));
  }
  grpc::Status StoreReward(grpc::ServerContext*, const v1::StoreRewardRequest* request,
                           v1::StoreRewardResponse*) override {
    return v1::ToGrpc(pool_.StoreReward(*request));
  }
  grpc::Status StoreEnd(grpc::ServerContext*, const v1::StoreEndRequest* request, v1::StoreEndResponse*) override {
    return v1::ToGrpc(pool_.StoreEnd(*request));
  }
  grpc::Status TakeOverEpisode(grpc::ServerContext*, const v1::TakeOverEpisodeRequest* request,
                               v1::TakeOverEpisodeResponse* response) override {
    return Answer(pool_.TakeOverEpisode(*request), *response->mutable_tree());
  }
  grpc::Status StoreGrades(grpc::ServerContext*, const v1::StoreGradesRequest* request,
                           v1::StoreGradesResponse*) override {
    return v1::ToGrpc(pool_.StoreGrades(*request));
  }
  grpc::Status GetEpisode(grpc::ServerContext*, const v1::GetEpisodeRequest* request,
                          v1::GetEpisodeResponse* response) override {
    return Answer(pool_.GetEpisode(*request), *response->mutable_tree());
  }
  grpc::Status GetGroup(grpc::ServerContext*, const v1::GetGroupRequest* request,
                        v1::GetGroupResponse* response) override {
    return Answer(pool_.GetGroup(*request), *response->mutable_group());
  }
  grpc::Status ListEpisodes(grpc::ServerContext*, const v1::ListEpisodesRequest* request,
                            v1::ListEpisodesResponse* response) override {
    return Answer(pool_.ListEpisodes(*request), *response);
  }
  grpc::Status AppendJournal(grpc::ServerContext*, const v1::AppendJournalRequest* request,
                             v1::AppendJournalResponse* response) override {
    const absl::StatusOr<int64_t> first = pool_.AppendJournal(*request);
    if (!first.ok()) return v1::ToGrpc(first.status());
    response->set_first_index(*first);
    return grpc::Status::OK;
  }
  grpc::Status ReadJournal(grpc::ServerContext*, const v1::ReadJournalRequest* request,
                           v1::ReadJournalResponse* response) override {
    return Answer(pool_.ReadJournal(*request), *response);
  }
  grpc::Status Trim(grpc::ServerContext*, const v1::TrimRequest* request, v1::TrimResponse* response) override {
    return Answer(pool_.Trim(*request), *response);
  }
  grpc::Status Status(grpc::ServerContext*, const v1::PoolStatusRequest*, v1::PoolStatusResponse* response) override {
    return Answer(pool_.Status(), *response);
  }

 private:
  template <typename Message>
  static grpc::Status Answer(absl::StatusOr<Message> result, Message& response) {
    if (!result.ok()) return v1::ToGrpc(result.status());
    response = *std::move(result);
    return grpc::Status::OK;
  }

  Client& pool_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewDataPoolService(Client& pool) { return std::make_unique<Service>(pool); }

}  // namespace ingot::datapool
