#include "model/transformer.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/attention/attention_reference.h"
#include "model/plain_model.h"

namespace ingot::model {
namespace {

using testing::PackedAttention;
using testing::PlainLogits;
using testing::RandomIds;
using testing::RandomParameters;
using testing::RelativeError;
using testing::SmallConfig;

// These tensors are small: on a busy machine the threads of a pool would wait for each other far longer than they work.
[[maybe_unused]] const bool kOneThread = (at::set_num_threads(1), true);

at::Tensor Arange(int64_t n) { return at::arange(n, at::kLong); }

struct Forest {
  at::Tensor visible_end, positions, visible;
};

Forest MakeForest(int64_t rows, uint64_t seed) {
  std::mt19937_64 rng(seed);
  const std::vector<int32_t> end = kernels::testing::RandomForest(rng, rows, 0.15, 0.03);
  Forest f{at::empty({rows}, at::kInt), at::empty({rows}, at::kLong), at::zeros({rows, rows}, at::kBool)};
  for (int64_t i = 0; i < rows; ++i) {
    int64_t depth = 0;
    for (int64_t j = 0; j <= i; ++j) {
      const bool sees = end[j] > i;
      f.visible.mutable_data_ptr<bool>()[i * rows + j] = sees;
      depth += sees && j < i;
    }
    f.visible_end.mutable_data_ptr<int32_t>()[i] = end[i];
    f.positions.mutable_data_ptr<int64_t>()[i] = depth;
  }
  return f;
}

class Families : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Families, ::testing::Values("qwen3", "qwen2", "llama", "mistral"));

TEST_P(Families, LogitsAndAllGradientsEqualPlainAtenWithADenseMask) {
  const ModelConfig config = SmallConfig(GetParam());
  for (const auto& [dtype, tolerance] : {std::pair{at::kDouble, 1e-12}, std::pair{at::kFloat, 5e-6}}) {
    SCOPED_TRACE(c10::toString(dtype));
    constexpr int64_t kRows = 90;
    const Forest forest = MakeForest(kRows, 3);
    const at::Tensor ids = RandomIds(config, kRows, 4), mix = at::randn({kRows, config.vocab_size}, dtype);
    Parameters ours = RandomParameters(config, 5, dtype), plain = RandomParameters(config, 5, dtype);
    for (auto& [name, t] : ours.tensors()) t.requires_grad_(true);
    for (auto& [name, t] : plain.tensors()) t.requires_grad_(true);

    const auto model = Transformer::Create(config, ours);
    ASSERT_TRUE(model.ok()) << model.status();
    PackedAttention attention(forest.visible_end);
    const at::Tensor logits = model->Logits(model->Hidden(ids, forest.positions, attention));
    const at::Tensor want = PlainLogits(config, plain, ids, forest.positions, forest.visible);
    EXPECT_LT(RelativeError(logits, want), tolerance);
    (at::log_softmax(logits, -1) * mix).sum().backward();
    (at::log_softmax(want, -1) * mix).sum().backward();
    for (const auto& [name, t] : ours.tensors()) {
      ASSERT_TRUE(t.grad().defined()) << name;
      // A bias of the keys shifts all scores of a query alike. Its gradient is zero up to rounding.
      if (name.find("k_proj.bias") != std::string::npos) continue;
      EXPECT_LT(RelativeError(t.grad(), plain.at(name).grad()), tolerance) << name;
    }
  }
}

// Law 3: rollout's rows, computed one by one, and the trainer's packed rows have the same bits.
TEST(Transformer, PagedDecodeEqualsThePackedPassWithGradientsBitForBit) {
  ModelConfig config = SmallConfig("qwen3");
  config.hidden_size = 72;
  config.head_dim = 32;
  constexpr int64_t kRows = 150, kPrompt = 70, kPage = 16;
  Parameters parameters = RandomParameters(config, 7, at::kFloat);
  const at::Tensor ids = RandomIds(config, kRows, 8);

  struct Paged : AttentionBackend {
    std::vector<at::Tensor> k_pages, v_pages;
    std::vector<int32_t> table;
    int64_t done = 0;
    at::Tensor Attend(int64_t layer, const AttentionInput& input) override {
      const at::Tensor &q = input.q, &k = input.k, &v = input.v;
      for (int64_t i = 0; i < k.size(0); ++i) {
        const int64_t at = done + i;
        k_pages[layer][table[at / kPage]][at % kPage].copy_(k[i]);
        v_pages[layer][table[at / kPage]][at % kPage].copy_(v[i]);
      }
      kernels::AttentionSequence s;
      s.q_count = q.size(0);
      s.q_offset = done;
      s.key_count = done + s.q_count;
      s.block_table = table.data();
      at::Tensor out = at::empty_like(q);
      kernels::PagedTreeAttention(q, k_pages[layer], v_pages[layer], {&s, 1}, 1 / std::sqrt(32.0), out);
      return out;
    }
  } paged;
  for (int64_t l = 0; l < config.num_hidden_layers; ++l) {
    paged.k_pages.push_back(at::full({16, kPage, 2, 32}, NAN));
    paged.v_pages.push_back(at::full({16, kPage, 2, 32}, NAN));
  }
  for (int32_t p = 0; p < 16; ++p) paged.table.push_back((p * 7 + 3) % 16);

  const auto model = Transformer::Create(config, parameters);
  ASSERT_TRUE(model.ok());
  std::vector<at::Tensor> pieces;
  {
    at::NoGradGuard no_grad;
    for (int64_t at = 0; at < kRows;) {
      const int64_t n = at == 0 ? kPrompt : 1;
      pieces.push_back(model->Logits(model->Hidden(ids.narrow(0, at, n), Arange(kRows).narrow(0, at, n), paged)));
      paged.done = at += n;
    }
  }
  for (auto& [name, t] : parameters.tensors()) t.requires_grad_(true);
  const auto trained = Transformer::Create(config, parameters);
  PackedAttention packed;
  const at::Tensor logits = trained->Logits(trained->Hidden(ids, Arange(kRows), packed));
  EXPECT_TRUE(logits.requires_grad());
  EXPECT_TRUE(at::equal(at::cat(pieces), logits.detach()));
}

TEST(Transformer, ResultDoesNotDependOnTheNumberOfThreads) {
  ModelConfig config = SmallConfig("qwen3");
  config.hidden_size = 128;
  config.intermediate_size = 320;
  const at::Tensor ids = RandomIds(config, 300, 1);
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> results;
  for (int count : {1, 2}) {
    at::set_num_threads(count);
    Parameters parameters = RandomParameters(config, 7, at::kFloat);
    for (auto& [name, t] : parameters.tensors()) t.requires_grad_(true);
    const auto model = Transformer::Create(config, parameters);
    PackedAttention attention;
    const at::Tensor hidden = model->Hidden(ids, Arange(300), attention);
    hidden.square().sum().backward();
    results.push_back(hidden.detach());
    results.push_back(parameters.at("model.layers.0.self_attn.q_norm.weight").grad());
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(results[0], results[2]));
  EXPECT_TRUE(at::equal(results[1], results[3]));
}

TEST(Transformer, Bf16RunsAndIsNearFp32) {
  const ModelConfig config = SmallConfig("qwen3");
  const Parameters full = RandomParameters(config, 2, at::kFloat);
  Parameters half = full;
  for (auto& [name, t] : half.tensors()) t = t.to(at::kBFloat16);
  const at::Tensor ids = RandomIds(config, 40, 3);
  PackedAttention attention;
  const auto a = Transformer::Create(config, full), b = Transformer::Create(config, half);
  const at::Tensor x = a->Logits(a->Hidden(ids, Arange(40), attention)),
                   y = b->Logits(b->Hidden(ids, Arange(40), attention));
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  EXPECT_LT(RelativeError(y, x), 0.05);
}

TEST(Transformer, GradientsInBf16AreNearFp32s) {
  const ModelConfig config = SmallConfig("qwen3");
  Parameters half = RandomParameters(config, 2, at::kBFloat16), full = half;
  for (auto& [name, t] : full.tensors()) t = t.to(at::kFloat).requires_grad_(true);
  for (auto& [name, t] : half.tensors()) t.requires_grad_(true);
  const at::Tensor ids = RandomIds(config, 40, 3), mix = at::randn({40, config.vocab_size});
  for (const Parameters* parameters : {&full, &half}) {
    PackedAttention attention;
    const auto model = Transformer::Create(config, *parameters);
    (at::log_softmax(model->Logits(model->Hidden(ids, Arange(40), attention)), -1) * mix).sum().backward();
  }
  for (const auto& [name, t] : half.tensors()) {
    ASSERT_EQ(t.grad().scalar_type(), at::kBFloat16) << name;
    EXPECT_LT(RelativeError(t.grad(), full.at(name).grad()), 0.06) << name;
  }
}

TEST(Transformer, RejectsInputsThatDoNotFit) {
  const ModelConfig config = SmallConfig("llama");
  Parameters parameters = Parameters::Init(config, 1, at::kFloat);
  parameters.tensors()["model.norm.weight"] = at::ones({3});
  EXPECT_EQ(Transformer::Create(config, parameters).status().code(), absl::StatusCode::kInvalidArgument);
  parameters.tensors().erase("model.norm.weight");
  EXPECT_EQ(Transformer::Create(config, parameters).status().code(), absl::StatusCode::kInvalidArgument);

  const auto model = Transformer::Create(config, Parameters::Init(config, 1, at::kFloat));
  ASSERT_TRUE(model.ok());
  PackedAttention attention;
  const at::Tensor ids = RandomIds(config, 3, 1);
  EXPECT_THROW(model->Hidden(ids, at::full({3}, 512, at::kLong), attention), c10::Error);
  EXPECT_THROW(model->Hidden(ids, at::full({3}, -1, at::kLong), attention), c10::Error);
  EXPECT_THROW(model->Hidden(at::full({3}, 53, at::kLong), Arange(3), attention), c10::Error);
}

TEST(Parameters, InitDependsOnConfigAndSeedAlone) {
  const ModelConfig config = SmallConfig("qwen3");
  const Parameters a = Parameters::Init(config, 1, at::kFloat), b = Parameters::Init(config, 1, at::kFloat),
                   c = Parameters::Init(config, 2, at::kFloat);
  int64_t count = 0;
  for (const auto& [name, t] : a.tensors()) {
    EXPECT_TRUE(at::equal(t, b.at(name))) << name;
    EXPECT_EQ(at::equal(t, c.at(name)), t.dim() == 1) << name;
    count += t.numel();
  }
  EXPECT_EQ(count, config.ParameterCount());
  const at::Tensor& w = a.at("model.layers.1.mlp.up_proj.weight");
  EXPECT_NEAR(w.std().item<double>(), 0.02, 0.003);
  EXPECT_NEAR(a.at("model.layers.1.mlp.down_proj.weight").std().item<double>(), 0.01, 0.0015);
  EXPECT_NEAR(w.mean().item<double>(), 0, 0.002);
}

}  // namespace
}  // namespace ingot::model
