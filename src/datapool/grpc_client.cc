#include "datapool/grpc_client.h"

#include <utility>

#include "proto/datapool.grpc.pb.h"
#include "proto/grpc_call.h"

namespace ingot::datapool {
namespace {

using std::chrono::milliseconds;

class GrpcClient final : public Client {
 public:
  GrpcClient(v1::RoleChannel channel, milliseconds deadline) : deadline_(deadline), stubs_(std::move(channel)) {}

  absl::Status StoreEpisode(const v1::StoreEpisodeRequest& request) override {
    return Call<v1::StoreEpisodeResponse>(request, &v1::DataPool::Stub::StoreEpisode).status();
  }
  absl::Status AppendCall(const v1::AppendCallRequest& request) override {
    return Call<v1::AppendCallResponse>(request, &v1::DataPool::Stub::AppendCall).status();
  }
  absl::Status StoreReward(const v1::StoreRewardRequest& request) override {
    return Call<v1::StoreRewardResponse>(request, &v1::DataPool::Stub::StoreReward).status();
  }
  absl::Status StoreEnd(const v1::StoreEndRequest& request) override {
    return Call<v1::StoreEndResponse>(request, &v1::DataPool::Stub::StoreEnd).status();
  }
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest& request) override {
    INGOT_ASSIGN_OR_RETURN(auto response,
                           Call<v1::TakeOverEpisodeResponse>(request, &v1::DataPool::Stub::TakeOverEpisode));
    return std::move(*response.mutable_tree());
  }
  absl::Status StoreGrades(const v1::StoreGradesRequest& request) override {
    return Call<v1::StoreGradesResponse>(request, &v1::DataPool::Stub::StoreGrades).status();
  }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) override {
    INGOT_ASSIGN_OR_RETURN(auto response, Call<v1::GetEpisodeResponse>(request, &v1::DataPool::Stub::GetEpisode));
    return std::move(*response.mutable_tree());
  }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& request) override {
    INGOT_ASSIGN_OR_RETURN(auto response, Call<v1::GetGroupResponse>(request, &v1::DataPool::Stub::GetGroup));
    return std::move(*response.mutable_group());
  }
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override {
    return Call<v1::ListEpisodesResponse>(request, &v1::DataPool::Stub::ListEpisodes);
  }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& request) override {
    INGOT_ASSIGN_OR_RETURN(const auto response,
                           Call<v1::AppendJournalResponse>(request, &v1::DataPool::Stub::AppendJournal));
    return response.first_index();
  }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) override {
    return Call<v1::ReadJournalResponse>(request, &v1::DataPool::Stub::ReadJournal);
  }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& request) override {
    return Call<v1::TrimResponse>(request, &v1::DataPool::Stub::Trim);
  }
  absl::StatusOr<v1::PoolStatusResponse> Status() override {
    return Call<v1::PoolStatusResponse>(v1::PoolStatusRequest(), &v1::DataPool::Stub::Status);
  }

 private:
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(const Request& request,
                                grpc::Status (v1::DataPool::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                           Response*)) {
    auto response = v1::CallUnary(stubs_, method, request, {.timeout = deadline_});
    if (!response.ok()) return base::Annotate(response.status(), "data pool");
    return response;
  }

  const milliseconds deadline_;
  const v1::Stubs<v1::DataPool> stubs_;
};

}  // namespace

std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, milliseconds deadline) {
  return std::make_unique<GrpcClient>(std::move(channel), deadline);
}

}  // namespace ingot::datapool
