// Adapters that `peft` wrote (make_lora_golden.py) give its logits and its gradients.
#include "model/peft.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "model/goldens.h"
#include "model/plain_model.h"
#include "model/sequence_attention.h"
#include "model/transformer.h"
#include "test_paths.h"

namespace ingot::model {
namespace {

using ::testing::HasSubstr;

const std::string kData = INGOT_SOURCE_DIR "/tests/model/testdata/";

class Peft : public ::testing::Test {
 protected:
  Peft() : dir_(::testing::TempDir() + "/peft_" + std::to_string(getpid())) {
    testing::WriteGoldenAdapter(dir_);
    base_ = *LoadModelDir(kData + "qwen3");
    golden_ = *base::ParseJson(testing::ReadFile(kData + "lora/golden.json"));
    std::vector<int64_t> ids;
    for (const auto& id : golden_.at("token_ids").as_array()) ids.push_back(id.to_number<int64_t>());
    ids_ = at::tensor(ids, at::kLong);
  }
  ~Peft() override { std::filesystem::remove_all(dir_); }

  ModelFolder Adapted() const {
    ModelFolder model = base_;
    const absl::Status added = AddAdapters(dir_, &model);
    EXPECT_TRUE(added.ok()) << added;
    return model;
  }
  at::Tensor LogitsOf(const ModelFolder& folder) const {
    const auto model = Transformer::Create(folder.config, folder.parameters);
    EXPECT_TRUE(model.ok()) << model.status();
    SequenceAttention attention;
    return model->Logits(model->Hidden(ids_, at::arange(ids_.size(0), at::kLong), attention));
  }
  void Edit(const std::string& key, const std::string& json) const {
    base::json::value config = *base::ParseJson(testing::ReadFile(kData + "lora/adapter_config.json"));
    config.as_object()[key] = *base::ParseJson(json);
    std::ofstream(dir_ + "/adapter_config.json") << base::PrintJson(config);
  }

