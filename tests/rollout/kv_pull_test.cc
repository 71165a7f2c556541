// Pulling chunks from another engine over a real channel: the bytes are equal, and whatever the other engine sends or
// does, no wrong byte is used and no call takes longer than its limit.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "kv/memory_store.h"
#include "kv/store_rig.h"
#include "proto/kv_pull.grpc.pb.h"
#include "rollout/cache/grpc_kv_store.h"
#include "rollout/cache/kv_pull_service.h"
#include "rollout/kv_store_rig.h"
#include "rollout/routing/engine_set.h"

namespace ingot::rollout::kv_pull_test {
namespace {

using kv::Chunk;
using kv::Planes;
using kv::Root;
using std::chrono::milliseconds;

constexpr milliseconds kTooLong{1000};

// A server on 127.0.0.1.
struct Served {
  explicit Served(std::unique_ptr<grpc::Service> of) : service(std::move(of)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service.get());
    server = builder.BuildAndStart();
    peer = {"rollout-0", grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials())};
  }
  ~Served() { Stop(); }
  void Stop() { server->Shutdown(std::chrono::system_clock::now()); }

  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;
  KvPeer peer{"", std::shared_ptr<grpc::Channel>()};
};

class KvPullTest : public testing::Test {
 protected:
  absl::Status Put(const Root& root, const Chunk& chunk) {
    return kept_->Put(root, chunk, Planes(root, chunk).write());
  }
  // Reads a chunk, and checks that its bytes are right after OK.
  absl::Status Get(kv::Store& store, const Root& root, const Chunk& chunk) {
    Planes planes(root);
    const absl::Status status = store.Get(root, chunk, planes.read());
    EXPECT_TRUE(!status.ok() || planes == Planes(root, chunk)) << "wrong bytes";
    return status;
  }

  const Root root_ = kv::SmallRoot();
  const std::vector<Chunk> chain_ = kv::SmallChain(root_, 3);
  const std::shared_ptr<kv::MemoryStore> kept_ = std::make_shared<kv::MemoryStore>(1 << 28);
  base::ManualClock clock_;
};

TEST_F(KvPullTest, ChunksAreFoundAndPulled) {
  Served served(NewKvPullService(kept_));
  const auto store = NewPulledStore({served.peer}, kTimeout, clock_);
  EXPECT_EQ(store->Longest(root_, chain_), 0);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Put(root_, chain_[i]).ok());
  EXPECT_EQ(store->Longest(root_, chain_), 2);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Get(*store, root_, chain_[i]).ok());
  EXPECT_TRUE(absl::IsNotFound(Get(*store, root_, chain_[2])));
  EXPECT_TRUE(absl::IsNotFound(Get(*store, kv::SmallRoot(8), chain_[0]))) << "another root";
  EXPECT_TRUE(absl::IsUnavailable(store->Put(root_, chain_[2], Planes(root_, chain_[2]).write())));
  Planes planes(root_);
  kv::PlanesToRead cut = planes.read();
  cut.pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(store->Get(root_, chain_[0], cut)));
}

TEST_F(KvPullTest, ALargeChunkComesInSeveralMessages) {
  Root large = root_;
  large.plane_bytes = {5 << 20, 3'000'001};
  const Chunk chunk = kv::SmallChain(large, 1)[0];
  ASSERT_TRUE(Put(large, chunk).ok());
  Served served(NewKvPullService(kept_));
  EXPECT_TRUE(Get(*NewPulledStore({served.peer}, kTimeout, clock_), large, chunk).ok());
}

TEST_F(KvPullTest, KeysOfOtherSizesAreRefused) {
  Served served(NewKvPullService(kept_));
  const auto stub = v1::KvPull::NewStub(served.peer.channel.Now());
  v1::PullKvRequest request;
  request.mutable_chunk()->set_key("short");
  grpc::ClientContext context, other;
  const auto reader = stub->PullKv(&context, request);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::FindKvRequest find;
  find.add_keys("short");
  v1::FindKvResponse found;
  EXPECT_TRUE(stub->FindKv(&other, find, &found).ok());
  EXPECT_EQ(found.chunks(), 0);
}

// An engine that claims to have every chunk and sends what a test wants.
class FaultyService final : public v1::KvPull::Service {
 public:
  using Send = std::function<grpc::Status(grpc::ServerContext&, grpc::ServerWriter<v1::KvBytes>&)>;
  explicit FaultyService(Send send) : send_(std::move(send)) {}
  grpc::Status FindKv(grpc::ServerContext*, const v1::FindKvRequest*, v1::FindKvResponse* response) override {
    response->set_chunks(1'000'000);
    return grpc::Status::OK;
  }
  grpc::Status PullKv(grpc::ServerContext* context, const v1::PullKvRequest*,
                      grpc::ServerWriter<v1::KvBytes>* writer) override {
    return send_(*context, *writer);
  }

 private:
  const Send send_;
};

void Write(grpc::ServerWriter<v1::KvBytes>& writer, const std::string& bytes) {
  v1::KvBytes message;
  message.set_bytes(bytes);
  writer.Write(message);
}

