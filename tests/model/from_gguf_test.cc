#include "model/from_gguf.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "gguf/make_file.h"
#include "model/rope.h"

namespace ingot::model {
namespace {

using ::testing::HasSubstr;

constexpr int kHidden = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8, kInner = 64, kVocab = 5;

class FromGguf : public ::testing::Test {
 protected:
  FromGguf() {
    std::string name = (std::filesystem::temp_directory_path() / "from_gguf_test.XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
  }
  ~FromGguf() override { std::filesystem::remove_all(dir_); }

  absl::StatusOr<gguf::File> Open(const gguf::FileMaker& maker) {
    maker.Write(dir_ + "/m.gguf");
    return gguf::File::Open(dir_ + "/m.gguf");
  }
  absl::StatusOr<ModelFolder> Convert(const gguf::FileMaker& maker, at::ScalarType dtype = at::kFloat) {
    INGOT_ASSIGN_OR_RETURN(const gguf::File file, Open(maker));
    ModelFolder folder;
    INGOT_ASSIGN_OR_RETURN(folder.config, ConfigFromGguf(file));
    INGOT_ASSIGN_OR_RETURN(folder.parameters, ParametersFromGguf(file, folder.config, dtype));
    return folder;
  }
  void ExpectRejected(const gguf::FileMaker& maker, const std::string& what) {
    const auto folder = Convert(maker);
    ASSERT_FALSE(folder.ok()) << what;
    EXPECT_THAT(std::string(folder.status().message()), HasSubstr(dir_ + "/m.gguf: "));
    EXPECT_THAT(std::string(folder.status().message()), HasSubstr(what));
  }

  std::string dir_;
};

gguf::FileMaker Fields(const std::string& architecture) {
  gguf::FileMaker maker;
  maker.Text("general.architecture", architecture)
      .Uint32(architecture + ".embedding_length", kHidden)
      .Uint32(architecture + ".block_count", 1)
      .Uint32(architecture + ".feed_forward_length", kInner)
      .Uint32(architecture + ".attention.head_count", kHeads)
      .Uint32(architecture + ".attention.head_count_kv", kKvHeads)
      .Uint32(architecture + ".context_length", 128)
      .Float(architecture + ".rope.freq_base", 5e4F)
      .Float(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F)
      .Uint32("tokenizer.ggml.bos_token_id", 1)
      .Uint32("tokenizer.ggml.eos_token_id", 2)
      .Texts("tokenizer.ggml.tokens", std::vector<std::string>(kVocab, "x"));
  return maker;
}

// Values 0, 1, 2, ... by row, so that a moved row is seen.
void AddCounting(gguf::FileMaker& maker, const std::string& name, std::vector<uint64_t> shape) {
  uint64_t count = 1;
  for (const uint64_t size : shape) count *= size;
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  maker.Floats(name, std::move(shape), values);
}

void AddLayer(gguf::FileMaker& maker) {
  AddCounting(maker, "blk.0.attn_norm.weight", {kHidden});
  AddCounting(maker, "blk.0.ffn_norm.weight", {kHidden});
  AddCounting(maker, "blk.0.attn_q.weight", {kHeads * kHeadDim, kHidden});
  AddCounting(maker, "blk.0.attn_k.weight", {kKvHeads * kHeadDim, kHidden});
  AddCounting(maker, "blk.0.attn_v.weight", {kKvHeads * kHeadDim, kHidden});
  AddCounting(maker, "blk.0.attn_output.weight", {kHidden, kHeads * kHeadDim});
  AddCounting(maker, "blk.0.ffn_gate.weight", {kInner, kHidden});
  AddCounting(maker, "blk.0.ffn_up.weight", {kInner, kHidden});
  AddCounting(maker, "blk.0.ffn_down.weight", {kHidden, kInner});
}

gguf::FileMaker Whole(const std::string& architecture) {
  gguf::FileMaker maker = Fields(architecture);
  AddCounting(maker, "token_embd.weight", {kVocab, kHidden});
  AddCounting(maker, "output_norm.weight", {kHidden});
  AddLayer(maker);
  return maker;
}

TEST_F(FromGguf, GivesTheConfigurationAndEveryTensorUnderItsOwnName) {
  const auto model = Convert(Whole("llama"));
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelConfig& c = model->config;
  EXPECT_EQ(c.model_type, "llama");
  EXPECT_EQ(c.vocab_size, kVocab);
  EXPECT_EQ(c.hidden_size, kHidden);
  EXPECT_EQ(c.head_dim, kHeadDim);
  EXPECT_EQ(c.num_key_value_heads, kKvHeads);
  EXPECT_EQ(c.max_position_embeddings, 128);
  EXPECT_EQ(c.rope_theta, 5e4);
  EXPECT_EQ(c.rms_norm_eps, static_cast<double>(1e-5F));
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_EQ(c.bos_token_id, 1);
  EXPECT_EQ(c.eos_token_ids, std::vector<int64_t>{2});
  EXPECT_EQ(model->parameters.tensors().size(), Parameters::Shapes(c).size());
  const at::Tensor down = model->parameters.at("model.layers.0.mlp.down_proj.weight");
  EXPECT_TRUE(at::equal(down, at::arange(kHidden * kInner, at::kFloat).reshape({kHidden, kInner})));
}

TEST_F(FromGguf, AHeadOfItsOwnIsNotTied) {
  gguf::FileMaker maker = Whole("llama");
  AddCounting(maker, "output.weight", {kVocab, kHidden});
  const auto model = Convert(maker);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->config.tie_word_embeddings);
  EXPECT_TRUE(model->parameters.tensors().contains("lm_head.weight"));
}

// llama.cpp's converter pairs dimension i of a head with i + half: its row 2i + p of a head is row p * half + i here.
TEST_F(FromGguf, RowsOfQAndKOfLlamaAreInHalvesAgain) {
  const auto model = Convert(Whole("llama"));
  ASSERT_TRUE(model.ok()) << model.status();
  for (const auto& [name, heads] : {std::pair{"q", kHeads}, std::pair{"k", kKvHeads}}) {
    const at::Tensor rows = model->parameters.at(absl::StrCat("model.layers.0.self_attn.", name, "_proj.weight"));
    for (int head = 0; head < heads; ++head) {
      for (int i = 0; i < kHeadDim / 2; ++i) {
        for (int p = 0; p < 2; ++p) {
          const int64_t stored = head * kHeadDim + 2 * i + p, ours = head * kHeadDim + p * (kHeadDim / 2) + i;
          EXPECT_EQ(rows[ours][3].item<float>(), static_cast<float>(stored * kHidden + 3)) << name << " row " << ours;
        }
      }
    }
  }
}

TEST_F(FromGguf, RowsOfOtherArchitecturesStayInPlace) {
  gguf::FileMaker maker = Whole("qwen2");
  AddCounting(maker, "blk.0.attn_q.bias", {kHeads * kHeadDim});
  AddCounting(maker, "blk.0.attn_k.bias", {kKvHeads * kHeadDim});
  AddCounting(maker, "blk.0.attn_v.bias", {kKvHeads * kHeadDim});
  const auto model = Convert(maker);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.model_type, "qwen2");
  const at::Tensor q = model->parameters.at("model.layers.0.self_attn.q_proj.weight");
  EXPECT_TRUE(at::equal(q, at::arange(q.numel(), at::kFloat).reshape(q.sizes())));

