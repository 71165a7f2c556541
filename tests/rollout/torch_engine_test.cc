// The engine on a real (tiny, random) transformer, against forward passes over whole sequences.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "base/device_failure.h"
#include "base/rng.h"
#include "kernels/torch/softmax.h"
#include "kernels/torch/tree_attention.h"
#include "model/transformer.h"
#include "rollout/collect.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/torch_error.h"
#include "rollout/engine/torch_runner.h"

namespace ingot::rollout {
namespace {

model::ModelConfig Config() {
  model::ModelConfig config;
  config.vocab_size = 61;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 256;
  config.qk_norm = true;
  return config;
}

// Scaled up, so that the distributions are peaked and a wrong key or position is visible.
model::Parameters Weights(uint64_t seed, at::ScalarType dtype = at::kFloat, double scale = 8) {
  model::Parameters parameters = model::Parameters::Init(Config(), seed, dtype);
  for (auto& [name, tensor] : parameters.tensors()) {
    if (tensor.dim() == 2) tensor.mul_(scale);
  }
  return parameters;
}

std::shared_ptr<const weights::Snapshot> Snapshot(int64_t version, const model::Parameters& parameters) {
  std::vector<weights::TensorView> views;
  for (const auto& [name, tensor] : parameters.tensors()) {
    views.push_back({name,
                     tensor.scalar_type() == at::kBFloat16 ? "BF16" : "F32",
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  return *weights::Snapshot::Copy(version, views);
}

std::shared_ptr<const weights::Snapshot> Snapshot(int64_t version, uint64_t seed) {
  return Snapshot(version, Weights(seed));
}

// Softmax attention by definition, in fp64.
class DenseAttention final : public model::AttentionBackend {
 public:
  at::Tensor Attend(int64_t, const model::AttentionInput& input) override {
    const at::Tensor &q = input.q, &k = input.k, &v = input.v;
    const int64_t group = q.size(1) / k.size(1), rows = q.size(0);
    const at::Tensor keys = k.to(at::kDouble).repeat_interleave(group, 1).permute({1, 2, 0});
    const at::Tensor values = v.to(at::kDouble).repeat_interleave(group, 1).permute({1, 0, 2});
    at::Tensor scores = q.to(at::kDouble).permute({1, 0, 2}).matmul(keys) / std::sqrt(static_cast<double>(q.size(2)));
    scores = scores.masked_fill(at::ones({rows, rows}, at::kBool).tril().logical_not(), -INFINITY);
    return scores.softmax(-1).matmul(values).permute({1, 0, 2}).to(q.scalar_type()).contiguous();
  }
};

// The trainer's attention.
class PackedAttention final : public model::AttentionBackend {
 public:
  at::Tensor Attend(int64_t, const model::AttentionInput& input) override {
    const at::Tensor &q = input.q, &k = input.k, &v = input.v;
    return kernels::TreeAttention(q, k, v, at::Tensor(), 1.0 / std::sqrt(static_cast<double>(q.size(2))));
  }
};

// Log-prob rows of a whole sequence at once, [tokens, vocabulary].
at::Tensor WholeForward(model::Parameters parameters, const std::vector<int32_t>& tokens, float temperature,
                        model::AttentionBackend& attention) {
  const c10::InferenceMode guard;
  const model::Transformer transformer = *model::Transformer::Create(Config(), std::move(parameters));
  const at::Tensor ids = at::tensor(tokens, at::kInt).to(at::kLong);
  const at::Tensor hidden = transformer.Hidden(ids, at::arange(ids.size(0), at::kLong), attention);
  return kernels::Policy(transformer.Logits(hidden), at::scalar_tensor(temperature)).LogSoftmax();
}

at::Tensor WholeForward(uint64_t seed, const std::vector<int32_t>& tokens, float temperature,
                        model::AttentionBackend& attention) {
  return WholeForward(Weights(seed), tokens, temperature, attention);
}

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options, std::shared_ptr<const weights::Snapshot> initial) {
  Engine::Parts parts;
  parts.runner = *NewTorchRunner(Config(), options, "cpu");
  return *Engine::Create(options, std::move(parts), std::move(initial));
}

EngineOptions Options(int32_t batch_tokens = 128) {
  EngineOptions options;
  options.kv_block_tokens = 8;
  options.kv_cache_tokens = 4096;
  options.max_running = 16;
  options.max_batch_tokens = batch_tokens;
  return options;
}

v1::GenerateRequest Ask(std::vector<int32_t> prompt, int32_t max_new, float temperature, uint64_t seed) {
  v1::GenerateRequest request;
  request.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
  request.mutable_sampling()->set_temperature(temperature);
  request.mutable_sampling()->set_seed(seed);
  request.mutable_sampling()->set_max_new_tokens(max_new);
  request.set_pinned_version(-1);
  return request;
}

std::vector<int32_t> Prompt(uint64_t seed, size_t length) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>(base::DeriveSeed(seed, i) % 61));
  return prompt;
}

std::vector<int32_t> Whole(const v1::GenerateRequest& ask, const Collect& result) {
  std::vector<int32_t> tokens(ask.prompt_ids().begin(), ask.prompt_ids().end());
  tokens.insert(tokens.end(), result.ids.begin(), result.ids.end());
  return tokens;
}

TEST(TorchEngineTest, GreedyEqualsRecomputingTheWholeSequenceForEveryToken) {
  const auto engine = MakeEngine(Options(), Snapshot(1, 7));
  const v1::GenerateRequest ask = Ask(Prompt(1, 13), 30, 0, 1);
  Collect result;
  auto request = engine->Generate(ask, result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  std::vector<int32_t> tokens(ask.prompt_ids().begin(), ask.prompt_ids().end());
  for (size_t n = 0; n < result.ids.size(); ++n) {
    DenseAttention dense;
    const at::Tensor row = WholeForward(7, tokens, 1, dense)[static_cast<int64_t>(tokens.size()) - 1];
    ASSERT_EQ(result.ids[n], row.argmax().item<int64_t>()) << "token " << n;
    ASSERT_NEAR(result.logprobs[n], row[result.ids[n]].item<float>(), 1e-5);
    tokens.push_back(result.ids[n]);
  }
}

// The configuration says float32; the pages take the type of the weights.
TEST(TorchEngineTest, Bf16WeightsAttendInBf16AsTheTrainerDoesToTheBit) {
  const auto weights = [] { return Weights(7, at::kBFloat16, 2); };
  const auto engine = MakeEngine(Options(16), Snapshot(1, weights()));
  const v1::GenerateRequest ask = Ask(Prompt(1, 40), 30, 1, 1);
  Collect result;
  auto request = engine->Generate(ask, result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  PackedAttention packed;
  const at::Tensor rows = WholeForward(weights(), Whole(ask, result), 1, packed);
  ASSERT_EQ(result.ids.size(), 30u);
  for (size_t n = 0; n < result.ids.size(); ++n) {
    const int64_t row = ask.prompt_ids_size() + static_cast<int64_t>(n) - 1;
    EXPECT_EQ(result.logprobs[n], rows[row][result.ids[n]].item<float>()) << n;
  }
}

// Scored under the version that sampled them, ids get their log-probs of sampling, to the bit.
TEST(TorchEngineTest, ScoringWhatWasSampledGivesItsLogprobs) {
  const auto engine = MakeEngine(Options(32), Snapshot(1, 7));
  const v1::GenerateRequest ask = Ask(Prompt(1, 40), 100, 0.7f, 1);
  Collect sampled;
  auto request = engine->Generate(ask, sampled.OnChunk());
  ASSERT_EQ(sampled.Wait(), absl::OkStatus());
  v1::GenerateRequest scored = Ask(Whole(ask, sampled), 1, 0.7f, 1);
  scored.set_score_ids(static_cast<int32_t>(sampled.ids.size()));
  scored.set_pinned_version(1);
  Collect result;
  request = engine->Generate(scored, result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_EQ(result.logprobs, sampled.logprobs);
}

// One set of requests under several schedules: alone, all at once, prompts cut small, prefixes found in the cache.
// Tokens and log-probs must be the same to the bit. They must equal a forward pass over the whole sequence: to 1e-5
// with attention by definition, to the bit with the trainer's attention.
TEST(TorchEngineTest, NoScheduleChangesATokenOrALogprob) {
  std::vector<v1::GenerateRequest> asks;
  for (int i = 0; i < 14; ++i) {
    std::vector<int32_t> prompt = Prompt(i % 2, 24);
    const std::vector<int32_t> own = Prompt(50 + i, 1 + 5 * (i % 4));
    prompt.insert(prompt.end(), own.begin(), own.end());
    asks.push_back(Ask(prompt, 6 + 4 * (i % 5), i % 3 == 0 ? 0.7f : 1.0f, 100 + i));
  }
  std::deque<Collect> alone(asks.size());
  EngineOptions uncached = Options();
  uncached.prefix_cache = false;
  const auto one_by_one = MakeEngine(uncached, Snapshot(1, 7));
  for (size_t i = 0; i < asks.size(); ++i) {
    auto request = one_by_one->Generate(asks[i], alone[i].OnChunk());
    ASSERT_EQ(alone[i].Wait(), absl::OkStatus());
    const std::vector<int32_t> tokens = Whole(asks[i], alone[i]);
    DenseAttention dense;
    PackedAttention packed;
    const float temperature = asks[i].sampling().temperature();
    const at::Tensor by_definition = WholeForward(7, tokens, temperature, dense);
    const at::Tensor by_trainer = WholeForward(7, tokens, temperature, packed);
    for (size_t n = 0; n < alone[i].ids.size(); ++n) {
      const int64_t row = asks[i].prompt_ids_size() + static_cast<int64_t>(n) - 1;
      ASSERT_NEAR(alone[i].logprobs[n], by_definition[row][alone[i].ids[n]].item<float>(), 1e-5);
      ASSERT_EQ(alone[i].logprobs[n], by_trainer[row][alone[i].ids[n]].item<float>()) << "law 3, to the bit";
    }
  }
  for (const int32_t batch_tokens : {16, 19, 128}) {
    const auto engine = MakeEngine(Options(batch_tokens), Snapshot(1, 7));
    for (const bool warm : {false, true}) {  // the second round finds every prompt in the cache
      std::deque<Collect> results(asks.size());
      std::vector<std::unique_ptr<Client::Request>> requests;
      for (size_t i = 0; i < asks.size(); ++i) requests.push_back(engine->Generate(asks[i], results[i].OnChunk()));
      for (size_t i = 0; i < asks.size(); ++i) {
        ASSERT_EQ(results[i].Wait(), absl::OkStatus());
        EXPECT_EQ(results[i].ids, alone[i].ids) << "request " << i;
        EXPECT_EQ(results[i].logprobs, alone[i].logprobs) << "request " << i;
        if (warm) {
          EXPECT_GE(results[i].last.cached_tokens(), 24);
        }
      }
    }
  }
}

TEST(TorchEngineTest, ASwapMixesFollowersAndLeavesPinnedRequestsAloneToTheBit) {
  const auto reference = MakeEngine(Options(), Snapshot(1, 7));
  v1::GenerateRequest ask = Ask(Prompt(3, 40), 150, 1, 5);
  Collect expected;
  auto request = reference->Generate(ask, expected.OnChunk());
  ASSERT_EQ(expected.Wait(), absl::OkStatus());

  const auto engine = MakeEngine(Options(), Snapshot(1, 7));
  Collect following, pinned;
  auto first = engine->Generate(ask, following.OnChunk());
  ask.set_pinned_version(1);
  auto second = engine->Generate(ask, pinned.OnChunk());
  following.WaitForTokens(1);
  const auto updated = engine->Update(*weights::Encode(engine->newest().get(), *Snapshot(2, 8), false));
  ASSERT_EQ(updated.status(), absl::OkStatus());
  ASSERT_EQ(pinned.Wait(), absl::OkStatus());
  ASSERT_EQ(following.Wait(), absl::OkStatus());
  EXPECT_EQ(pinned.ids, expected.ids);
  EXPECT_EQ(pinned.logprobs, expected.logprobs);
  // Wherever the swap fell: unmixed before it, mixed from there on.
  for (const v1::VersionRun& run : following.versions) EXPECT_EQ(run.kv_mixed(), run.version() == 2);

  // A request that starts now is the new version's alone.
  Collect fresh;
  ask.set_pinned_version(-1);
  request = engine->Generate(ask, fresh.OnChunk());
  ASSERT_EQ(fresh.Wait(), absl::OkStatus());
  const std::vector<int32_t> tokens = Whole(ask, fresh);
  PackedAttention packed;
  const at::Tensor rows = WholeForward(8, tokens, 1, packed);
  for (size_t n = 0; n < fresh.ids.size(); ++n) {
    ASSERT_EQ(fresh.logprobs[n], rows[40 + static_cast<int64_t>(n) - 1][fresh.ids[n]].item<float>());
    EXPECT_FALSE(fresh.versions[n].kv_mixed());
  }
}

TEST(TorchEngineTest, ParkingReturnsTheCacheToTheSystemAndChangesNoBit) {
  EngineOptions options = Options();
  options.kv_cache_tokens = 1 << 16;
  const v1::GenerateRequest ask = Ask(Prompt(3, 50), 100, 1, 5);
  const auto reference = MakeEngine(options, Snapshot(1, 7)), engine = MakeEngine(options, Snapshot(1, 7));
  Collect whole, parked;
  auto undisturbed = reference->Generate(ask, whole.OnChunk()), request = engine->Generate(ask, parked.OnChunk());
  parked.WaitForTokens(1);
  v1::ParkRequest terms;
  terms.set_timeout_seconds(60);
  terms.set_lease_seconds(1000);
  const auto answer = engine->Park(terms);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const int64_t bytes = CacheBytes(Config(), options);
  EXPECT_GT(answer->freed_bytes(), bytes - (int64_t{1} << 16)) << "of " << bytes;
  EXPECT_LE(answer->freed_bytes(), bytes);
  ASSERT_EQ(engine->Resume(), absl::OkStatus());
  ASSERT_EQ(whole.Wait(), absl::OkStatus());
  ASSERT_EQ(parked.Wait(), absl::OkStatus());
  EXPECT_EQ(parked.ids, whole.ids);
  EXPECT_EQ(parked.logprobs, whole.logprobs);
}

TEST(TorchEngineTest, WeightsOfAnotherModelAreRejectedAndTheEngineGoesOn) {
  const auto engine = MakeEngine(Options(), Snapshot(1, 7));
  const float values[4] = {1, 2, 3, 4};
  const auto stranger = *weights::Snapshot::Copy(2, {{"w", "F32", {4}, std::as_bytes(std::span(values))}});
  EXPECT_EQ(engine->Update(*weights::Encode(nullptr, *stranger, false)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine->Status()->version(), 1);
  Collect result;
  auto request = engine->Generate(Ask({1, 2}, 3, 1, 1), result.OnChunk());
  EXPECT_EQ(result.Wait(), absl::OkStatus());
}

// Some checkpoints store a tied head a second time.
TEST(TorchEngineTest, ATiedHeadThatIsSentASecondTimeIsAccepted) {
  model::ModelConfig config = Config();
  config.tie_word_embeddings = true;
  std::map<std::string, at::Tensor> tensors = model::Parameters::Init(config, 7, at::kFloat).tensors();
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  std::vector<weights::TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    views.push_back(
        {name, "F32", tensor.sizes().vec(), {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  Engine::Parts parts;
  parts.runner = *NewTorchRunner(config, Options(), "cpu");
  const auto engine = *Engine::Create(Options(), std::move(parts), nullptr);
  EXPECT_EQ(engine->Update(*weights::Encode(nullptr, **weights::Snapshot::Copy(1, views), false)).status(),
            absl::OkStatus());
}

TEST(TorchEngineTest, AnUnknownDeviceIsAnErrorNotACrash) {
  EXPECT_EQ(NewTorchRunner(Config(), Options(), "cuda:7").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(NewTorchRunner(Config(), Options(), "no such").ok());
}

// The pages are filled with zeros: an allocation that is too large would not return.
TEST(TorchEngineTest, ACacheThatCannotFitIsRejectedWithTheNumbers) {
  EngineOptions options = Options();
  options.kv_cache_tokens = (int64_t{1} << 31) - 1;
  options.kv_block_tokens = 1;
  model::ModelConfig config = Config();
  config.num_hidden_layers = 4096;
  const absl::Status rejected = NewTorchRunner(config, options, "cpu").status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kResourceExhausted) << rejected;
  EXPECT_THAT(std::string(rejected.message()), ::testing::HasSubstr("tokens would fit"));
}

absl::Status OfCudaError(int code, const std::string& words) {
  const c10::AcceleratorError error({__func__, __FILE__, __LINE__}, code,
                                    "CUDA error: " + words + "\nCompile with `TORCH_USE_CUDA_DSA`.");
  return FromTorchException(error, "a forward pass");
}

TEST(FromTorchException, NamesADeviceThatFailedForEver) {
  const absl::Status kernel = OfCudaError(700, "an illegal memory access was encountered");
  EXPECT_TRUE(base::IsDeviceFailure(kernel));
  EXPECT_THAT(kernel.ToString(),
              ::testing::AllOf(::testing::HasSubstr("a forward pass: CUDA error: an illegal memory access"),
                               ::testing::HasSubstr("(error 700)"), ::testing::HasSubstr("gpu_check.sh"),
                               ::testing::Not(::testing::HasSubstr("TORCH_USE_CUDA_DSA"))));
  const absl::Status ecc = OfCudaError(214, "uncorrectable ECC error encountered");
  EXPECT_TRUE(base::IsDeviceFailure(ecc));
  EXPECT_THAT(ecc.ToString(), ::testing::HasSubstr("nvidia-smi -q -d ECC"));
  const absl::Status launch = OfCudaError(9, "invalid configuration argument");
  EXPECT_EQ(launch.code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(base::IsDeviceFailure(launch)) << "the next launch may work";
  EXPECT_EQ(OfCudaError(2, "out of memory").code(), absl::StatusCode::kResourceExhausted) << "of pinned memory";
}

// The codes after which, according to CUDA's driver_types.h, the process must be terminated, and 214, 220, and 999.
TEST(FromTorchException, KnowsTheCodesThatEndTheProcess) {
  std::vector<int> ends;
  for (int code = 0; code < 1000; ++code) {
    if (model::EndsDevice(code)) ends.push_back(code);
  }
  EXPECT_THAT(ends,
              ::testing::ElementsAre(214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999));
}

TEST(FromTorchException, NamesTheKeysIfTheDeviceHasNoMemoryLeft) {
  const c10::OutOfMemoryError full({__func__, __FILE__, __LINE__}, "CUDA out of memory. " + std::string(600, 'x'));
  const absl::Status status = FromTorchException(full, "starting the rollout engine");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("lower rollout.kv_cache_tokens"), std::string_view::npos) << status;
  EXPECT_LT(status.message().size(), 450u) << "torch's text is cut";
  const c10::Error other({__func__, __FILE__, __LINE__}, "bad shape");
  EXPECT_EQ(FromTorchException(other, "a pass").ToString(), "INTERNAL: a pass: bad shape");
}

}  // namespace
}  // namespace ingot::rollout