TEST_F(KvPullTest, WrongBytesAreNeverUsed) {
  ASSERT_TRUE(Put(root_, chain_[0]).ok());
  const kv::KeptChunkPtr stored = kept_->Find(root_.Text(), chain_[0]);
  const std::string right = stored->header + std::string(reinterpret_cast<const char*>(stored->planes.get()),
                                                         static_cast<size_t>(stored->plane_bytes));
  std::string sent;
  Served served(std::make_unique<FaultyService>([&](auto&, auto& writer) {
    Write(writer, sent.substr(0, 100));
    Write(writer, "");
    Write(writer, sent.substr(std::min<size_t>(sent.size(), 100)));
    return grpc::Status::OK;
  }));
  const auto store = NewPulledStore({served.peer}, kTimeout, clock_);
  EXPECT_EQ(store->Longest(root_, chain_), 3) << "at most what was asked for";
  sent = right;
  EXPECT_TRUE(Get(*store, root_, chain_[0]).ok());
  int64_t corrupt = 0;
  for (size_t i = 0; i < right.size(); i += 3) {
    sent = right;
    sent[i] = static_cast<char>(sent[i] ^ 4);
    EXPECT_TRUE(absl::IsDataLoss(Get(*store, root_, chain_[0]))) << i;
    ++corrupt;
  }
  for (const std::string& wrong :
       {std::string(), right.substr(0, 50), right.substr(0, right.size() - 1), right + "x"}) {
    sent = wrong;
    EXPECT_TRUE(absl::IsDataLoss(Get(*store, root_, chain_[0]))) << wrong.size();
    ++corrupt;
  }
  EXPECT_EQ(store->stats().corrupt, corrupt);
}

TEST_F(KvPullTest, AHangingEngineIsLeftAloneAfterTheLimit) {
  std::atomic<int> pulls{0};
  Served served(std::make_unique<FaultyService>([&](grpc::ServerContext& context, auto& writer) {
    ++pulls;
    Write(writer, "INGOTKV1");
    while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    return grpc::Status::OK;
  }));
  const auto store = NewPulledStore({served.peer}, kTooLong, clock_);
  const auto start = std::chrono::steady_clock::now();
  const absl::Status late = Get(*store, root_, chain_[0]);
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_GE(std::chrono::steady_clock::now() - start, kTooLong);
  EXPECT_TRUE(absl::IsUnavailable(Get(*store, root_, chain_[0])));
  EXPECT_EQ(store->Longest(root_, chain_), 0);
  EXPECT_EQ(pulls, 1) << "it was asked again at once";
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_EQ(store->Longest(root_, chain_), 3);
}

TEST_F(KvPullTest, AnotherEngineIsAskedIfOneIsGone) {
  ASSERT_TRUE(Put(root_, chain_[0]).ok());
  const auto empty = std::make_shared<kv::MemoryStore>(1 << 20);
  Served gone(NewKvPullService(kept_)), without(NewKvPullService(empty)), served(NewKvPullService(kept_));
  gone.Stop();
  const auto store = NewPulledStore({gone.peer, without.peer, served.peer}, kTimeout, clock_);
  EXPECT_TRUE(Get(*store, root_, chain_[0]).ok());
  EXPECT_EQ(store->Longest(root_, chain_), 1);
  EXPECT_TRUE(Get(*store, root_, chain_[0]).ok());
  served.Stop();
  EXPECT_FALSE(Get(*store, root_, chain_[0]).ok());
  EXPECT_EQ(store->Longest(root_, chain_), 0);
}

// The decoding engine computes only what follows the last whole chunk. If the other engine is gone, it computes all.
TEST_F(KvPullTest, AnEnginePullsWhatAnotherOneComputed) {
  EngineOptions options = Options();
  options.kv_store.path = kv::kMemoryPath;
  options.kv_store.chunk_tokens = 8;
  options.router.prefill_engines = 1;
  Served served(NewKvPullService(kept_));
  const auto prefiller = StoreRig(options, kept_);
  options.kv_store.write = kv::Write::kNone;
  options.router.prefill_engines = 0;
  const auto decoder = StoreRig(options, NewPulledStore({served.peer}, kTimeout, clock_));
  Rig alone(Options(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask(LongPrompt(67), 5), prefill = ask;
  prefill.set_prefill_only(true);
  EXPECT_TRUE(AnswerOf(*prefiller->engine, prefill).ids.empty());
  EXPECT_EQ(StoreStatus(*prefiller->engine).put_chunks(), 8);
  EXPECT_EQ(AnswerOf(*decoder->engine, ask), AnswerOf(*alone.engine, ask));
  EXPECT_EQ(decoder->runner->rows_computed, 67 - 64 + 4);
  EXPECT_EQ(StoreStatus(*decoder->engine).fetched_tokens(), 64);
  served.Stop();
  ask = Ask(LongPrompt(67, 3), 5);
  EXPECT_EQ(AnswerOf(*decoder->engine, ask), AnswerOf(*alone.engine, ask));
  EXPECT_EQ(decoder->runner->rows_computed, 67 - 64 + 4 + 67 + 4);
  EXPECT_EQ(decoder->engine->Status()->kv_blocks_used(), 0);
}

}  // namespace
}  // namespace ingot::rollout::kv_pull_test
