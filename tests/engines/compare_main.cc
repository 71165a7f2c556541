// Compares a real server with Ingot's own engine: engines_compare VLLM_PROGRAM FOLDER [tied|adapters].
//
// Starts the server as a run does (rollout.engine: vllm), with a random fp32 model of the smoke run's shape, and checks
//   1. 960 sampled tokens: each log-prob against a score of Ingot's engine under the same weights
//   2. weights that change under running requests (rollout.external.swap: recompute): each token against its version
//   3. that a dropped request leaves nothing running, and that a killed server comes back with its weights
// With `adapters`, each version is an adapter of the base model, and it checks instead
//   1. three versions at once, two of them pinned: each log-prob against its version
//   2. a version that arrives under running requests: they stay on the one that they began on
//   3. the same as 3 above
// Prints one line per check. Exits with 1 if one fails.
#include <signal.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <thread>

#include "app/models/model_setup.h"
#include "app/models/snapshots.h"
#include "app/roles/assembly.h"
#include "app/run/run_config.h"
#include "base/log.h"
#include "base/rng.h"
#include "engines/external/adapter_versions.h"
#include "engines/external/external_engine.h"
#include "rollout/collect.h"
#include "rollout/engine/engine.h"

namespace ingot::engines {
namespace {

using Snapshot = std::shared_ptr<const weights::Snapshot>;
using rollout::Collect;

constexpr float kMostDifference = 1e-5F;        // the same weights
constexpr float kMostMovingDifference = 1e-4F;  // weights that change

int failures = 0;

void Report(bool good, const std::string& line) {
  std::printf("%s %s\n", good ? "ok    " : "FAILED", line.c_str());
  std::fflush(stdout);
  failures += !good;
}

template <typename T>
T Need(absl::StatusOr<T> value, const char* what) {
  if (value.ok()) return *std::move(value);
  std::printf("FAILED %s: %s\n", what, value.status().ToString().c_str());
  std::exit(1);
}

// The weights of `base` with noise, as another version. If `adapters`, only the factors change, and zeros too.
Snapshot Noisy(const Snapshot& base, int64_t version, bool adapters = false) {
  std::vector<std::vector<float>> values(base->size());
  std::vector<weights::TensorView> views;
  for (size_t i = 0; i < base->size(); ++i) {
    weights::TensorView view = base->view(i);
    values[i].resize(view.bytes.size() / sizeof(float));
    std::memcpy(values[i].data(), view.bytes.data(), view.bytes.size());
    for (size_t j = 0; j < values[i].size() && (!adapters || IsFactor(view.name)); ++j) {
      const uint64_t bits = base::Mix64(static_cast<uint64_t>(version) * 1000003 + i * 10007 + j);
      const float noise = 0.1F * (static_cast<float>(bits % 2001) / 1000 - 1);
      values[i][j] = adapters ? values[i][j] + noise : values[i][j] * (1 + noise);
    }
    view.bytes = std::as_bytes(std::span(values[i]));
    view.owner = nullptr;
    views.push_back(view);
  }
  return Need(weights::Snapshot::Copy(version, views), "noise");
}

v1::GenerateRequest Ask(int index, int32_t max_new, int32_t vocab) {
  v1::GenerateRequest request;
  request.set_request_id("compare-" + std::to_string(index));
  for (int i = 0; i < 8 + index; ++i)
    request.add_prompt_ids(static_cast<int32_t>(base::Mix64(index * 131 + i) % vocab));
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_seed(index);
  request.mutable_sampling()->set_max_new_tokens(max_new);
  request.mutable_sampling()->set_ignore_eos(true);
  request.set_pinned_version(-1);
  return request;
}

struct Difference {
  double sum = 0;
  float most = 0;
  int64_t tokens = 0;

