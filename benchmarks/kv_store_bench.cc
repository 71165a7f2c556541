// The KV store: time to the first token with and without it, the break-even, and the cost of writing.
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release kv_store_bench
//   build/release/benchmarks/kv_store_bench FOLDER [rounds=5] [longest prompt=8192] [hidden size=256] [layers=8]
//
// FOLDER is on the file system to measure, such as a directory of a network mount. A random bf16 model, one compute
// thread per engine. Each round has new prompts, and computes, writes, and reads each of them in turn:
//
//   compute   an engine without a store
//   store     an engine that reads what another one wrote
//   slow      the same, from a store with 50 times the latency and time per byte of that one
//
// Prints medians and the range, and the prompts that were not read in time, and exits with 1 if an answer differs in an
// id or a log-prob. `decode` compares engines that sample while they write everything, and
// that do not write. Not measured: cold files (drop the page cache between rounds for them), several machines, CUDA.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "shared_kv.h"

namespace {

using namespace ingot;
using namespace ingot::bench;

constexpr int kDecodeTokens = 128;
constexpr int kDecodeBatch = 4;
constexpr double kSlowdown = 50;

// Every call takes as many times as long as it took.
class SlowStore final : public kv::Store {
 private:
  template <typename Function>
  auto Slowly(const Function& function) {
    const auto start = steady_clock::now();
    auto result = function();
    std::this_thread::sleep_for((slowdown_ - 1) * (steady_clock::now() - start));
    return result;
  }

 public:
  SlowStore(std::shared_ptr<kv::Store> store, double slowdown) : store_(std::move(store)), slowdown_(slowdown) {}
  int64_t Longest(const kv::Root& root, std::span<const kv::Chunk> chain) override {
    return Slowly([&] { return store_->Longest(root, chain); });
  }
  absl::Status Get(const kv::Root& root, const kv::Chunk& chunk, const kv::PlanesToRead& planes) override {
    return Slowly([&] { return store_->Get(root, chunk, planes); });
  }
  absl::Status Put(const kv::Root& root, const kv::Chunk& chunk, const kv::PlanesToWrite& planes) override {
    return Slowly([&] { return store_->Put(root, chunk, planes); });
  }
  void Hold(std::vector<base::Key128> roots) override { store_->Hold(std::move(roots)); }
  kv::StoreStats stats() const override { return store_->stats(); }

