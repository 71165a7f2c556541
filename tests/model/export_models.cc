// model_export DIR: writes one random model per family with SaveModelDir, and a logits.json with token ids and our
// logits beside each. check_export.py compares them with `transformers` (make test-torch).
#include <cstdio>
#include <fstream>

#include "model/plain_model.h"
#include "model/sequence_attention.h"
#include "test_paths.h"

namespace ingot::model {
namespace {

int Export(const std::string& dir, const ModelConfig& config) {
  const Parameters parameters = testing::RandomParameters(config, 11, at::kFloat);
  const auto model = Transformer::Create(config, parameters);
  const absl::Status saved = SaveModelDir(dir, config, parameters);
  if (!model.ok() || !saved.ok()) {
    std::fprintf(stderr, "%s %s\n", model.status().ToString().c_str(), saved.ToString().c_str());
    return 1;
  }
  constexpr int64_t kRows = 100;
  const at::Tensor ids = testing::RandomIds(config, kRows, 12);
  SequenceAttention attention;
  const at::Tensor logits = model->Logits(model->Hidden(ids, at::arange(kRows, at::kLong), attention)).contiguous();
  base::json::array id_list, logit_list;
  for (int64_t i = 0; i < kRows; ++i) id_list.emplace_back(ids.const_data_ptr<int64_t>()[i]);
  for (int64_t i = 0; i < logits.numel(); ++i) logit_list.emplace_back(logits.const_data_ptr<float>()[i]);
  std::ofstream(dir + "/logits.json") << base::PrintJson(
      base::json::object{{"token_ids", std::move(id_list)}, {"logits", std::move(logit_list)}});
  return 0;
}

}  // namespace
}  // namespace ingot::model

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: model_export DIR (an existing folder)\n");
    return 2;
  }
  int failed = 0;
  for (const char* type : {"qwen3", "qwen2", "llama", "mistral"}) {
    failed += ingot::model::Export(std::string(argv[1]) + "/" + type, ingot::model::testing::SmallConfig(type, 4));
  }
  for (const char* rope : {"linear", "llama3", "yarn"}) {
    ingot::model::ModelConfig config = ingot::model::testing::SmallConfig("llama", 4);
    config.rope_scaling.type = rope;
    config.rope_scaling.factor = 4;
    config.rope_scaling.original_positions = 64;
    config.rope_scaling.low_freq_factor = 1;
    config.rope_scaling.high_freq_factor = 4;
    failed += ingot::model::Export(std::string(argv[1]) + "/llama_" + rope, config);
  }
  for (const char* name : {"deepseek_v3", "gemma2", "gemma3", "glm4_moe", "gpt_oss", "llama_dynamic", "minimax_m2",
                           "mistral_window", "qwen3_moe", "qwen3_next"}) {
    const std::string data = std::string(INGOT_SOURCE_DIR "/tests/model/testdata/") + name;
    const auto config = ingot::model::ModelConfig::FromFile(data + "/config.json");
    if (!config.ok()) std::fprintf(stderr, "%s\n", config.status().ToString().c_str());
    failed += !config.ok() || ingot::model::Export(std::string(argv[1]) + "/" + name, *config);
  }
  return failed == 0 ? 0 : 1;
}
