// How one version gets from the trainer to an engine, for weights in the shapes of SmolLM2-135M (bf16):
//
//   weight_ways_bench [--changed 0.01] [--shards N] [--directory PATH] [--s3 ENDPOINT BUCKET]
//
// Prints bytes and seconds of a full copy and of a delta. Credentials of S3 come from AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY. Everything runs in one process on one machine. Left out: the engine's loading of the decoded
// weights, and the time between two checks of `live`.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "proto/rollout.grpc.pb.h"
#include "trainer/parallel/weight_group.h"
#include "weights/grpc_sink.h"
#include "weights/stores/directory_store.h"
#include "weights/stores/s3_store.h"
#include "weights/stores/version_layout.h"

namespace ingot::weights {
namespace {

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// SmolLM2-135M: hidden 576, 30 layers, 9 heads over 3, intermediate 1536, vocabulary 49152, tied.
std::vector<TensorView> Shapes() {
  std::vector<TensorView> views = {{"embed", "BF16", {49152, 576}, {}}, {"norm", "BF16", {576}, {}}};
  for (int layer = 0; layer < 30; ++layer) {
    const std::string at = "layer." + std::to_string(layer);
    for (const auto& [name, rows, columns] : {std::tuple("q", 576, 576),
                                              {"k", 192, 576},
                                              {"v", 192, 576},
                                              {"o", 576, 576},
                                              {"gate", 1536, 576},
                                              {"up", 1536, 576},
                                              {"down", 576, 1536}}) {
      views.push_back({at + name, "BF16", {rows, columns}, {}});
    }
    views.push_back({at + "norm1", "BF16", {576}, {}});
    views.push_back({at + "norm2", "BF16", {576}, {}});
  }
  return views;
}

class Model {
 public:
  Model() : views_(Shapes()) {
    std::normal_distribution<float> normal(0, 0.02F);
    for (TensorView& view : views_) {
      int64_t elements = 1;
      for (const int64_t size : view.shape) elements *= size;
      std::vector<uint16_t>& words = words_.emplace_back(static_cast<size_t>(elements));
      for (uint16_t& word : words) {
        const float value = normal(rng_);
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        word = static_cast<uint16_t>(bits >> 16);
      }
    }
  }
  // Moves a share of the words to a neighbouring value, as a small step of the optimizer does.
  void Change(double share) {
    std::geometric_distribution<size_t> gap(share);
    for (std::vector<uint16_t>& words : words_) {
      for (size_t i = gap(rng_); i < words.size(); i += 1 + gap(rng_)) words[i] += rng_() % 2 == 0 ? 1 : -1;
    }
  }
  std::shared_ptr<const Snapshot> TakeSnapshot(int64_t version) {
    for (size_t i = 0; i < views_.size(); ++i) views_[i].bytes = std::as_bytes(std::span<const uint16_t>(words_[i]));
    return Snapshot::Copy(version, views_).value();
  }

