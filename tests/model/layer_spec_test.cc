#include "model/layer_spec.h"
#include "model/attention_backend.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "model/block.h"
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

// Two ranks of tensor parallelism, each a thread.
class TwoRanks {
 public:
  class Rank final : public Communicator {
   public:
    Rank(TwoRanks& all, int rank) : all_(all), rank_(rank) {}
    int size(Axis) const override { return 2; }
    int rank(Axis) const override { return rank_; }
    at::Tensor Enter(Axis, const at::Tensor& x) override { return x; }
    at::Tensor Sum(Axis, const at::Tensor& x) override {
      all_.parts_[rank_] = x;
      all_.arrived_.arrive_and_wait();
      const at::Tensor sum = all_.parts_[0] + all_.parts_[1];
      all_.arrived_.arrive_and_wait();
      return sum;
    }
    at::Tensor Gather(Axis, const at::Tensor& x, int64_t) override { return x; }
    at::Tensor Exchange(Axis, const at::Tensor& x, const at::Tensor&, at::Tensor*) override { return x; }

   private:
    TwoRanks& all_;
    const int rank_;
  };

 private:
  std::barrier<> arrived_{2};
  at::Tensor parts_[2];
};

// A layer cut along the axes of its table, and joined at the communicator's borders, is the whole layer.
TEST(Block, HalvesAlongTheShardAxesGiveTheWholeLayer) {
  const ModelConfig config = testing::SmallConfig("qwen3", 1);
  const Parameters parameters = testing::RandomParameters(config, 3, at::kDouble);
  const LayerSpec whole = SpecOf(config).layers[0];
  const at::TensorOptions options = at::dtype(at::kDouble);
  const RopeTables rope(config, options);
  const at::Tensor x = at::randn({9, config.hidden_size}, options), positions = at::arange(9, at::kLong);
  testing::PackedAttention attention;
  const at::Tensor expected = Block(0, whole, config.rms_norm_eps, parameters.tensors())
                                  .Forward(x, positions, rope, attention, Communicator::Alone(), nullptr);
  TwoRanks ranks;
  at::Tensor results[2];
  const auto run = [&](int r) {
    LayerSpec half = whole;
    half.attention.heads /= 2;
    half.attention.kv_heads /= 2;
    std::map<std::string, at::Tensor> tensors;
    for (const TensorSpec& t : whole.tensors) {
      const at::Tensor all = parameters.at(t.name);
      const auto axis = static_cast<int64_t>(t.shard);
      tensors[t.name] = axis < 0 ? all : all.chunk(2, axis)[static_cast<size_t>(r)].contiguous();
    }
    TwoRanks::Rank rank(ranks, r);
    testing::PackedAttention own;
    results[r] = Block(0, half, config.rms_norm_eps, tensors).Forward(x, positions, rope, own, rank, nullptr);
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  for (const at::Tensor& result : results) EXPECT_LT(testing::RelativeError(result, expected), 1e-13);
}

}  // namespace
}  // namespace ingot::model
