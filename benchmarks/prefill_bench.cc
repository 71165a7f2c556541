// Prefill and decode apart, on two engines: how steadily tokens arrive while long prompts do.
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release prefill_bench
//   build/release/benchmarks/prefill_bench [FOLDER=/dev/shm/ingot_prefill] [rounds=3] [hidden size=256] [layers=8]
//
// Four calls sample 256 tokens each, while eight prompts of 1,024 tokens arrive, one after the other. `two engines`
// share calls and prompts, with rollout.prefill_piece_tokens as shown. `apart`: one engine computes the prompts
// (rollout.router.prefill_engines: 1), and the other one samples and reads them from a store in FOLDER. `pulled`: the
// same, but over gRPC and without the folder (rollout.kv_store.path: memory://). One compute thread per engine, random
// bf16 model, rounds interleaved. ITL is the time between two tokens of the four calls, TTFT that of the prompts. Prints
// medians and ranges over the rounds, and exits with 1 if an answer differs in an id or a log-prob from that of a single
// engine. Not measured: several machines, CUDA.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kv/memory_store.h"
#include "rollout/cache/grpc_kv_store.h"
#include "rollout/cache/kv_pull_service.h"
#include "rollout/routing/engine_set.h"
#include "shared_kv.h"

namespace {

using namespace ingot;
using namespace ingot::bench;

constexpr int kCalls = 4, kSampled = 256, kPrompts = 8, kPromptTokens = 1024;

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

// The engines of one way to serve, and what was measured over the rounds.
struct Way {
  std::string name;
  std::vector<std::shared_ptr<rollout::Client>> engines;
  std::unique_ptr<rollout::EngineSet> set;
  Times itl_p50, itl_p99, ttft_p50;
};

// The memory of an engine that computes prompts, and its server on 127.0.0.1.
struct ServedMemory {
  ServedMemory() : kept(std::make_shared<kv::MemoryStore>(int64_t{4} << 30)), service(rollout::NewKvPullService(kept)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service.get());
    server = builder.BuildAndStart();
    pulled = rollout::NewPulledStore(
        {{"rollout-0", grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials())}},
        std::chrono::seconds(10));
  }

  std::shared_ptr<kv::MemoryStore> kept;
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;
  std::shared_ptr<kv::Store> pulled;  // of the engine that samples
};

Way MakePulled(const Bench& bench, const ServedMemory& memory) {
  Way way{.name = "apart, pulled", .engines = {}, .set = nullptr, .itl_p50 = {}, .itl_p99 = {}, .ttft_p50 = {}};
  rollout::EngineOptions options = bench.Options(std::string(kv::kMemoryPath));
  options.router.prefill_engines = 1;
  options.router.prefill_min_tokens = 256;
  way.engines.push_back(bench.Engine(options, memory.kept));
  options.kv_store.write = kv::Write::kNone;
  options.router.prefill_engines = 0;
  way.engines.push_back(bench.Engine(options, memory.pulled));
  options.router.prefill_engines = 1;
  way.set = std::make_unique<rollout::EngineSet>(way.engines, base::Clock::Real(), options.router);
  return way;
}

Way MakeWay(const Bench& bench, std::string name, int32_t piece, const std::string& folder) {
  Way way{.name = std::move(name), .engines = {}, .set = nullptr, .itl_p50 = {}, .itl_p99 = {}, .ttft_p50 = {}};
  rollout::EngineOptions options = bench.Options(folder);
  options.prefill_piece_tokens = piece;
  options.router.prefill_engines = folder.empty() ? 0 : 1;
  options.router.prefill_min_tokens = 256;
  for (int i = 0; i < 2; ++i) {
    way.engines.push_back(bench.Engine(options, folder.empty() ? nullptr : Bench::Open(options)));
  }
  way.set = std::make_unique<rollout::EngineSet>(way.engines, base::Clock::Real(), options.router);
  return way;
}

struct Measured {
  std::vector<Answer> calls, prompts;
  std::vector<double> gaps;  // seconds between two tokens of the calls
};

Measured RunOnce(rollout::Client& engine, uint64_t round) {
  std::vector<v1::GenerateRequest> asks;
  for (uint64_t i = 0; i < kCalls; ++i) asks.push_back(Ask(1000 * round + i, 32, kSampled));
  Measured measured;
  std::thread calls([&] { measured.calls = Run(engine, asks, &measured.gaps); });
  for (uint64_t i = 0; i < kPrompts; ++i) {
    measured.prompts.push_back(Run(engine, {Ask(1000 * round + 100 + i, kPromptTokens, 1)})[0]);
  }
  calls.join();
  return measured;
}

void Add(Way& way, const Measured& measured) {
  std::vector<double> firsts;
  for (const Answer& prompt : measured.prompts) firsts.push_back(prompt.first_seconds);
  way.itl_p50.Add(Percentile(measured.gaps, 0.5));
  way.itl_p99.Add(Percentile(measured.gaps, 0.99));
  way.ttft_p50.Add(Percentile(firsts, 0.5));
}

bool Equal(const std::vector<Answer>& a, const std::vector<Answer>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Answer& x, const Answer& y) { return x.Equals(y); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/dev/shm/ingot_prefill";
  const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const int rounds = std::max(number(2, 3), 1);
  const Bench bench(number(3, 256), number(4, 8), 2 * kPromptTokens);
  const auto single = bench.Engine(bench.Options(""), nullptr);
  std::vector<Way> ways;
  for (const int32_t piece : {0, 64, 128, 256}) {
    ways.push_back(
        MakeWay(bench, piece == 0 ? "two engines" : "two engines, piece " + std::to_string(piece), piece, ""));
  }
  ways.push_back(MakeWay(bench, "apart", 0, folder));
  const ServedMemory memory;
  ways.push_back(MakePulled(bench, memory));
  bool right = true;
  for (int round = 0; round <= rounds; ++round) {  // the first one is not timed: routers and engines learn their costs
    const auto number_of_round = static_cast<uint64_t>(round + 1);
    const Measured expected = RunOnce(*single, number_of_round);
    for (Way& way : ways) {
      const Measured measured = RunOnce(*way.set, number_of_round);
      right = right && Equal(measured.calls, expected.calls) && Equal(measured.prompts, expected.prompts);
      if (round > 0) Add(way, measured);
    }
  }
  std::printf("%lld parameters, bf16, %d rounds, median (least to most), ms\n%-24s %26s %26s %26s\n",
              static_cast<long long>(bench.config.ParameterCount()), rounds, "", "ITL p50", "ITL p99", "TTFT p50");
  for (Way& way : ways) {
    std::printf("%-24s %26s %26s %26s\n", way.name.c_str(), way.itl_p50.Text().c_str(), way.itl_p99.Text().c_str(),
                way.ttft_p50.Text().c_str());
  }
  for (size_t i = ways.size() - 2; i < ways.size(); ++i) {
    std::printf("%s:\n%s", ways[i].name.c_str(), ways[i].set->MetricsText().c_str());
  }
  std::printf("%s\n", right ? "all answers are equal to the bit" : "AN ANSWER DIFFERS");
  for (Way& way : ways) way.set.reset();
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return right ? 0 : 1;
}
