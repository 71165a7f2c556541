// A shadow head has the counts of an engine that drafts with this head alone, to the last one, whatever the engine's own
// drafters do, and it changes no id.
#include "rollout/speculation/draft_shadow.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "rollout/small_transformer.h"

namespace ingot::rollout {
namespace {

struct Heads {
  int own = 0, shadow = 0;  // seeds; 0 = none
};

std::shared_ptr<const weights::Snapshot> WeightsWith(int64_t version, const Heads& heads, int64_t draft_ids) {
  std::map<std::string, at::Tensor> tensors =
      model::Parameters::Init(Shape(), static_cast<uint64_t>(version), at::kFloat).tensors();
  const auto head = [&](int seed) {
    model::DraftTensors random = model::DraftHead::Init(Shape(), draft_ids, static_cast<uint64_t>(seed), at::kFloat);
    for (auto& [name, tensor] : random) {
      if (tensor.dim() == 2) tensor.mul_(3);
    }
    return random;
  };
  if (heads.own != 0) tensors.merge(head(heads.own));
  if (heads.shadow != 0) tensors.merge(model::ShadowOf(head(heads.shadow)));
  std::vector<weights::TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    views.push_back(
        {name, "F32", tensor.sizes().vec(), {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
    if (name.starts_with(model::kDraftPrefix)) views.back().role = v1::TENSOR_DRAFT;
  }
  return *weights::Snapshot::Copy(version, views);
}

EngineOptions OptionsOf(const std::vector<std::string>& drafters, int32_t drafts) {
  EngineOptions options;
  options.kv_block_tokens = 8;
  options.kv_cache_tokens = 8192;
  options.max_running = 6;
  options.max_batch_tokens = 2048;
  options.speculation.drafters = drafters;
  options.speculation.mtp_drafts = drafts;
  options.speculation.min_gain = -1;
  return options;
}

std::unique_ptr<Engine> EngineWith(const EngineOptions& options, std::shared_ptr<const weights::Snapshot> weights) {
  Engine::Parts parts;
  parts.runner = *NewTorchRunner(Shape(), options, "cpu");
  std::vector<std::string> pieces;
  for (int32_t id = 0; id < kIds; ++id) pieces.push_back(std::string(1, static_cast<char>('A' + id)));
  parts.tokenizer = std::make_shared<PieceTokenizer>(pieces);
  return *Engine::Create(options, std::move(parts), std::move(weights));
}

std::vector<v1::GenerateRequest> Asks(int count) {
  std::vector<v1::GenerateRequest> asks;
  for (int i = 0; i < count; ++i) {
    v1::GenerateRequest& ask = asks.emplace_back();
    for (int token = 0; token < 3 + i % 20; ++token) ask.add_prompt_ids((7 * token + i % 3) % kIds);
    ask.set_pinned_version(-1);
    v1::SamplingParams& sampling = *ask.mutable_sampling();
    sampling.set_seed(static_cast<uint64_t>(i + 1));
    sampling.set_temperature(0.7f * static_cast<float>(i % 4));
    sampling.set_max_new_tokens(1 + (13 * i) % 60);
    if (i % 5 == 0) sampling.set_top_k(9);
    if (i % 3 == 0) sampling.add_stop("B");
    if (i % 7 == 0) sampling.set_presence_penalty(0.5f);
  }
  return asks;
}

v1::DrafterStatus DrafterOf(Engine& engine, const std::string& name) {
  const v1::EngineStatusResponse status = *engine.Status();
  for (const v1::DrafterStatus& drafter : status.drafters()) {
    if (drafter.name() == name) return drafter;
  }
  return {};
}

TEST(DraftShadowTest, CountsWhatItsHeadAloneWouldDraft) {
  const std::vector<v1::GenerateRequest> asks = Asks(40);
  for (const int32_t drafts : {1, 3, 8}) {
    for (const int64_t ids : {0, 40}) {
      const auto alone = EngineWith(OptionsOf({"mtp"}, drafts), WeightsWith(1, {.own = 5}, ids));
      const std::vector<Outcome> expected = Outcomes(*alone, asks);
      const v1::EngineStatusResponse of_alone = *alone->Status();
      const v1::DrafterStatus head = DrafterOf(*alone, "mtp");
      EXPECT_GT(head.accepted(), head.drafted() / 20) << "the test needs both outcomes";
      EXPECT_LT(head.accepted(), head.drafted());
      EXPECT_EQ(DrafterOf(*alone, "shadow").drafted(), 0);
      for (const std::vector<std::string>& drafters :
           {std::vector<std::string>{"mtp"}, std::vector<std::string>{"history", "mtp"}, std::vector<std::string>{}}) {
        const auto engine = EngineWith(OptionsOf(drafters, drafts), WeightsWith(1, {.own = 6, .shadow = 5}, ids));
        EXPECT_TRUE(Outcomes(*engine, asks) == expected);
        const v1::EngineStatusResponse status = *engine->Status();
        const v1::DrafterStatus shadow = DrafterOf(*engine, "shadow");
        ASSERT_EQ(status.sampled_tokens(), of_alone.sampled_tokens());
        EXPECT_EQ(shadow.drafted(), head.drafted()) << drafts << " drafts, drafters " << drafters.size();
        EXPECT_EQ(status.sampled_tokens() - shadow.accepted(), of_alone.sampling_passes());
        EXPECT_GT(head.accepted() + 1, shadow.accepted());
      }
    }
  }
}

TEST(DraftShadowTest, CountsOnlyOnVersionsThatHaveOne) {
  const std::vector<v1::GenerateRequest> asks = Asks(8);
  const auto engine = EngineWith(OptionsOf({"mtp"}, 3), WeightsWith(1, {.own = 6}, 0));
  Outcomes(*engine, asks);
  EXPECT_EQ(engine->Status()->drafters_size(), 1) << "only mtp";
  ASSERT_TRUE(engine->Update(*weights::Encode(nullptr, *WeightsWith(2, {.own = 6, .shadow = 5}, 0), true)).ok());
  Outcomes(*engine, asks);
  const int64_t with = DrafterOf(*engine, "shadow").drafted();
  EXPECT_GT(with, 0);
  ASSERT_TRUE(engine->Update(*weights::Encode(nullptr, *WeightsWith(3, {.own = 6}, 0), true)).ok());
  Outcomes(*engine, asks);
  EXPECT_EQ(DrafterOf(*engine, "shadow").drafted(), with);
}

}  // namespace
}  // namespace ingot::rollout