  const std::string dir_;
  ModelFolder base_;
  base::json::value golden_;
  at::Tensor ids_;
};

TEST_F(Peft, AnAdapterOfPeftGivesItsLogits) {
  const at::Tensor logits = LogitsOf(Adapted());
  double largest = 0;
  for (int64_t r = 0; r < logits.size(0); ++r) {
    for (int64_t i = 0; i < logits.size(1); ++i) {
      largest = std::max(largest,
                         std::abs(logits[r][i].item<double>() - golden_.at("logits").at(r).at(i).to_number<double>()));
    }
  }
  EXPECT_LT(largest, 1e-5);
  EXPECT_GT((logits - LogitsOf(base_)).abs().max().item<double>(), 0.1) << "the adapter does something";
}

TEST_F(Peft, GradientsAreThoseOfPeftAndTheBaseGetsNone) {
  ModelFolder folder = Adapted();
  const ModelSpec spec = SpecOf(folder.config);
  for (const auto& [name, tensor] : spec.Tensors())
    folder.parameters.tensors().at(name).requires_grad_(tensor->trained);
  const at::Tensor logits = LogitsOf(folder);
  const int64_t last = ids_.size(0) - 1;
  at::cross_entropy_loss(logits.slice(0, 0, last), ids_.slice(0, 1, last + 1)).backward();
  const auto& gradients = golden_.at("gradients").as_object();
  size_t compared = 0;
  for (const auto& [name, tensor] : folder.parameters.tensors()) {
    const auto* wanted = gradients.if_contains(name);
    ASSERT_EQ(tensor.grad().defined(), wanted != nullptr) << name;
    if (wanted == nullptr) continue;
    const at::Tensor expected = testing::TensorOf(*wanted, 1);
    EXPECT_LT(((tensor.grad() - expected).norm() / expected.norm()).item<double>(), 2e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, gradients.size());
}

TEST_F(Peft, AFoldedAdapterGivesTheSameLogitsToRounding) {
  ModelFolder folder = Adapted();
  const at::Tensor expected = LogitsOf(folder);
  FoldAdapters(&folder);
  EXPECT_EQ(folder.config.lora.rank, 0);
  EXPECT_EQ(folder.parameters.tensors().size(), base_.parameters.tensors().size());
  EXPECT_LT((LogitsOf(folder) - expected).abs().max().item<double>(), 1e-5);
}

TEST_F(Peft, ASavedAdapterIsReadBackEqual) {
  const ModelFolder folder = Adapted();
  const std::string out = dir_ + "/out";
  ASSERT_TRUE(SaveAdapter(out, folder.config, folder.parameters, "qwen3").ok());
  const auto first = LoadAdapter(dir_, base_.config), second = LoadAdapter(out, base_.config);
  ASSERT_TRUE(first.ok() && second.ok()) << second.status();
  EXPECT_EQ(first->lora, second->lora);
  for (const auto& [name, tensor] : first->tensors) EXPECT_TRUE(at::equal(tensor, second->tensors.at(name))) << name;
}

TEST_F(Peft, NewAdaptersComputeTheBase) {
  ModelFolder folder = base_;
  ASSERT_TRUE(AddAdapters({.rank = 4, .alpha = 8, .targets = {"down_proj", "q_proj"}}, 7, &folder).ok());
  EXPECT_TRUE(at::equal(LogitsOf(folder), LogitsOf(base_)));
  EXPECT_EQ(SpecOf(folder.config).trained_elements(),
            2 * (4 * (16 + 32) + 4 * (24 + 16)));  // 2 layers; q 16 -> 32, down 24 -> 16
}

TEST_F(Peft, AModelWithAdaptersIsSavedAndLoadedWhole) {
  const ModelFolder folder = Adapted();
  ASSERT_TRUE(SaveModelDir(dir_ + "/model", folder.config, folder.parameters).ok());
  const auto again = LoadModelDir(dir_ + "/model");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->config.lora, folder.config.lora);
  EXPECT_TRUE(at::equal(LogitsOf(*again), LogitsOf(folder)));
}

TEST_F(Peft, RejectsWhatItCannotCompute) {
  const std::pair<const char*, const char*> cases[] = {{"peft_type", R"("IA3")"},
                                                       {"r", "0"},
                                                       {"bias", R"("all")"},
                                                       {"use_dora", "true"},
                                                       {"modules_to_save", R"(["lm_head"])"},
                                                       {"rank_pattern", R"({"q_proj": 8})"},
                                                       {"fan_in_fan_out", "true"},
                                                       {"lora_bias", "true"},
                                                       {"use_qalora", "true"},
                                                       {"lora_alpha", "0"},
                                                       {"lora_alpha", "-4"},
                                                       {"layers_to_transform", "[0]"},
                                                       {"layers_to_transform", "0"},
                                                       {"layers_to_transform", R"(["0", "1"])"},
                                                       {"init_lora_weights", R"("pissa")"},
                                                       {"init_lora_weights", R"("pissa_niter_4")"},
                                                       {"init_lora_weights", R"("olora")"},
                                                       {"init_lora_weights", R"("OLoRA")"},
                                                       {"init_lora_weights", R"("corda")"},
                                                       {"init_lora_weights", R"("loftq")"},
                                                       {"init_lora_weights", R"("lora_ga")"},
                                                       {"init_lora_weights", "3"},
                                                       {"alora_invocation_tokens", "[5, 6]"},
                                                       {"kasa_config", R"({"x": 1})"},
                                                       {"use_bdlora", R"({"nblocks": 2})"},
                                                       {"arrow_config", R"({"top_k": 3})"},
                                                       {"a_later_kind_of_adapter", R"({"x": 1})"}};
  for (const auto& [key, json] : cases) {
    Edit(key, json);
    const auto adapter = LoadAdapter(dir_, base_.config);
    ASSERT_FALSE(adapter.ok()) << key;
    EXPECT_EQ(adapter.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(adapter.status().message()), HasSubstr(key));
    EXPECT_THAT(std::string(adapter.status().message()), HasSubstr("/adapter_config.json"));
  }
  Edit("r", "3");
  ModelConfig wider = base_.config;
  wider.hidden_size = 32;
  EXPECT_THAT(std::string(LoadAdapter(dir_, wider).status().message()), HasSubstr("another base model"));
}

TEST_F(Peft, TakesKeysThatLeaveTheComputation) {
  const std::pair<const char*, const char*> cases[] = {{"init_lora_weights", "true"},
                                                       {"init_lora_weights", "false"},
                                                       {"init_lora_weights", "null"},
                                                       {"init_lora_weights", R"("gaussian")"},
                                                       {"init_lora_weights", R"("orthogonal")"},
                                                       {"loftq_config", "{}"},
                                                       {"loftq_config", "null"},
                                                       {"loftq_config", R"({"loftq_bits": 4})"},
                                                       {"layers_to_transform", "[1, 0]"},
                                                       {"layers_to_transform", "[]"},
                                                       {"use_qalora", "false"},
                                                       {"qalora_group_size", "16"},
                                                       {"runtime_config", R"({"ephemeral_gpu_offload": false})"},
                                                       {"alora_invocation_tokens", "null"}};
  for (const auto& [key, json] : cases) {
    Edit(key, json);
    const auto adapter = LoadAdapter(dir_, base_.config);
    EXPECT_TRUE(adapter.ok()) << key << " " << json << ": " << adapter.status();
  }
}

TEST_F(Peft, RejectsFactorsOfWholeNumbers) {
  auto tensors = *LoadSafetensors(dir_ + "/adapter_model.safetensors");
  tensors.begin()->second = tensors.begin()->second.to(at::kLong);
  ASSERT_TRUE(SaveSafetensors(dir_ + "/adapter_model.safetensors", tensors, {}).ok());
  const auto adapter = LoadAdapter(dir_, base_.config);
  ASSERT_FALSE(adapter.ok());
  EXPECT_THAT(std::string(adapter.status().message()), HasSubstr("is of type Long"));
}

TEST(PeftExperts, AdaptersOfRoutedExpertsGoThroughAFolder) {
  ModelFolder base = *LoadModelDir(kData + "llama");
  base.config = testing::SmallConfig("qwen3_moe");
  base.config.qk_norm = true;
  base.config.experts.count = 12;
  base.config.experts.per_token = 2;
  base.config.experts.width = 16;
  base.parameters = testing::RandomParameters(base.config, 3, at::kFloat);
  ModelFolder adapted = base;
  ASSERT_EQ(AddAdapters({.rank = 2, .alpha = 6, .targets = {"experts.down_proj", "q_proj"}}, 5, &adapted),
            absl::OkStatus());
  for (auto& [name, tensor] : adapted.parameters.tensors()) {
    if (name.find(".lora_B.") != std::string::npos) tensor = at::randn_like(tensor) * 0.1;
  }
  const std::string dir = ::testing::TempDir() + "/peft_experts_" + std::to_string(getpid());
  ASSERT_EQ(SaveAdapter(dir, adapted.config, adapted.parameters, "base"), absl::OkStatus());
  const base::json::value json = *base::ParseJson(testing::ReadFile(dir + "/adapter_config.json"));
  const std::regex modules(std::string(json.at("target_modules").as_string()));
  const auto names = [&](const std::string& module) { return std::regex_match(module, modules); };
  EXPECT_TRUE(names("model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(names("model.layers.1.mlp.experts.11.down_proj"));
  EXPECT_TRUE(names("model.layers.1.mlp.experts.down_proj")) << "as peft names it where one tensor holds all experts";
  EXPECT_FALSE(names("model.layers.1.mlp.experts.q_proj"));
  EXPECT_FALSE(names("model.layers.1.mlp.experts.11.up_proj"));
  EXPECT_FALSE(names("model.layers.1.mlp.experts.3.q_proj"));
  EXPECT_FALSE(names("model.layers.1.mlp.down_proj"));
  ModelFolder read = base;
  ASSERT_EQ(AddAdapters(dir, &read), absl::OkStatus());
  EXPECT_EQ(read.config.lora, adapted.config.lora);
  for (const auto& [name, tensor] : adapted.parameters.tensors()) {
    EXPECT_TRUE(at::equal(read.parameters.at(name), tensor)) << name;
  }
  const auto logits = [](const ModelFolder& folder) {
    const auto model = *Transformer::Create(folder.config, folder.parameters);
    SequenceAttention attention;
    const at::Tensor ids = testing::RandomIds(folder.config, 20, 1);
    return model.Logits(model.Hidden(ids, at::arange(20, at::kLong), attention));
  };
  const at::Tensor with = logits(read);
  EXPECT_FALSE(at::allclose(with, logits(base), 1e-3, 1e-3));
  FoldAdapters(&read);
  EXPECT_TRUE(at::allclose(logits(read), with, 1e-4, 1e-4));
  std::filesystem::remove_all(dir);
}

TEST(Average, IsTheMeanOfTwoModelsInTheFirstOnesMemoryAndRejectsOthers) {
  ModelFolder a = *LoadModelDir(kData + "qwen3");
  Parameters b;
  for (const auto& [name, tensor] : a.parameters.tensors()) b.tensors()[name] = tensor + 1;
  const at::Tensor before = a.parameters.at("model.norm.weight").clone();
  const void* memory = a.parameters.at("model.norm.weight").const_data_ptr();
  ASSERT_TRUE(AverageInto(&a.parameters, b).ok());
  const at::Tensor after = a.parameters.at("model.norm.weight");
  EXPECT_LT((after - before - 0.5).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(after.const_data_ptr(), memory);
  b.tensors().erase("model.norm.weight");
  EXPECT_THAT(std::string(AverageInto(&a.parameters, b).message()), HasSubstr("model.norm.weight"));
  EXPECT_TRUE(at::equal(a.parameters.at("model.norm.weight"), after)) << "a refused second model leaves the first";
}

}  // namespace
}  // namespace ingot::model
