// A folder that fits neither its configuration nor the memory is refused by its headers. The files are sparse: they claim
// far more bytes than any machine has.
#include "model/stored_tensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/process_memory.h"
#include "model/peft.h"
#include "model/plain_model.h"

namespace ingot::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Shapes = std::map<std::string, std::vector<int64_t>>;

class Sparse : public ::testing::Test {
 protected:
  Sparse() : dir_(::testing::TempDir() + "/sparse_" + std::to_string(getpid())), path_(dir_ + "/model.safetensors") {
    std::filesystem::create_directories(dir_);
  }
  ~Sparse() override { std::filesystem::remove_all(dir_); }

  // A file of bf16 tensors whose data is a hole. Returns the bytes of the data.
  static int64_t Write(const std::string& path, const Shapes& shapes) {
    base::json::object header;
    int64_t at = 0;
    for (const auto& [name, shape] : shapes) {
      base::json::array sizes;
      int64_t bytes = 2;
      for (const int64_t size : shape) bytes *= size, sizes.emplace_back(size);
      header[name] = base::json::object{
          {"dtype", "BF16"}, {"shape", std::move(sizes)}, {"data_offsets", base::json::array{at, at + bytes}}};
      at += bytes;
    }
    const std::string text = base::PrintJson(header);
    const uint64_t size = text.size();
    std::ofstream(path, std::ios::binary) << std::string(reinterpret_cast<const char*>(&size), 8) << text;
    std::filesystem::resize_file(path, 8 + size + static_cast<uint64_t>(at));
    return at;
  }
  // Loads the folder and returns the error. It comes without the memory of a tensor.
  std::string Rejection(const ModelConfig& config, absl::StatusCode code) {
    EXPECT_EQ(SaveModelConfig(dir_, config), absl::OkStatus());
    base::ResetPeakMemory();
    const int64_t before = base::ResidentMemory();
    const auto loaded = LoadModelDir(dir_);
    EXPECT_EQ(loaded.status().code(), code) << loaded.status();
    EXPECT_LT(base::PeakMemory() - before, int64_t{64} << 20);
    return std::string(loaded.status().message());
  }

  const std::string dir_, path_;
};

ModelConfig Huge() {  // 2^41 bytes of embedding in bf16
  ModelConfig config = testing::SmallConfig("llama");
  config.vocab_size = 1 << 24;
  config.hidden_size = 1 << 16;
  return config;
}

TEST_F(Sparse, AModelBeyondTheMemoryIsRejectedByNameAndNumbers) {
  const ModelConfig config = Huge();
  const int64_t bytes = Write(path_, Parameters::Shapes(config));
  EXPECT_GT(bytes, int64_t{4} << 40);
  EXPECT_THAT(Rejection(config, absl::StatusCode::kResourceExhausted),
              AllOf(HasSubstr(path_ + ": 21 tensors need " + std::to_string(bytes)),
                    HasSubstr("'lm_head.weight' [16777216, 65536] of " + path_ + " 2199023255552 of them"),
                    HasSubstr("are available")));
}

TEST_F(Sparse, TheMemoryThatIsThereDecides) {
  const ModelConfig config = testing::SmallConfig("qwen3");
  const int64_t bytes = Write(path_, Parameters::Shapes(config));
  EXPECT_EQ(CheckModelFile(path_, config, bytes), absl::OkStatus());
  const absl::Status rejected = CheckModelFile(path_, config, bytes - 1);
  EXPECT_EQ(rejected.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(rejected.message()), HasSubstr(std::to_string(bytes - 1) + " are available"));
}

TEST_F(Sparse, NamesAndShapesAreCheckedBeforeTheMemory) {
  const ModelConfig config = testing::SmallConfig("llama");
  const auto error = [&](const std::function<void(Shapes&)>& change) {
    Shapes shapes = Parameters::Shapes(config);
    change(shapes);
    Write(path_, shapes);
    return Rejection(config, absl::StatusCode::kInvalidArgument);
  };
  constexpr int64_t kMany = int64_t{1} << 40;
  EXPECT_THAT(error([](Shapes& s) { s["model.extra"] = {kMany}; }),
              AllOf(HasSubstr(path_), HasSubstr("'model.extra'")));
  EXPECT_THAT(error([](Shapes& s) { s["model.norm.weight"] = {kMany}; }),
              AllOf(HasSubstr(path_), HasSubstr("'model.norm.weight' has shape [1099511627776]"), HasSubstr("[24]")));
  EXPECT_THAT(error([](Shapes& s) {
                s.erase("model.layers.1.mlp.up_proj.weight");
                s["model.embed_tokens.weight"] = {kMany, 4};
              }),
              AllOf(HasSubstr(path_), HasSubstr("'model.embed_tokens.weight' has shape")));
  EXPECT_THAT(error([](Shapes& s) { s.erase("model.layers.1.mlp.up_proj.weight"); }),
              HasSubstr("'model.layers.1.mlp.up_proj.weight' [40, 24] is missing"));
}

