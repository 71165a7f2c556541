// On real (small, random) transformers, an engine that reads its prompts from a store answers to the bit what one
// without a store answers, also with recurrent layers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/rng.h"
#include "kv/file_store.h"
#include "rollout/small_transformer.h"

namespace ingot::rollout::kv_store_identity_test {
namespace {

model::ModelConfig Hybrid() {
  model::ModelConfig config = Shape();
  config.model_type = "qwen3_next";
  config.tie_word_embeddings = false;
  config.attention_gate = config.centred_norms = true;
  config.rotary_dim = config.head_dim / 2;
  config.num_hidden_layers = 3;
  config.experts = {
      .count = 4, .per_token = 2, .width = 12, .shared_width = 20, .shared_gate = true, .normalize = true};
  config.recurrent = {
      .key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 10, .kernel = 4, .layers = {true, false, true}};
  return config;
}

std::shared_ptr<const weights::Snapshot> WeightsOf(const model::ModelConfig& config, at::ScalarType dtype) {
  std::map<std::string, at::Tensor> tensors = model::Parameters::Init(config, 7, dtype).tensors();
  std::vector<weights::TensorView> views;
  for (auto& [name, tensor] : tensors) {
    if (tensor.dim() == 2) tensor.mul_(6);        // likely and unlikely tokens
    if (name.ends_with("A_log")) tensor.sub_(4);  // states last for long
    views.push_back({name,
                     tensor.scalar_type() == at::kBFloat16 ? "BF16" : "F32",
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  return *weights::Snapshot::Copy(1, views);
}

class KvStoreIdentityTest : public testing::TestWithParam<std::tuple<bool, at::ScalarType>> {
 protected:
  KvStoreIdentityTest() {
    std::string name = (std::filesystem::temp_directory_path() / "ingot_kv_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    options_.kv_block_tokens = 8;
    options_.kv_cache_tokens = 2048;
    options_.max_running = 16;
    options_.max_batch_tokens = 64;
    options_.kv_store.chunk_tokens = 16;
  }
  ~KvStoreIdentityTest() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  std::unique_ptr<Engine> MakeEngine(bool with_store) {
    const auto [hybrid, dtype] = GetParam();
    const model::ModelConfig config = hybrid ? Hybrid() : Shape();
    EngineOptions options = options_;
    if (with_store) options.kv_store.path = folder_;
    Engine::Parts parts;
    parts.runner = *NewTorchRunner(config, options, "cpu");
    if (with_store) parts.store = *kv::FileStore::Open(options.kv_store);
    return *Engine::Create(options, std::move(parts), WeightsOf(config, dtype));
  }

  // Prompts that share their first 40 tokens, or all but their last.
  static std::vector<v1::GenerateRequest> Asks() {
    std::vector<v1::GenerateRequest> asks;
    for (uint64_t i = 0; i < 6; ++i) {
      v1::GenerateRequest& ask = asks.emplace_back();
      for (uint64_t at = 0; at < 90 + i; ++at) {
        ask.add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(at < 40 ? 1 : 2 + i / 2, at) % kIds));
      }
      ask.mutable_sampling()->set_temperature(0.8);
      ask.mutable_sampling()->set_seed(i);
      ask.mutable_sampling()->set_max_new_tokens(12);
      ask.set_pinned_version(-1);
      ask.set_top_logprobs(3);
    }
    return asks;
  }

  std::string folder_;
  EngineOptions options_;
};

TEST_P(KvStoreIdentityTest, ReadingPromptsChangesNoBit) {
  const std::vector<v1::GenerateRequest> asks = Asks();
  const std::vector<Outcome> expected = Outcomes(*MakeEngine(false), asks);
  {
    const auto writer = MakeEngine(true);
    EXPECT_EQ(Outcomes(*writer, asks), expected);
    // Three prompts of five chunks, of which they share two.
    for (int i = 0; i < 6000 && writer->Status()->kv_store().put_chunks() < 11; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  const auto reader = MakeEngine(true);
  EXPECT_EQ(Outcomes(*reader, asks), expected);
  EXPECT_EQ(reader->Status()->kv_store().fetched_tokens(), 11 * 16);
  EXPECT_EQ(reader->Status()->kv_store().corrupt(), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, KvStoreIdentityTest,
                         testing::Combine(testing::Bool(), testing::Values(at::kFloat, at::kBFloat16)));

}  // namespace
}  // namespace ingot::rollout::kv_store_identity_test
