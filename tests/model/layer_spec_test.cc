#include "model/layer_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/plain_model.h"

namespace ingot::model {
namespace {

TEST(ModelSpec, CountsTheParametersThatTheFormulaGives) {
  for (const char* type : {"qwen3", "qwen2", "llama", "mistral"}) {
    const ModelConfig c = testing::SmallConfig(type, 3);
    const int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
    int64_t layer = c.hidden_size * (2 * q + 2 * kv) + 3 * c.hidden_size * c.intermediate_size + 2 * c.hidden_size;
    if (c.attention_bias) layer += q + 2 * kv;
    if (c.qk_norm) layer += 2 * c.head_dim;
    const int64_t vocabulary = c.vocab_size * c.hidden_size;
    EXPECT_EQ(c.ParameterCount(), vocabulary * (c.tie_word_embeddings ? 1 : 2) + 3 * layer + c.hidden_size) << type;
    EXPECT_EQ(SpecOf(c).cache_elements(), 3 * 2 * kv) << type;
  }
}

TEST(ModelSpec, CountsTheWorkAndTheStatesOfARecurrence) {
  ModelConfig c = testing::SmallConfig("qwen3_next");
  c.qk_norm = c.attention_gate = c.centred_norms = true;
  c.experts = {.count = 2, .per_token = 1, .width = 8, .shared_width = 8, .shared_gate = true};
  c.recurrent.layers.assign(static_cast<size_t>(c.num_hidden_layers), true);
  c.recurrent.layers.back() = false;
  c.recurrent.key_heads = 2;
  c.recurrent.value_heads = 4;
  c.recurrent.key_dim = 6;
  c.recurrent.value_dim = 5;
  c.recurrent.kernel = 3;
  ASSERT_EQ(c.Validate(), absl::OkStatus());
  const ModelSpec spec = SpecOf(c);
  const LayerSpec &recurs = spec.layers.front(), &attends = spec.layers.back();
  const double state = 4 * 6 * 5;  // decayed, read by k, corrected, read by q: 1 and three times 2 for each number
  EXPECT_EQ(recurs.row_forward_flops(), 2 * recurs.row_products() + 7 * state);
  EXPECT_EQ(recurs.row_flops(), 6 * recurs.row_products() + 21 * state);
  EXPECT_EQ(attends.row_forward_flops(), 2 * attends.row_products());
  EXPECT_EQ(recurs.attention.pair_flops(), 0);
  // Two earlier inputs of 2 * 12 + 20 channels.
  EXPECT_EQ(spec.state_bytes(2), (c.num_hidden_layers - 1) * (4 * 6 * 5 * 4 + 2 * 44 * 2));
  EXPECT_EQ(spec.state_bytes(4), (c.num_hidden_layers - 1) * (4 * 6 * 5 * 4 + 2 * 44 * 4));
  EXPECT_EQ(spec.cache_elements(), 2 * attends.attention.keys());
}

TEST(ModelSpec, AUnitHoldsALayerAndATiedMatrixIsInTwo) {
  const auto units = SpecOf(testing::SmallConfig("qwen2", 2)).Units();
  ASSERT_EQ(units.size(), 4u);
  EXPECT_THAT(units[0], ::testing::ElementsAre("model.embed_tokens.weight"));
  EXPECT_THAT(units[1], ::testing::ElementsAre("model.embed_tokens.weight", "model.norm.weight"));
  EXPECT_THAT(units[3], ::testing::Each(::testing::StartsWith("model.layers.1.")));
  EXPECT_EQ(units[3].size(), 12u);
}

}  // namespace
}  // namespace ingot::model