  gguf::FileMaker third = Whole("qwen3");
  AddCounting(third, "blk.0.attn_q_norm.weight", {kHeadDim});
  AddCounting(third, "blk.0.attn_k_norm.weight", {kHeadDim});
  third.Uint32("qwen3.attention.key_length", kHeadDim);
  EXPECT_TRUE(Convert(third).ok()) << Convert(third).status();
}

TEST_F(FromGguf, ConvertsToTheTypeThatIsAskedFor) {
  const auto model = Convert(Whole("llama"), at::kBFloat16);
  ASSERT_TRUE(model.ok()) << model.status();
  const at::Tensor down = model->parameters.at("model.layers.0.mlp.down_proj.weight");
  EXPECT_TRUE(at::equal(down, at::arange(kHidden * kInner, at::kFloat).reshape({kHidden, kInner}).to(at::kBFloat16)));
}

TEST_F(FromGguf, KnowsTheStretchOfLlama3ByItsDivisors) {
  gguf::FileMaker maker = Whole("llama");
  ModelConfig config = Convert(maker)->config;
  const std::vector<float> plain = FrequenciesOf(config).inverse;
  config.rope_scaling.type = "llama3";
  config.rope_scaling.factor = 8;
  config.rope_scaling.original_positions = 8192;
  config.rope_scaling.low_freq_factor = 1;
  config.rope_scaling.high_freq_factor = 4;
  const std::vector<float> stretched = FrequenciesOf(config).inverse;
  std::vector<float> divisors(plain.size());
  for (size_t i = 0; i < plain.size(); ++i) divisors[i] = plain[i] / stretched[i];
  maker.Floats("rope_freqs.weight", {divisors.size()}, divisors);
  const auto model = Convert(maker);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.rope_scaling, config.rope_scaling);