 private:
  std::mt19937_64 rng_{1};
  std::vector<TensorView> views_;
  std::vector<std::vector<uint16_t>> words_;
};

// Stores, fetches and applies one version.
void Measure(const char* what, ObjectStore& store, const EncodedDelta& delta,
             const std::shared_ptr<const Snapshot>& base, int shards) {
  const VersionKind kind = IsFullCopy(delta.header) ? VersionKind::kAnchor : VersionKind::kDelta;
  EncodedDelta fetched;
  int64_t bytes = 0;
  const double put = Seconds([&] { Check(StoreVersion(store, "bench", delta, shards)); });
  const double get =
      Seconds([&] { fetched = LoadVersion(store, "bench", TargetOf(delta.header), kind, {}, &bytes).value(); });
  const double apply = Seconds([&] { Check(Apply(base, fetched).status()); });
  std::printf("%-10s %-6s %11lld bytes  store %.3f s  fetch %.3f s  decode and verify %.3f s\n", what,
              base == nullptr ? "full" : "delta", static_cast<long long>(bytes), put, get, apply);
}

// An engine's end of gRPC: takes an update and decodes it.
class Receiver final : public v1::Rollout::Service {
 public:
  grpc::Status UpdateWeights(grpc::ServerContext*, grpc::ServerReader<v1::WeightChunk>* reader,
                             v1::UpdateWeightsResponse*) override {
    ChunkAssembler assembler;
    for (v1::WeightChunk chunk; reader->Read(&chunk);) Check(assembler.Add(std::move(chunk)));
    const EncodedDelta delta = assembler.Finish().value();
    const auto start = std::chrono::steady_clock::now();
    Check(Apply(base, delta).status());
    apply_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return grpc::Status::OK;
  }
  std::shared_ptr<const Snapshot> base;
  double apply_s = 0;
};

void MeasureGrpc(const EncodedDelta& full, const EncodedDelta& delta, const std::shared_ptr<const Snapshot>& base) {
  Receiver receiver;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&receiver);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto sink =
      NewGrpcSink(grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  for (const EncodedDelta* sent : {&full, &delta}) {
    const bool whole = IsFullCopy(sent->header);
    receiver.base = whole ? nullptr : base;
    const double all = Seconds([&] { Check((*sink)->Update(*sent).status()); });
    std::printf("%-10s %-6s %11lld bytes  send %.3f s  decode and verify %.3f s\n", "grpc", whole ? "full" : "delta",
                static_cast<long long>(sent->wire_bytes()), all - receiver.apply_s, receiver.apply_s);
  }
}

// Two engines and the trainer as threads, over Gloo.
void MeasureBroadcast(const EncodedDelta& delta) {
  trainer::WeightGroupOptions options;
  options.size = 3;
  options.timeout = std::chrono::seconds(60);
  const auto root = trainer::WeightGroup::Make(options).value();
  options.port = root->options().port;
  std::string bytes;
  for (const v1::TensorDelta& tensor : delta.tensors) bytes += tensor.payload();
  std::vector<std::thread> engines;
  for (options.rank = 1; options.rank < options.size; ++options.rank) {
    engines.emplace_back([options, size = bytes.size()] {
      const auto group = trainer::WeightGroup::Make(options).value();
      Check(group->Connect());
      std::string taken(size, '\0');
      Check(group->Broadcast(taken));
    });
  }
  Check(root->Connect());
  const double sent = Seconds([&] {
    Check(root->Broadcast(bytes));
    for (std::thread& engine : engines) engine.join();
  });
  std::printf("%-10s %-6s %11lld bytes  to two engines %.3f s\n", "broadcast", "delta",
              static_cast<long long>(bytes.size()), sent);
}

void Run(double changed, int shards, const std::vector<std::pair<const char*, std::shared_ptr<ObjectStore>>>& stores) {
  Model model;
  const std::shared_ptr<const Snapshot> zero = model.TakeSnapshot(0);
  model.Change(changed);
  const std::shared_ptr<const Snapshot> one = model.TakeSnapshot(1);
  EncodedDelta full, delta;
  const double full_s = Seconds([&] { full = Encode(nullptr, *zero, false).value(); });
  const double delta_s = Seconds([&] { delta = Encode(zero.get(), *one, false).value(); });
  std::printf(
      "%lld bytes of weights, %.2f %% changed; encoding: full copy %.3f s, %lld bytes; delta %.3f s, %lld bytes\n",
      static_cast<long long>(zero->total_bytes()),
      100.0 * static_cast<double>(delta.changed_elements) / static_cast<double>(delta.total_elements), full_s,
      static_cast<long long>(full.wire_bytes()), delta_s, static_cast<long long>(delta.wire_bytes()));
  MeasureGrpc(full, delta, zero);
  MeasureBroadcast(delta);
  for (const auto& [name, store] : stores) {
    Measure(name, *store, full, nullptr, shards);
    Measure(name, *store, delta, zero, shards);
    for (const std::string& key : store->List("bench/").value()) Check(store->Delete(key));
  }
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace
}  // namespace ingot::weights

int main(int argc, char** argv) {
  using namespace ingot::weights;
  double changed = 0.01;
  int shards = 2;
  std::vector<std::pair<const char*, std::shared_ptr<ObjectStore>>> stores;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    if (word == "--changed") changed = std::atof(argv[i + 1]);
    if (word == "--shards") shards = std::atoi(argv[i + 1]);
    if (word == "--directory") stores.emplace_back("directory", OpenDirectoryStore(argv[i + 1]).value());
    if (word != "--s3" || i + 2 >= argc) continue;
    S3Options options;
    options.endpoint = argv[i + 1];
    options.bucket = argv[++i + 1];
    stores.emplace_back(
        "s3", OpenS3Store(options, {Variable("AWS_ACCESS_KEY_ID"), Variable("AWS_SECRET_ACCESS_KEY"), ""}).value());
  }
  Run(changed, shards, stores);
}
