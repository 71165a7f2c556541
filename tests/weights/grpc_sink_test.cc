#include "weights/grpc_sink.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "proto/grpc_status.h"
#include "proto/rollout.grpc.pb.h"
#include "weights/make_snapshot.h"

namespace ingot::weights {
namespace {

// The smallest possible server of UpdateWeights.
class Engine final : public v1::Rollout::Service {
 public:
  grpc::Status UpdateWeights(grpc::ServerContext*, grpc::ServerReader<v1::WeightChunk>* reader,
                             v1::UpdateWeightsResponse* response) override {
    ChunkAssembler assembler;
    for (v1::WeightChunk chunk; reader->Read(&chunk);) {
      ++chunks;
      if (const absl::Status status = assembler.Add(std::move(chunk)); !status.ok()) return v1::ToGrpc(status);
    }
    const auto delta = assembler.Finish();
    if (!delta.ok()) return v1::ToGrpc(delta.status());
    const auto applied = Apply(held, *delta);
    if (!applied.ok()) return v1::ToGrpc(applied.status());
    held = *applied;
    response->set_version(held->version());
    response->set_pause_ms(0.5);
    return grpc::Status::OK;
  }
  grpc::Status ReleaseVersion(grpc::ServerContext*, const v1::ReleaseVersionRequest* request,
                              v1::ReleaseVersionResponse*) override {
    released.push_back(request->version());
    return grpc::Status::OK;
  }

  std::shared_ptr<const Snapshot> held;
  std::vector<int64_t> released;
  int chunks = 0;
};

TEST(GrpcSink, CarriesDeltasFullCopiesAndRejections) {
  Engine engine;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&engine);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  auto sink = NewGrpcSink(channel, {.chunk_bytes = 100000}).value();

  std::mt19937_64 rng(1);
  testing::Tensors tensors;
  tensors.Add("a", "F32", {1 << 20}, testing::RandomBytes(rng, 4 << 20));
  tensors.Add("b", "BF16", {3}, "abcdef");
  const auto first = tensors.TakeSnapshot(1);
  tensors.bytes[0][77] ^= 1;
  const auto second = tensors.TakeSnapshot(2);
  const EncodedDelta delta = Encode(first.get(), *second, false).value();

  EXPECT_EQ(sink->Update(delta).status().code(), absl::StatusCode::kFailedPrecondition);
  const auto full = sink->Update(Encode(nullptr, *first, false).value());
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_GT(engine.chunks, 40);
  const auto updated = sink->Update(delta);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->version(), 2);
  EXPECT_EQ(updated->pause_ms(), 0.5);
  EXPECT_TRUE(testing::SameWeights(*engine.held, *second));
  EncodedDelta broken = Encode(second.get(), *first, false).value();
  (*broken.tensors[0].mutable_payload())[3] ^= 1;
  EXPECT_EQ(sink->Update(broken).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(sink->Release(2).ok());
  EXPECT_EQ(engine.released, std::vector<int64_t>{2});
  server->Shutdown();
  EXPECT_EQ(sink->Update(delta).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(NewGrpcSink(channel, {.chunk_bytes = 0}).ok());
}

}  // namespace
}  // namespace ingot::weights