TEST_F(Sparse, ATruncatedFileIsRejectedByTheTensorThatItCuts) {
  const ModelConfig config = Huge();
  Write(path_, Parameters::Shapes(config));
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  EXPECT_THAT(Rejection(config, absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr(path_), HasSubstr("'model.norm.weight' lies at"), HasSubstr("truncated")));
}

TEST_F(Sparse, ShardsCountTogether) {
  const ModelConfig config = testing::SmallConfig("llama");
  Shapes halves[2];
  std::map<std::string, std::string> files;
  for (const auto& [name, shape] : Parameters::Shapes(config)) {
    const size_t half = files.size() % 2;
    halves[half][name] = shape;
    files[name] = half == 0 ? "a.safetensors" : "b.safetensors";
  }
  const int64_t bytes = Write(dir_ + "/a.safetensors", halves[0]) + Write(dir_ + "/b.safetensors", halves[1]);
  ASSERT_EQ(SaveWeightsIndex(dir_, files, bytes), absl::OkStatus());
  const std::string index = dir_ + "/" + kWeightsIndex;
  EXPECT_EQ(CheckModelFile(index, config, bytes), absl::OkStatus());
  EXPECT_EQ(CheckModelFile(index, config, bytes - 1).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DescribeSafetensors(index)->files.at("model.norm.weight").substr(dir_.size() + 1),
            files.at("model.norm.weight"));
}

// A family that lays its tensors out anew holds a layer twice.
TEST_F(Sparse, FusedExpertsNeedTheirLayerTwice) {
  ModelConfig config = testing::SmallConfig("gpt_oss");
  config.experts = {
      .count = 3, .per_token = 2, .width = 40, .scoring = "softmax_chosen", .router_bias = true, .bias = true};
  config.attention_bias = config.attention_out_bias = config.sinks = true;
  config.hidden_act = "clamped";
  ASSERT_EQ(config.Validate(), absl::OkStatus());
  ASSERT_EQ(SaveModelDir(dir_, config, testing::RandomParameters(config, 3, at::kFloat)), absl::OkStatus());
  const int64_t bytes = DescribeSafetensors(path_)->bytes;
  EXPECT_EQ(CheckModelFile(path_, config, bytes).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CheckModelFile(path_, config, 3 * bytes), absl::OkStatus());
  EXPECT_TRUE(LoadModelDir(dir_).ok());
}

TEST_F(Sparse, AnAdapterIsRejectedLikewise) {
  ModelConfig base = Huge();
  base.lora = {.rank = 1 << 14, .alpha = 1, .targets = {"down_proj", "gate_proj", "o_proj", "q_proj", "up_proj"}};
  base.intermediate_size = 1 << 22;
  base.num_hidden_layers = 8;
  Shapes shapes;
  const ModelSpec spec = SpecOf(base);
  for (const auto& [name, tensor] : spec.Tensors()) {
    if (tensor->factor != Factor::kNone) shapes["base_model.model." + name] = tensor->shape;
  }
  const std::string path = dir_ + "/adapter_model.safetensors";
  const int64_t bytes = Write(path, shapes);
  EXPECT_GT(bytes, int64_t{3} << 40);
  std::ofstream(dir_ + "/adapter_config.json") << R"({"peft_type": "LORA", "r": 16384, "lora_alpha": 1})";
  base.lora = {};
  const absl::Status rejected = LoadAdapter(dir_, base).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kResourceExhausted) << rejected;
  EXPECT_THAT(std::string(rejected.message()),
              AllOf(HasSubstr(path), HasSubstr(std::to_string(bytes)), HasSubstr("down_proj.lora_A.weight'")));
  base.intermediate_size = 1 << 21;
  EXPECT_THAT(std::string(LoadAdapter(dir_, base).status().message()),
              HasSubstr("the adapter is for another base model"));
}

}  // namespace
}  // namespace ingot::model