  gguf::FileMaker other = Whole("llama");
  other.Floats("rope_freqs.weight", {kHeadDim / 2}, std::vector<float>(kHeadDim / 2, 3));
  ExpectRejected(other, "'rope_freqs.weight' is not Llama 3's position scaling");
}

TEST_F(FromGguf, ReadsALinearStretchAsLlamaCppDoes) {
  const auto scaling = [this](const gguf::FileMaker& maker) { return Convert(maker)->config.rope_scaling; };
  RopeScaling linear;
  linear.type = "linear";
  linear.factor = 4;
  linear.original_positions = Convert(Whole("llama"))->config.max_position_embeddings;  // as every file without it
  EXPECT_EQ(scaling(Whole("llama").Float("llama.rope.scale_linear", 4)), linear) << "its older name";
  EXPECT_EQ(scaling(Whole("llama").Float("llama.rope.scaling.factor", 4)), linear) << "without a type";
  EXPECT_EQ(scaling(Whole("llama").Text("llama.rope.scaling.type", "linear").Float("llama.rope.scaling.factor", 4)),
            linear);
  EXPECT_EQ(scaling(Whole("llama").Float("llama.rope.scale_linear", 1)), RopeScaling());
  EXPECT_EQ(scaling(Whole("llama").Text("llama.rope.scaling.type", "none").Float("llama.rope.scale_linear", 4)),
            RopeScaling());
}

TEST_F(FromGguf, RejectsModelsThatItDoesNotKnow) {
  ExpectRejected(gguf::FileMaker(), "field 'general.architecture' is missing");
  ExpectRejected(gguf::FileMaker().Text("general.architecture", "bert"),
                 "is 'bert'; supported: llama, qwen2, and qwen3");
  ExpectRejected(gguf::FileMaker().Text("general.architecture", "llama"), "field 'llama.embedding_length' is missing");
  ExpectRejected(Whole("llama").Uint32("llama.expert_count", 8), "field 'llama.expert_count' is 8");
  ExpectRejected(Whole("llama").Uint32("llama.rope.dimension_count", 4).Uint32("llama.attention.key_length", 8),
                 "partial rotation of heads");
  ExpectRejected(Whole("llama").Text("llama.rope.scaling.type", "longrope"), "is 'longrope'; supported: none");
}

TEST_F(FromGguf, RejectsMissingUnknownAndMisshapenTensorsByName) {
  gguf::FileMaker missing = Fields("llama");
  AddCounting(missing, "output_norm.weight", {kHidden});
  AddLayer(missing);
  ExpectRejected(missing, "the tensor of 'model.embed_tokens.weight' [5, 32] is missing");
  for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.1.attn_q.weight", "blk.0.attn_q", "extra"}) {
    gguf::FileMaker unknown = Whole("llama");
    AddCounting(unknown, name, {4});
    ExpectRejected(unknown, absl::StrCat("tensor '", name, "' [4] does not belong to a llama model"));
  }
  gguf::FileMaker shape = Fields("llama");
  AddCounting(shape, "token_embd.weight", {kVocab + 1, kHidden});
  AddCounting(shape, "output_norm.weight", {kHidden});
  AddLayer(shape);
  ExpectRejected(shape, "tensor 'token_embd.weight' has the shape [6, 32], but the file's fields require [5, 32]");
}

// 8 bytes a value of the largest tensor are its decoding, in fp32 and turned.
TEST_F(FromGguf, RejectsAModelBeyondTheMemoryByItsLargestTensor) {
  const auto file = Open(Whole("llama"));
  ASSERT_TRUE(file.ok()) << file.status();
  const ModelConfig config = *ConfigFromGguf(*file);
  const int64_t need = 4 * config.ParameterCount() + 8 * kInner * kHidden;
  EXPECT_TRUE(ParametersFromGguf(*file, config, at::kFloat, need).ok());
  const absl::Status rejected = ParametersFromGguf(*file, config, at::kFloat, need - 1).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(rejected.message()),
              ::testing::AllOf(HasSubstr(dir_ + "/m.gguf: "), HasSubstr("'blk.0.ffn_down.weight' [32, 64]"),
                               HasSubstr(std::to_string(need - 1) + " are available")));
}

// The sizes of a configuration are not believed: a huge model with a small file is refused before anything is allocated.
TEST_F(FromGguf, RejectsAModelThatTheFileCannotHold) {
  gguf::FileMaker maker = Fields("qwen2");
  maker.Uint32("qwen2.vocab_size", 1 << 24);
  ExpectRejected(maker, "is missing");
}

}  // namespace
}  // namespace ingot::model
