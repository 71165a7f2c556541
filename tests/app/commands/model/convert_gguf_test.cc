// A whole conversion: the folder that `ingot model convert` leaves is one that Ingot loads.
#include "app/commands/model/convert_gguf.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "gguf/make_file.h"
#include "model/parameters.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::app {
namespace {

using ::testing::HasSubstr;

class ConvertGgufTest : public ::testing::Test {
 protected:
  ConvertGgufTest() {
    std::string name = (std::filesystem::temp_directory_path() / "convert_gguf_test.XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
  }
  ~ConvertGgufTest() override { std::filesystem::remove_all(dir_); }

  std::string dir_;
};

// A llama of one layer whose vocabulary is the 256 bytes and two control tokens, quantised to Q8_0.
gguf::FileMaker Model() {
  constexpr uint64_t kHidden = 32, kInner = 64;
  std::vector<std::string> tokens = {"<|start|>", "<|end|>"};
  std::vector<int32_t> types = {3, 3};
  const auto bytes = base::ParseJson(text::ByteTokenizerJson({"<|start|>"}));
  for (const auto& entry : base::Find(*base::Find(*bytes, "model"), "vocab")->get_object()) {
    tokens.emplace_back(entry.key());
    types.push_back(1);
  }
  gguf::FileMaker maker;
  maker.Text("general.architecture", "llama")
      .Uint32("llama.embedding_length", kHidden)
      .Uint32("llama.block_count", 1)
      .Uint32("llama.feed_forward_length", kInner)
      .Uint32("llama.attention.head_count", 4)
      .Uint32("llama.attention.head_count_kv", 2)
      .Uint32("llama.context_length", 64)
      .Float("llama.attention.layer_norm_rms_epsilon", 1e-5F)
      .Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", "smollm")
      .Texts("tokenizer.ggml.tokens", tokens)
      .Numbers<int32_t>("tokenizer.ggml.token_type", 5, types)
      .Texts("tokenizer.ggml.merges", {})
      .Uint32("tokenizer.ggml.eos_token_id", 1)
      .Text("tokenizer.chat_template", "{{ messages[0].content }}");
  const auto matrix = [&](const std::string& name, uint64_t rows, uint64_t columns) {
    std::string blocks;
    for (uint64_t block = 0; block < rows * columns / 32; ++block) {
      blocks += std::string("\x00\x2c", 2);  // the scale 1/16
      for (int i = 0; i < 32; ++i) blocks += static_cast<char>((block + i) % 17);
    }
    maker.Tensor(name, {rows, columns}, 8, blocks);
  };
  matrix("token_embd.weight", tokens.size(), kHidden);
  maker.Floats("output_norm.weight", {kHidden}, std::vector<float>(kHidden, 1));
  maker.Floats("blk.0.attn_norm.weight", {kHidden}, std::vector<float>(kHidden, 1));
  maker.Floats("blk.0.ffn_norm.weight", {kHidden}, std::vector<float>(kHidden, 1));
  matrix("blk.0.attn_q.weight", kHidden, kHidden);
  matrix("blk.0.attn_k.weight", kHidden / 2, kHidden);
  matrix("blk.0.attn_v.weight", kHidden / 2, kHidden);
  matrix("blk.0.attn_output.weight", kHidden, kHidden);
  matrix("blk.0.ffn_gate.weight", kInner, kHidden);
  matrix("blk.0.ffn_up.weight", kInner, kHidden);
  matrix("blk.0.ffn_down.weight", kHidden, kInner);
  return maker;
}

TEST_F(ConvertGgufTest, MakesAFolderThatLoads) {
  Model().Write(dir_ + "/m.gguf");
  for (const char* dtype : {"fp32", "bf16"}) {
    const std::string out = dir_ + "/" + dtype;
    const auto said = ConvertGguf(dir_ + "/m.gguf", out, dtype);
    ASSERT_TRUE(said.ok()) << said.status();
    EXPECT_EQ(*base::Find(*said, "family"), base::json::value("llama"));
    EXPECT_EQ(*base::Find(*base::Find(*said, "tensors"), "Q8_0"), base::json::value(8));
    const auto folder = model::LoadModelDir(out);
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ(folder->config.torch_dtype, dtype == std::string("fp32") ? "float32" : "bfloat16");
    EXPECT_EQ(folder->config.eos_token_ids, std::vector<int64_t>{1});
    const at::Tensor up = folder->parameters.at("model.layers.0.mlp.up_proj.weight");
    EXPECT_EQ(up[1][2].item<float>(), 3.0F / 16) << dtype;  // block 1, value 2
    const auto tokenizer = text::LoadTokenizer(out);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->Encode("<|end|>", true), std::vector<int32_t>{1});
    EXPECT_TRUE(std::filesystem::exists(out + "/chat_template.jinja"));
  }
}

TEST_F(ConvertGgufTest, KeepsTheTemplateForTools) {
  Model()
      .Text("tokenizer.chat_template.tool_use", "tools: {{ tools }}")
      .Texts("tokenizer.chat_templates", {"tool_use"})
      .Write(dir_ + "/m.gguf");
  ASSERT_TRUE(ConvertGguf(dir_ + "/m.gguf", dir_ + "/out", "fp32").ok());
  const auto templates = text::ChatTemplate::Load(dir_ + "/out");
  ASSERT_TRUE(templates.ok()) << templates.status();
  const base::json::object message{{"role", "user"}, {"content", "hi"}};
  EXPECT_EQ((*templates)->RenderJson({{"messages", base::json::array{message}}})->text, "hi");
  EXPECT_EQ((*templates)->RenderJson({{"messages", base::json::array{message}}, {"tools", base::json::array{1}}})->text,
            "tools: [1]");
  Model().Text("tokenizer.chat_template.../x", "x").Write(dir_ + "/bad.gguf");
  EXPECT_THAT(std::string(ConvertGguf(dir_ + "/bad.gguf", dir_ + "/bad", "fp32").status().message()),
              HasSubstr("has a name that cannot be a file name"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/bad"));
}

TEST_F(ConvertGgufTest, LeavesNothingBehindIfTheFileIsRejected) {
  std::string bytes = Model().Bytes();
  std::ofstream(dir_ + "/cut.gguf", std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  const auto cut = ConvertGguf(dir_ + "/cut.gguf", dir_ + "/out", "fp32");
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("is the file truncated?"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/out"));
  EXPECT_THAT(std::string(ConvertGguf(dir_ + "/cut.gguf", dir_ + "/out", "int4").status().message()),
              HasSubstr("--dtype int4: it must be fp32 or bf16"));
}

// Whatever a byte before the data says, the conversion makes a folder or names the file in an error.
TEST_F(ConvertGgufTest, DamagedFilesAreConvertedOrRejectedInWords) {
  const std::string good = Model().Bytes(), path = dir_ + "/damaged.gguf";
  const size_t header = good.find("blk.0.ffn_down.weight") + 64;
  std::mt19937 random(7);
  int rejected = 0;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    bytes[random() % header] = static_cast<char>(random());
    if (round % 4 == 0) bytes.resize(random() % bytes.size());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const std::string out = absl::StrCat(dir_, "/out", round);
    const auto said = ConvertGguf(path, out, "fp32");
    if (said.ok()) {
      EXPECT_TRUE(model::LoadModelDir(out).ok()) << round;
      continue;
    }
    ++rejected;
    EXPECT_THAT(std::string(said.status().message()), HasSubstr(path)) << round;
    EXPECT_FALSE(std::filesystem::exists(out + "/config.json")) << round;
  }
  EXPECT_GT(rejected, 100);
  EXPECT_LT(rejected, 300);
}

TEST_F(ConvertGgufTest, ReplacesNoModel) {
  Model().Write(dir_ + "/m.gguf");
  ASSERT_TRUE(ConvertGguf(dir_ + "/m.gguf", dir_ + "/out", "fp32").ok());
  EXPECT_EQ(ConvertGguf(dir_ + "/m.gguf", dir_ + "/out", "fp32").status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace ingot::app