 private:
  const std::shared_ptr<kv::Store> store_;
  const double slowdown_;
};

void AwaitPuts(rollout::Engine& engine, int64_t chunks) {
  while (engine.Status()->kv_store().put_chunks() + engine.Status()->kv_store().put_dropped() < chunks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Returns true if all answers are equal and the reader computed no whole chunk.
bool CompareFirstTokens(const Bench& bench, const std::string& folder, int rounds) {
  const rollout::EngineOptions without = bench.Options(""), writes = bench.Options(folder),
                               reads = bench.Options(folder, kv::Write::kNone);
  const auto compute = bench.Engine(without, nullptr), writer = bench.Engine(writes, Bench::Open(writes)),
             reader = bench.Engine(reads, Bench::Open(reads)),
             slow = bench.Engine(reads, std::make_shared<SlowStore>(Bench::Open(reads), kSlowdown));
  std::printf("%8s %26s %26s %26s\n", "prompt", "compute, ms", "store, ms", "slow store, ms");
  bool right = true;
  int64_t puts = 0;
  double compute_ms = 0, store_ms = 0;
  for (int tokens = 64; tokens <= bench.longest; tokens *= tokens == 1024 ? 4 : tokens == 4096 ? 2 : 4) {
    Times by_compute, by_store, by_slow;
    for (int round = -8; round < rounds; ++round) {  // the first rounds are not timed: engines learn their costs
      if (round < 0 && tokens > 256) continue;
      const std::vector<v1::GenerateRequest> asks = {Ask(static_cast<uint64_t>(1000 * tokens + round), tokens + 1, 1)};
      const Answer computed = Run(*compute, asks)[0], written = Run(*writer, asks)[0];
      AwaitPuts(*writer, puts += tokens / kChunkTokens);
      const Answer read = Run(*reader, asks)[0], read_slowly = Run(*slow, asks)[0];
      right = right && written.Equals(computed) && read.Equals(computed) && read_slowly.Equals(computed);
      if (round < 0) continue;
      if (read.cached < tokens)
        std::printf("a prompt of %d tokens: %d were in the store in time\n", tokens, read.cached);
      by_compute.Add(computed.first_seconds);
      by_store.Add(read.first_seconds);
      by_slow.Add(read_slowly.first_seconds);
    }
    std::printf("%8d %26s %26s %26s\n", tokens, by_compute.Text().c_str(), by_store.Text().c_str(),
                by_slow.Text().c_str());
    compute_ms = by_compute.Median() / tokens;
    store_ms = by_store.Median() / tokens;
  }
  const v1::KvStoreStatus status = reader->Status()->kv_store();
  const double read_us =
      1e6 * status.fetch_seconds() / static_cast<double>(std::max<int64_t>(status.fetched_tokens(), 1));
  std::printf("per token of the longest prompt: %.1f us computed, %.1f us with the store, of which %.1f us read\n",
              1e3 * compute_ms, 1e3 * store_ms, read_us);
  const double bytes =
      static_cast<double>(writer->Status()->kv_store().bytes()) / static_cast<double>(puts * kChunkTokens);
  std::printf("KV: %.0f bytes per token, so that reading pays above %.1f MB/s\n", bytes, 1e-3 * bytes / compute_ms);
  std::printf("%s\n", right ? "all answers are equal to the bit" : "AN ANSWER DIFFERS");
  return right;
}

void CompareDecoding(const Bench& bench, const std::string& folder, int rounds) {
  const rollout::EngineOptions reads = bench.Options(folder, kv::Write::kNone),
                               writes = bench.Options(folder, kv::Write::kAll);
  const auto silent = bench.Engine(reads, Bench::Open(reads)), writer = bench.Engine(writes, Bench::Open(writes));
  Times without, with;
  for (int round = 0; round < rounds; ++round) {
    std::vector<v1::GenerateRequest> asks;
    for (int i = 0; i < kDecodeBatch; ++i) {
      asks.push_back(Ask(static_cast<uint64_t>(1'000'000 + 100 * round + i), 40, kDecodeTokens));
    }
    const auto time = [&](rollout::Engine& engine, Times& times) {
      const std::vector<Answer> answers = Run(engine, asks);
      double last = 0;
      for (const Answer& answer : answers) last = std::max(last, answer.seconds);
      times.Add(last / kDecodeTokens);
    };
    time(round % 2 == 0 ? *silent : *writer, round % 2 == 0 ? without : with);
    time(round % 2 == 0 ? *writer : *silent, round % 2 == 0 ? with : without);
  }
  std::printf("decode, %d requests: %s ms per token without writing, %s ms with, %+.1f%%\n", kDecodeBatch,
              without.Text().c_str(), with.Text().c_str(), 100 * (with.Median() / without.Median() - 1));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: kv_store_bench FOLDER [rounds] [longest prompt] [hidden size] [layers]\n");
    return 2;
  }
  const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const int rounds = std::max(number(2, 5), 1);
  const Bench bench(number(4, 256), number(5, 8), std::max(number(3, 8192), 64));
  std::printf("%lld parameters, bf16, chunks of %d tokens, %d rounds, median (least to most)\n",
              static_cast<long long>(bench.config.ParameterCount()), kChunkTokens, rounds);
  const bool right = CompareFirstTokens(bench, argv[1], rounds);
  CompareDecoding(bench, argv[1], rounds);
  return right ? 0 : 1;
}
