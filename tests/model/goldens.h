// The golden models of testdata/ (make_goldens.py).
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/parameters.h"

namespace ingot::model::testing {

// All of them: one per family, and the ropes, windows and biases of some.
inline const char* const kGoldens[] = {"qwen3",          "qwen3_bias",     "qwen2",         "llama",
                                       "mistral",        "llama_llama3",   "qwen2_yarn",    "qwen3_yarn_scaled",
                                       "mistral_linear", "mistral_window", "llama_dynamic", "gemma2",
                                       "gemma3",         "gemma3_cap",     "qwen3_moe",     "glm4_moe",
                                       "minimax_m2",     "gpt_oss",        "deepseek_v3"};

inline std::string GoldenData(const std::string& name) { return INGOT_SOURCE_DIR "/tests/model/testdata/" + name; }

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The folder of a case. Where its weights are text, a copy with model.safetensors.
inline std::string FolderOf(const std::string& name) {
  const std::string dir = GoldenData(name);
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

}  // namespace ingot::model::testing
