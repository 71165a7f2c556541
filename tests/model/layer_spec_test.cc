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
