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
#include "test_paths.h"

namespace ingot::model::testing {

// All of them: one per family, and the ropes, windows and biases of some.
inline const char* const kGoldens[] = {
    "qwen3",       "qwen3_bias",        "qwen2",          "llama",           "mistral",         "llama_llama3",
    "qwen2_yarn",  "qwen3_yarn_scaled", "mistral_linear", "mistral_window",  "llama_dynamic",   "gemma2",
    "gemma3",      "gemma3_cap",        "qwen3_moe",      "glm4_moe",        "minimax_m2",      "gpt_oss",
    "deepseek_v3", "qwen3_next",        "llama_mlp_bias", "qwen3_moe_mixed", "qwen3_next_mixed"};

inline std::string GoldenData(const std::string& name) { return INGOT_SOURCE_DIR "/tests/model/testdata/" + name; }

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A tensor written as [[extent, ...], [number, ...]], in units of `unit`.
inline at::Tensor TensorOf(const base::json::value& value, double unit) {
  std::vector<int64_t> shape;
  for (const auto& extent : value.at(0).as_array()) shape.push_back(extent.to_number<int64_t>());
  std::vector<double> numbers;
  for (const auto& number : value.at(1).as_array()) numbers.push_back(number.to_number<double>() * unit);
  return at::tensor(numbers, at::kDouble).view(shape).to(at::kFloat);
}

// Writes FILE.safetensors from the text of tensors in units of 1/1024.
inline void WriteTensors(const std::string& file, const std::string& text) {
  std::map<std::string, at::Tensor> tensors;
  const auto json = base::ParseJson(text);
  for (const auto& [key, value] : json->as_object()) tensors[std::string(key)] = TensorOf(value, 1.0 / 1024);
  EXPECT_TRUE(SaveSafetensors(file, tensors, {}).ok());
}

// The folder of a case. Where its weights are text, a copy with model.safetensors.
inline std::string FolderOf(const std::string& name) {
  const std::string dir = GoldenData(name);
  const std::string text = ReadFile(dir + "/weights.json");
  if (text.empty()) return dir;
  const std::string copy = ::testing::TempDir() + "/golden_" + name + "_" + std::to_string(getpid());
  std::filesystem::create_directories(copy);
  WriteTensors(copy + "/model.safetensors", text);
  std::filesystem::copy_file(dir + "/config.json", copy + "/config.json",
                             std::filesystem::copy_options::overwrite_existing);
  return copy;
}

// Writes the adapter of `peft` (make_lora_golden.py) into a folder. Its base is qwen3.
inline void WriteGoldenAdapter(const std::string& dir) {
  std::filesystem::create_directories(dir);
  std::filesystem::copy_file(GoldenData("lora") + "/adapter_config.json", dir + "/adapter_config.json");
  WriteTensors(dir + "/adapter_model.safetensors", ReadFile(GoldenData("lora") + "/adapter.json"));
}

}  // namespace ingot::model::testing