  void Add(float difference) {
    sum += difference;
    most = std::max(most, difference);
    ++tokens;
  }
  std::string Text() const {
    return absl::StrCat(tokens, " tokens, mean ", tokens == 0 ? 0 : sum / static_cast<double>(tokens), ", max ", most);
  }
};

// Scores each run of the answer's versions with Ingot's engine.
void Compare(rollout::Engine& own, const v1::GenerateRequest& asked, const Collect& answer, Difference& difference) {
  int at = 0;
  for (const v1::VersionRun& run : answer.last.answer_versions()) {
    v1::GenerateRequest score = asked;
    score.mutable_prompt_ids()->Add(answer.ids.begin(), answer.ids.begin() + at + run.count());
    score.set_score_ids(run.count());
    score.set_pinned_version(run.version());
    Collect scores;
    const auto request = own.Generate(score, scores.OnChunk());
    if (const absl::Status status = scores.Wait(); !status.ok()) Report(false, status.ToString());
    for (size_t i = 0; i < scores.logprobs.size(); ++i) {
      difference.Add(std::abs(scores.logprobs[i] - answer.logprobs[static_cast<size_t>(at) + i]));
    }
    at += run.count();
  }
}

void CompareSampled(rollout::ServedEngine& engine, rollout::Engine& own, int32_t vocab) {
  std::deque<Collect> answers(16);
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (int i = 0; i < 16; ++i) requests.push_back(engine.Generate(Ask(i, 60, vocab), answers[i].OnChunk()));
  Difference difference;
  for (int i = 0; i < 16; ++i) {
    if (const absl::Status status = answers[i].Wait(); !status.ok()) return Report(false, status.ToString());
    Compare(own, Ask(i, 60, vocab), answers[i], difference);
  }
  Report(difference.tokens == 960 && difference.most < kMostDifference, "log-probs: " + difference.Text());
}

void CompareMoving(rollout::ServedEngine& engine, rollout::Engine& own, const Snapshot& base, int32_t vocab) {
  std::deque<Collect> answers(8);
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(engine.Generate(Ask(i, 400, vocab), answers[i].OnChunk()));
  answers[0].WaitForTokens(5);
  for (int64_t version = 2; version <= 6; ++version) {
    const Snapshot next = Noisy(base, version);
    if (const absl::Status held = own.Hold(next); !held.ok()) return Report(false, held.ToString());
    const auto updated = engine.Share(next, weights::Place::kLive);
    if (!updated.ok()) return Report(false, updated.status().ToString());
    std::printf("       version %d: written in %.0f ms, pause %.0f ms, load %.0f ms\n", static_cast<int>(version),
                updated->apply_ms(), updated->wait_ms(), updated->pause_ms());
  }
  Difference difference;
  int crossed = 0;
  for (int i = 0; i < 8; ++i) {
    if (const absl::Status status = answers[i].Wait(); !status.ok()) return Report(false, status.ToString());
    crossed += answers[i].last.answer_versions_size() > 1;
    Compare(own, Ask(i, 400, vocab), answers[i], difference);
  }
  Report(difference.most < kMostMovingDifference && crossed > 0,
         absl::StrCat("versions under running requests: ", difference.Text(), ", ", crossed, " of 8 crossed one"));
}

// Versions 1 to 3, of which 1 and 2 are pinned. Then 4 arrives while they are asked.
void CompareAdapters(rollout::ServedEngine& engine, rollout::Engine& own, const Snapshot& base, int32_t vocab) {
  const auto take = [&](int64_t version, weights::Place place) {
    const Snapshot next = Noisy(base, version, /*adapters=*/true);
    if (const absl::Status held = own.Hold(next); !held.ok()) return Report(false, held.ToString());
    const auto start = std::chrono::steady_clock::now();
    if (const auto taken = engine.Share(next, place); !taken.ok()) return Report(false, taken.status().ToString());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::printf("       adapter version %d: written, loaded, and verified in %.0f ms\n", static_cast<int>(version),
                took.count());
  };
  take(2, weights::Place::kLiveRetained);
  take(3, weights::Place::kLive);
  constexpr int kEach = 4;
  std::deque<Collect> answers(3 * kEach);
  std::vector<v1::GenerateRequest> asked;
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (int i = 0; i < 3 * kEach; ++i) {
    asked.push_back(Ask(i, 80, vocab));
    if (i % 3 != 2) asked.back().set_pinned_version(i % 3 + 1);
    requests.push_back(engine.Generate(asked.back(), answers[static_cast<size_t>(i)].OnChunk()));
  }
  answers[2].WaitForTokens(5);
  take(4, weights::Place::kLive);
  Difference difference;
  bool one_version = true;
  for (int i = 0; i < 3 * kEach; ++i) {
    Collect& answer = answers[static_cast<size_t>(i)];
    if (const absl::Status status = answer.Wait(); !status.ok()) return Report(false, status.ToString());
    one_version = one_version && answer.last.answer_versions_size() == 1 &&
                  answer.last.answer_versions(0).version() == i % 3 + 1 && !answer.last.answer_versions(0).kv_mixed();
    Compare(own, asked[static_cast<size_t>(i)], answer, difference);
  }
  Report(one_version, "each of 12 answers has the version that it began on, 1 to 3");
  Report(difference.tokens == 960 && difference.most < kMostDifference, "three adapters at once: " + difference.Text());
  Collect newest;
  const auto request = engine.Generate(Ask(1, 60, vocab), newest.OnChunk());
  Difference after;
  if (const absl::Status status = newest.Wait(); !status.ok()) return Report(false, status.ToString());
  Compare(own, Ask(1, 60, vocab), newest, after);
  Report(newest.last.answer_versions(0).version() == 4 && after.most < kMostDifference, "the fourth: " + after.Text());
}

void DropAndKill(rollout::ServedEngine& engine, rollout::Engine& own, int32_t vocab) {
  Collect dropped;
  auto request = engine.Generate(Ask(1, 400, vocab), dropped.OnChunk());
  dropped.WaitForTokens(5);
  dropped.ExpectNothingMore();
  request.reset();
  const int64_t version = *engine.LiveVersion();
  ::kill(dynamic_cast<ExternalEngine&>(engine).server_pid(), SIGKILL);
  while (*engine.LiveVersion() != -1 && engine.fault().ok()) std::this_thread::yield();
  while (*engine.LiveVersion() == -1 && engine.fault().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  Report(engine.fault().ok() && *engine.LiveVersion() == version, "a killed server comes back with its version");
  Collect answer;
  const auto again = engine.Generate(Ask(2, 60, vocab), answer.OnChunk());
  Difference difference;
  if (const absl::Status status = answer.Wait(); !status.ok()) return Report(false, status.ToString());
  Compare(own, Ask(2, 60, vocab), answer, difference);
  Report(difference.most < kMostDifference, "log-probs after it came back: " + difference.Text());
}

int Main(int argc, char** argv) {
  base::InitLogging("compare", "info", "");
  const std::string mode = argc > 3 ? argv[3] : "";
  const bool tied = mode == "tied", adapters = mode == "adapters";
  app::LoadedConfig loaded = Need(
      app::LoadRunConfig("configs/smoke.yaml",
                         {"rollout.engine=vllm", "rollout.external.swap=recompute", "device=cpu",
                          adapters ? "trainer.lora.rank=8" : "trainer.lora.rank=0", "rollout.max_retained_versions=4"}),
      "configuration");
  app::RunConfig& config = *loaded.config;
  config.external.command = CommandOf(config.engine, config.external);
  for (std::string& word : config.external.command) {
    if (word == "vllm") word = argv[1];
  }
  app::ModelSetup model = Need(app::SetUpModel(config.model), "model");
  model.shape.tie_word_embeddings = tied;
  const auto vocab = static_cast<int32_t>(model.shape.vocab_size);
  const Snapshot base = Need(app::RandomSnapshot(model.shape, 5), "weights");
  rollout::EngineOptions options = config.rollout;
  options.max_retained_versions = 16;
  const auto own = Need(app::MakeEngine(options, model), "Ingot's engine");
  const auto engine =
      Need(app::MakeServedEngine(config, model, {.owner = "compare", .log_path = std::string(argv[2]) + "/server.log"}),
           "vllm");
  const Snapshot first = Noisy(base, 1, adapters);
  if (const absl::Status held = own->Hold(first); !held.ok()) Report(false, held.ToString());
  Need(engine->Share(first, adapters ? weights::Place::kLiveRetained : weights::Place::kLive), "the first version");
  CompareSampled(*engine, *own, vocab);
  if (adapters) {
    CompareAdapters(*engine, *own, base, vocab);
  } else {
    CompareMoving(*engine, *own, base, vocab);
  }
  DropAndKill(*engine, *own, vocab);
  engine->Shutdown();
  own->Shutdown();
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ingot::engines

int main(int argc, char** argv) { return ingot::engines::Main(argc, argv); }
