// Models written by `transformers` (make_goldens.py) give its logits.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>

#include "model/goldens.h"
#include "model/plain_model.h"
#include "model/sequence_attention.h"
#include "model/transformer.h"

namespace ingot::model {
namespace {

using testing::FolderOf;
using ::testing::HasSubstr;
using testing::ReadFile;

at::Tensor Ids(const base::json::value& list) {
  std::vector<int64_t> ids;
  for (const auto& id : list.as_array()) ids.push_back(id.to_number<int64_t>());
  return at::tensor(ids, at::kLong);
}

at::Tensor LogitsOf(const ModelFolder& folder, const base::json::value& golden) {
  const auto model = Transformer::Create(folder.config, folder.parameters);
  EXPECT_TRUE(model.ok()) << model.status();
  SequenceAttention attention;
  const at::Tensor hidden = model->Hidden(Ids(golden.at("token_ids")), Ids(golden.at("positions")), attention);
  return model->Logits(hidden.index_select(0, Ids(golden.at("rows"))));
}

// MXFP4 by its definition (OCP Microscaling Formats 1.0, E2M1 and E8M0): sign, two bits of exponent with bias 1, one of
// mantissa, times a power of two.
float Mxfp4(int code, int scale) {
  const int exponent = (code >> 1) & 3, mantissa = code & 1;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -1) : std::ldexp(1 + mantissa / 2.0, exponent - 1);
  return static_cast<float>(std::ldexp((code & 8) != 0 ? -magnitude : magnitude, scale - 127));
}

ModelConfig Mxfp4Config() {
  ModelConfig config = testing::SmallConfig("gpt_oss");
  config.hidden_size = 64;
  config.intermediate_size = config.experts.width = 32;
  config.experts.count = 3;
  config.experts.per_token = 2;
  config.experts.scoring = "softmax_chosen";
  config.experts.router_bias = config.experts.bias = true;
  config.attention_bias = config.attention_out_bias = config.sinks = true;
  config.hidden_act = "clamped";
  return config;
}

// The experts of gpt-oss's own files: [experts, out, in / 32, 16] blocks, the low half of a byte first. gate_up_proj has
// gate and up in turns.
class Mxfp4Folder {
 public:
  Mxfp4Folder() : dir_(::testing::TempDir() + "/mxfp4_" + std::to_string(getpid())) {
    const Parameters parameters = testing::RandomParameters(config, 3, at::kBFloat16);
    EXPECT_EQ(SaveModelDir(dir_, config, parameters), absl::OkStatus());
    tensors = *LoadSafetensors(dir_ + "/model.safetensors");
    at::manual_seed(4);
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      Pack(layer, "gate_up_proj", 2 * config.experts.width, config.hidden_size);
      Pack(layer, "down_proj", config.hidden_size, config.experts.width);
    }
  }
  ~Mxfp4Folder() { std::filesystem::remove_all(dir_); }

  absl::StatusOr<ModelFolder> Load() {
    EXPECT_EQ(SaveSafetensors(dir_ + "/model.safetensors", tensors, {}), absl::OkStatus());
    return LoadModelDir(dir_);
  }
  static std::string Name(int64_t layer, const std::string& what) {
    return "model.layers." + std::to_string(layer) + ".mlp.experts." + what;
  }
  // Number `in` of row `out` of an expert.
  float At(int64_t layer, const std::string& what, int64_t expert, int64_t out, int64_t in) const {
    const at::Tensor blocks = tensors.at(Name(layer, what) + "_blocks"),
                     scales = tensors.at(Name(layer, what) + "_scales");
    const int byte = blocks[expert][out][in / 32][in % 32 / 2].item<int>();
    return Mxfp4(in % 2 == 0 ? byte & 15 : byte >> 4, scales[expert][out][in / 32].item<int>());
  }

  const ModelConfig config = Mxfp4Config();
  std::map<std::string, at::Tensor> tensors;

 private:
  void Pack(int64_t layer, const std::string& what, int64_t out, int64_t in) {
    tensors.erase(Name(layer, what));
    tensors[Name(layer, what) + "_blocks"] = at::randint(0, 256, {config.experts.count, out, in / 32, 16}, at::kByte);
    tensors[Name(layer, what) + "_scales"] = at::randint(118, 126, {config.experts.count, out, in / 32}, at::kByte);
  }
  const std::string dir_;
};

TEST(Mxfp4, ExpertsAreDecodedByTheFormatsDefinition) {
  Mxfp4Folder folder;
  const auto loaded = folder.Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (int64_t e = 0; e < folder.config.experts.count; ++e) {
      const std::string prefix = Mxfp4Folder::Name(layer, std::to_string(e) + ".");
      const at::Tensor gate = loaded->parameters.at(prefix + "gate_proj.weight"),
                       up = loaded->parameters.at(prefix + "up_proj.weight"),
                       down = loaded->parameters.at(prefix + "down_proj.weight");
      for (int64_t out = 0; out < gate.size(0); ++out) {
        for (int64_t in = 0; in < gate.size(1); ++in) {
          ASSERT_EQ(gate[out][in].item<float>(), folder.At(layer, "gate_up_proj", e, 2 * out, in)) << out << " " << in;
          ASSERT_EQ(up[out][in].item<float>(), folder.At(layer, "gate_up_proj", e, 2 * out + 1, in))
              << out << " " << in;
          ASSERT_EQ(down[in][out].item<float>(), folder.At(layer, "down_proj", e, in, out)) << out << " " << in;
        }
      }
    }
  }
}

TEST(Mxfp4, BlocksThatDoNotFitAreRejectedByName) {
  const auto fault = [](const std::function<void(std::map<std::string, at::Tensor>&)>& spoil) {
    Mxfp4Folder folder;
    spoil(folder.tensors);
    const auto loaded = folder.Load();
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(loaded.status().message());
  };
  const std::string up = Mxfp4Folder::Name(1, "gate_up_proj");
  EXPECT_THAT(fault([&](auto& t) { t.erase(up + "_scales"); }), HasSubstr("of layer 1"));
  EXPECT_THAT(fault([&](auto& t) { t[up + "_scales"] = t[up + "_scales"].slice(1, 1); }), HasSubstr("of layer 1"));
  EXPECT_THAT(fault([&](auto& t) { t[up + "_blocks"] = t[up + "_blocks"].slice(0, 1); }), HasSubstr("3 experts"));
  EXPECT_THAT(fault([&](auto& t) { t[up + "_blocks"] = t[up + "_blocks"].to(at::kFloat); }), HasSubstr("of layer 1"));
}

class Golden : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Golden, ::testing::ValuesIn(testing::kGoldens));

TEST_P(Golden, LogitsEqualTransformers) {
  const std::string dir = testing::GoldenData(GetParam());
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
  std::cout << GetParam() << ": logits up to " << logits.abs().max().item<double>() << ", largest difference "
            << largest << "\n";
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
  const auto golden = base::ParseJson(ReadFile(testing::GoldenData(GetParam()) + "/golden.json"));
  EXPECT_TRUE(at::equal(LogitsOf(*second, *golden), LogitsOf(*loaded, *golden)));
}

}  // namespace
}  // namespace ingot::model
