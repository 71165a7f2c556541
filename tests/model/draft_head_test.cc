// The draft head: rows do not depend on each other, and tensors that are not a head are named.
#include "model/draft_head.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/file.h"
#include "model/parameters.h"

namespace ingot::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kIds = 23;

ModelConfig Config() {
  ModelConfig config;
  config.vocab_size = kIds;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 64;
  config.qk_norm = true;
  config.eos_token_ids = {20};
  return config;
}

Transformer PolicyOf(at::ScalarType dtype) {
  return *Transformer::Create(Config(), Parameters::Init(Config(), 1, dtype));
}

TEST(DraftHeadTest, IsAFunctionOfItsArguments) {
  const DraftTensors a = DraftHead::Init(Config(), 7, 5, at::kFloat), b = DraftHead::Init(Config(), 7, 5, at::kFloat);
  const DraftTensors other = DraftHead::Init(Config(), 7, 6, at::kFloat);
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
  EXPECT_FALSE(at::equal(a.at("draft.eh_proj.weight"), other.at("draft.eh_proj.weight")));
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : a) shapes[name] = tensor.sizes().vec();
  EXPECT_EQ(shapes, DraftHead::Shapes(Config(), 7));
}

TEST(DraftHeadTest, PredictsTheSmallestIdsAndThoseThatEndATurn) {
  const DraftHead head = *DraftHead::Create(DraftHead::Init(Config(), 5, 1, at::kFloat), PolicyOf(at::kFloat));
  EXPECT_THAT(head.ids(), ElementsAre(0, 1, 2, 3, 20));
  const DraftHead all = *DraftHead::Create(DraftHead::Init(Config(), 0, 1, at::kFloat), PolicyOf(at::kFloat));
  EXPECT_TRUE(all.ids().empty());
  const at::Tensor hidden = at::randn({4, 16});
  const at::Tensor ids = at::tensor({0, 1, 2, 3, 20}, at::kLong);
  EXPECT_TRUE(at::allclose(head.Logits(hidden), all.Logits(hidden).index_select(1, ids)));
}

TEST(DraftHeadTest, ARowsBitsDependOnThatRowAlone) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const DraftHead head = *DraftHead::Create(DraftHead::Init(Config(), 0, 1, dtype), PolicyOf(dtype));
    const at::Tensor hidden = at::randn({9, 16}).to(dtype), ids = at::arange(9, at::kLong);
    const at::Tensor together = head.Logits(head.Hidden(hidden, ids));
    for (int64_t row = 0; row < 9; ++row) {
      const at::Tensor alone = head.Logits(head.Hidden(hidden.narrow(0, row, 1), ids.narrow(0, row, 1)));
      EXPECT_TRUE(at::equal(alone[0], together[row])) << row;
    }
  }
}

// The definition, in plain operators.
TEST(DraftHeadTest, IsTheProjectionAndAGatedLayer) {
  const Transformer policy = PolicyOf(at::kDouble);
  const DraftTensors t = DraftHead::Init(Config(), 0, 3, at::kDouble);
  const DraftHead head = *DraftHead::Create(t, policy);
  const at::Tensor hidden = at::randn({6, 16}, at::kDouble), ids = at::tensor({3, 1, 4, 1, 5, 9}, at::kLong);
  const auto weight = [&](const char* name) { return t.at(absl::StrCat("draft.", name, ".weight")); };
  const auto norm = [&](const at::Tensor& x, const char* name) {
    return x / (x.square().mean(1, true) + 1e-6).sqrt() * weight(name);
  };
  const at::Tensor embedded = policy.parameters().at("model.embed_tokens.weight").index_select(0, ids);
  const at::Tensor x = at::cat({norm(embedded, "enorm"), norm(hidden, "hnorm")}, 1).matmul(weight("eh_proj").t());
  const at::Tensor h = norm(x, "post_attention_layernorm");
  const at::Tensor inner = at::silu(h.matmul(weight("mlp.gate_proj").t())) * h.matmul(weight("mlp.up_proj").t());
  const at::Tensor out = norm(x + inner.matmul(weight("mlp.down_proj").t()), "shared_head.norm");
  EXPECT_TRUE(at::allclose(head.Hidden(hidden, ids), out, 1e-10, 1e-12));
  EXPECT_TRUE(at::allclose(head.Logits(out), out.matmul(policy.head().t()), 1e-10, 1e-12));
}

TEST(DraftHeadTest, NamesWhatIsNotAHead) {
  const Transformer policy = PolicyOf(at::kFloat);
  const auto why = [&](auto change) {
    DraftTensors tensors = DraftHead::Init(Config(), 5, 1, at::kFloat);
    change(tensors);
    const auto head = DraftHead::Create(tensors, policy);
    EXPECT_EQ(head.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(head.status().message());
  };
  EXPECT_THAT(why([](auto& t) { t.erase("draft.hnorm.weight"); }), HasSubstr("draft.hnorm.weight"));
  EXPECT_THAT(why([](auto& t) { t["draft.hnorm.weight"] = at::ones({15}); }), HasSubstr("draft.hnorm.weight"));
  EXPECT_THAT(why([](auto& t) { t["draft.hnorm.weight"] = at::ones({16}, at::kBFloat16); }),
              HasSubstr("draft.hnorm.weight"));
  EXPECT_THAT(why([](auto& t) { t["draft.other"] = at::ones({1}); }), HasSubstr("draft.other"));
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& ids : {std::vector<float>{3, 2}, {3, 3}, {-1, 2}, {0.5f}, {23}, {nan}, {inf}, {}}) {
    EXPECT_THAT(why([&](auto& t) { t[kDraftIds] = at::tensor(ids, at::kFloat); }), HasSubstr(kDraftIds));
  }
}

TEST(DraftHeadTest, IsReadAsItWasWritten) {
  const std::string dir = ::testing::TempDir() + "/draft_head";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  EXPECT_TRUE(ReadDraftHead(dir)->empty());
  const DraftTensors tensors = DraftHead::Init(Config(), 5, 1, at::kBFloat16);
  ASSERT_TRUE(WriteDraftHead(dir, tensors).ok());
  const DraftTensors read = *ReadDraftHead(dir);
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(tensor, read.at(name))) << name;
  ASSERT_TRUE(base::ReplaceFile(dir + "/draft/model.safetensors", "no head").ok());
  EXPECT_THAT(std::string(ReadDraftHead(dir).status().message()), HasSubstr("draft/model.safetensors"));
}

}  // namespace
}  // namespace ingot::model
