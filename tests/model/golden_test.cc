// Models written by `transformers` (make_goldens.py) give its logits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "model/plain_model.h"
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

class Golden : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Golden,
                         ::testing::Values("qwen3", "qwen3_bias", "qwen2", "llama", "mistral", "llama_llama3",
                                           "qwen2_yarn", "qwen3_yarn_scaled", "mistral_linear"));

TEST_P(Golden, LogitsEqualTransformers) {
  const std::string dir = std::string(INGOT_SOURCE_DIR "/tests/model/testdata/") + GetParam();
  const auto loaded = LoadModelDir(dir);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto golden = base::ParseJson(ReadFile(dir + "/golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status();
  const auto model = Transformer::Create(loaded->config, loaded->parameters);
  ASSERT_TRUE(model.ok()) << model.status();
  testing::PackedAttention attention;
  const at::Tensor hidden = model->Hidden(Ids(golden->at("token_ids")), Ids(golden->at("positions")), attention);
  const at::Tensor logits = model->Logits(hidden.index_select(0, Ids(golden->at("rows"))));
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

}  // namespace
}  // namespace ingot::model
