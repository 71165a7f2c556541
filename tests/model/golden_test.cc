// Models written by `transformers` (make_goldens.py) give its logits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "model/plain_model.h"
#include "model/sequence_attention.h"
#include "model/transformer.h"

namespace ingot::model {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

at::Tensor Ids(const base::json::value& list) {
  std::vector<int64_t> ids;
  for (const auto& id : list.as_array()) ids.push_back(id.to_number<int64_t>());
  return at::tensor(ids, at::kLong);
}

// The folder of a case. Where its weights are text, a copy with model.safetensors.
std::string FolderOf(const std::string& name) {
  const std::string dir = std::string(INGOT_SOURCE_DIR "/tests/model/testdata/") + name;
  const std::string text = ReadFile(dir + "/weights.json");
  if (text.empty()) return dir;
  const std::string copy = ::testing::TempDir() + "/golden_" + name + "_" + std::to_string(getpid());
  std::filesystem::create_directories(copy);
  std::map<std::string, at::Tensor> tensors;
  const auto weights = base::ParseJson(text);
  for (const auto& [key, value] : weights->as_object()) {
    std::vector<int64_t> shape;
    for (const auto& extent : value.at(0).as_array()) shape.push_back(extent.to_number<int64_t>());
    std::vector<float> numbers;
    for (const auto& number : value.at(1).as_array()) numbers.push_back(number.to_number<float>() / 1024);
    tensors[std::string(key)] = at::tensor(numbers, at::kFloat).view(shape);
  }
  EXPECT_TRUE(SaveSafetensors(copy + "/model.safetensors", tensors, {}).ok());
  std::filesystem::copy_file(dir + "/config.json", copy + "/config.json",
                             std::filesystem::copy_options::overwrite_existing);
  return copy;
}

at::Tensor LogitsOf(const ModelFolder& folder, const base::json::value& golden) {
  const auto model = Transformer::Create(folder.config, folder.parameters);
  EXPECT_TRUE(model.ok()) << model.status();
  SequenceAttention attention;
  const at::Tensor hidden = model->Hidden(Ids(golden.at("token_ids")), Ids(golden.at("positions")), attention);
  return model->Logits(hidden.index_select(0, Ids(golden.at("rows"))));
}

class Golden : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Golden,
                         ::testing::Values("qwen3", "qwen3_bias", "qwen2", "llama", "mistral", "llama_llama3",
                                           "qwen2_yarn", "qwen3_yarn_scaled", "mistral_linear", "mistral_window",
                                           "llama_dynamic", "gemma3", "qwen3_moe", "glm4_moe", "minimax_m2", "gpt_oss",
                                           "deepseek_v3"));

TEST_P(Golden, LogitsEqualTransformers) {
  const std::string dir = std::string(INGOT_SOURCE_DIR "/tests/model/testdata/") + GetParam();
  const auto loaded = LoadModelDir(FolderOf(GetParam()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto golden = base::ParseJson(ReadFile(dir + "/golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status();
  const at::Tensor logits = LogitsOf(*loaded, *golden);
  double largest = 0;
  for (int64_t r = 0; r < logits.size(0); ++r) {
    const auto& want = golden->at("logits").at(r).as_array();
    ASSERT_EQ(static_cast<int64_t>(want.size()), logits.size(1));
    for (int64_t i = 0; i < logits.size(1); ++i) {
      largest = std::max(largest, std::abs(logits[r][i].item<double>() - want[i].to_number<double>()));
    }
  }
  RecordProperty("largest_difference", std::to_string(largest));
  EXPECT_LT(largest, 1e-5);
  EXPECT_GT(logits.abs().max().item<double>(), 0.1);
}

TEST_P(Golden, ASavedFolderHasTheNamesShapesAndLogitsOfTheFirst) {
  const std::string dir = FolderOf(GetParam()), again = ::testing::TempDir() + "/again_" + GetParam();
  const auto loaded = LoadModelDir(dir);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(SaveModelDir(again, loaded->config, loaded->parameters).ok());
  const auto before = LoadSafetensors(dir + "/model.safetensors"),
             after = LoadSafetensors(again + "/model.safetensors");
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(after->size(), before->size());
  for (const auto& [name, tensor] : *after) {
    ASSERT_TRUE(before->contains(name)) << name;
    EXPECT_TRUE(at::equal(tensor, before->at(name))) << name;
  }
  const auto second = LoadModelDir(again);
  ASSERT_TRUE(second.ok()) << second.status();
  const auto golden =
      base::ParseJson(ReadFile(std::string(INGOT_SOURCE_DIR "/tests/model/testdata/") + GetParam() + "/golden.json"));
  EXPECT_TRUE(at::equal(LogitsOf(*second, *golden), LogitsOf(*loaded, *golden)));
}

}  // namespace
}  // namespace ingot::model
