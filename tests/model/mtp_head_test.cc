// Prediction layers: logits of two depths equal transformers' MtpModel (make_mtp_goldens.py), files are read and written
// under the published names, and what is not such a file is named.
#include "model/mtp_head.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "model/goldens.h"
#include "model/sequence_attention.h"

namespace ingot::model {
namespace {

using testing::FolderOf;
using testing::GoldenData;
using ::testing::HasSubstr;
using testing::ReadFile;

std::vector<int64_t> Numbers(const base::json::value& list) {
  std::vector<int64_t> numbers;
  for (const auto& number : list.as_array()) numbers.push_back(number.to_number<int64_t>());
  return numbers;
}

// A golden model's folder with its prediction layers, which are in the weights file like a published model's.
class MtpFolder {
 public:
  explicit MtpFolder(const std::string& name)
      : dir_(::testing::TempDir() + "/mtp_" + name + "_" + std::to_string(getpid())) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    const std::string plain = FolderOf(name), layers = dir_ + "/layers";
    std::filesystem::copy_file(plain + "/config.json", path("config.json"));
    tensors = *LoadSafetensors(plain + "/model.safetensors");
    testing::WriteTensors(layers, ReadFile(GoldenData(name) + "/mtp.json"));
    published = *LoadSafetensors(layers);
    tensors.insert(published.begin(), published.end());
    Promise(2);
    Save();
  }
  ~MtpFolder() { std::filesystem::remove_all(dir_); }

  const std::string& dir() const { return dir_; }
  std::string path(const std::string& file) const { return dir_ + "/" + file; }
  void Save() const { EXPECT_EQ(SaveSafetensors(path("model.safetensors"), tensors, {}), absl::OkStatus()); }
  // Sets the number of layers in config.json; -1 = removes the key.
  void Promise(int64_t layers) const {
    base::json::value json = *base::ParseJson(ReadFile(path("config.json")));
    for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers"}) {
      json.get_object().erase(key);
      if (layers >= 0) json.get_object()[key] = layers;
    }
    EXPECT_EQ(base::ReplaceFile(path("config.json"), base::PrintJson(json)), absl::OkStatus());
  }
  ModelFolder Load() const { return *LoadModelDir(dir_); }
  absl::StatusOr<MtpTensors> Read() const { return ReadMtpHead(dir_, *ModelConfig::FromFile(path("config.json"))); }

  std::map<std::string, at::Tensor> tensors;
  MtpTensors published;

 private:
  const std::string dir_;
};

// Returns the layers' logits with the given ids and the policy's hidden states, one tensor per layer.
std::vector<at::Tensor> LogitsOf(const MtpHead& head, const Transformer& policy, const at::Tensor& ids) {
  const at::Tensor positions = at::arange(ids.size(0), at::kLong);
  SequenceAttention of_policy;
  at::Tensor state = policy.Hidden(ids, positions, of_policy);
  std::vector<at::Tensor> logits;
  for (int64_t layer = 0; layer < head.layers(); ++layer) {
    SequenceAttention attention;
    const int64_t first = layer + 1, rows = ids.size(0) - first;
    state = head.Hidden(layer, state.narrow(0, 0, rows), ids.narrow(0, first, rows), positions.narrow(0, first, rows),
                        attention);
    logits.push_back(head.Logits(state));
  }
  return logits;
}

class Mtp : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Mtp, ::testing::Values("deepseek_v3", "glm4_moe", "qwen3_next"));

TEST_P(Mtp, LogitsOfTwoDepthsEqualTransformers) {
  const MtpFolder folder(GetParam());
  const ModelFolder model = folder.Load();
  const Transformer policy = *Transformer::Create(model.config, model.parameters);
  const absl::StatusOr<MtpTensors> tensors = folder.Read();
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const absl::StatusOr<MtpHead> head = MtpHead::Create(*tensors, policy);
  ASSERT_TRUE(head.ok()) << head.status();
  const base::json::value golden = *base::ParseJson(ReadFile(GoldenData(GetParam()) + "/mtp_golden.json"));
  const auto logits = LogitsOf(*head, policy, at::tensor(Numbers(golden.at("token_ids")), at::kLong));
  ASSERT_EQ(logits.size(), 2u);
  for (size_t depth = 0; depth < 2; ++depth) {
    double largest = 0;
    const std::vector<int64_t> rows = Numbers(golden.at("rows"));
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto& want = golden.at("depths").at(depth).at(r).as_array();
      ASSERT_EQ(static_cast<int64_t>(want.size()), logits[depth].size(1));
      for (size_t i = 0; i < want.size(); ++i) {
        const double got = logits[depth][rows[r]][static_cast<int64_t>(i)].item<double>();
        largest = std::max(largest, std::abs(got - want[i].to_number<double>()));
      }
    }
    EXPECT_LT(largest, 1e-5) << "depth " << depth + 1;
    EXPECT_GT(logits[depth].abs().max().item<double>(), 0.1);
  }
}

TEST_P(Mtp, TensorsAreSavedAsTheyWereRead) {
  MtpFolder folder(GetParam());
  const MtpTensors read = *folder.Read();
  ASSERT_EQ(read.size(), folder.published.size());
  const ModelFolder model = folder.Load();
  const std::string again = folder.path("again");
  Parameters all = model.parameters;
  for (const auto& [name, tensor] : read) all.tensors()[name] = tensor;
  ASSERT_EQ(SaveModelDir(again, model.config, all), absl::OkStatus());
  ASSERT_EQ(AddMtpToConfig(again, model.config, read), absl::OkStatus());
  const absl::StatusOr<MtpTensors> reread = ReadMtpHead(again, model.config);
  ASSERT_TRUE(reread.ok()) << reread.status();
  ASSERT_EQ(reread->size(), read.size());
  for (const auto& [name, tensor] : folder.published) EXPECT_TRUE(at::equal(tensor, reread->at(name))) << name;
  EXPECT_EQ(LoadModelDir(again)->parameters.tensors().size(), model.parameters.tensors().size());
}

TEST_P(Mtp, ARowsBitsDependOnItsAncestorsAlone) {
  const MtpFolder folder(GetParam());
  const ModelFolder model = folder.Load();
  const Transformer policy = *Transformer::Create(model.config, model.parameters);
  const MtpHead head = *MtpHead::Create(*folder.Read(), policy);
  const at::Tensor ids = at::arange(3, 15, at::kLong);
  const auto all = LogitsOf(head, policy, ids), fewer = LogitsOf(head, policy, ids.narrow(0, 0, 7));
  for (size_t depth = 0; depth < 2; ++depth) {
    EXPECT_TRUE(at::equal(all[depth].narrow(0, 0, fewer[depth].size(0)), fewer[depth])) << depth;
  }
}

TEST_P(Mtp, AFolderWithOtherLayersThanPromisedIsRefusedByName) {
  const auto why = [](const MtpFolder& folder) {
    const absl::Status status = folder.Read().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(LoadModelDir(folder.dir()).ok());  // the model itself can be used
    EXPECT_TRUE(ReadMtpHeadOrWarn(folder.dir(), *ModelConfig::FromFile(folder.dir() + "/config.json"))->empty());
    return std::string(status.message());
  };
  MtpFolder folder(GetParam());
  folder.Promise(1);
  EXPECT_THAT(why(folder), HasSubstr("also has tensor"));
  folder.Promise(99);
  EXPECT_THAT(why(folder), HasSubstr("outside 0..16"));
  folder.Promise(2);
  const std::string norm = folder.published.rbegin()->first;  // of the last layer, or shared
  folder.tensors.erase(norm);
  folder.Save();
  EXPECT_THAT(why(folder), HasSubstr(norm));
  folder.tensors[norm] = at::ones({3});
  folder.Save();
  EXPECT_THAT(why(folder),
              HasSubstr("'" + norm + "' of the prediction layers of " + GetParam() + " has another shape"));
  for (const auto& [name, tensor] : folder.published) folder.tensors.erase(name);
  folder.Save();
  const std::string none = why(folder);
  EXPECT_THAT(none, HasSubstr("/config.json promises 2 prediction layers"));
  EXPECT_THAT(none, HasSubstr("model.safetensors has no tensor '"));
  EXPECT_THAT(none, HasSubstr(GetParam()));
  folder.Promise(0);
  EXPECT_TRUE(folder.Read()->empty());
  folder.Promise(-1);
  EXPECT_TRUE(folder.Read()->empty());
}

TEST_P(Mtp, LayersAreFoundWithoutAPromise) {
  const MtpFolder folder(GetParam());
  folder.Promise(-1);
  EXPECT_EQ(folder.Read()->size(), folder.published.size());
}

TEST(MtpTest, UnknownTensorsAreNamed) {
  const MtpFolder folder("glm4_moe");
  const ModelFolder model = folder.Load();
  const Transformer policy = *Transformer::Create(model.config, model.parameters);
  MtpTensors tensors = folder.published;
  tensors["model.layers.2.self_attn.other.weight"] = at::ones({1});
  EXPECT_THAT(std::string(MtpHead::Create(tensors, policy).status().message()), HasSubstr("other.weight"));
  tensors = folder.published;
  tensors["model.layers.9.enorm.weight"] = at::ones({16});  // layers must not have gaps
  EXPECT_THAT(std::string(MtpHead::Create(tensors, policy).status().message()), HasSubstr("layers.9.enorm"));
  EXPECT_EQ(MtpHead::Create({}, policy).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MtpTest, AFamilyWithoutPredictionLayersHasNone) {
  const std::string dir = FolderOf("qwen3");
  const ModelFolder model = *LoadModelDir(dir);
  EXPECT_TRUE(ReadMtpHead(dir, model.config)->empty());
  EXPECT_FALSE(IsMtpTensor(model.config, "model.layers.7.enorm.weight"));
  const Transformer policy = *Transformer::Create(model.config, model.parameters);
  EXPECT_THAT(std::string(MtpHead::Create({}, policy).status().message()), HasSubstr("qwen3"));
}

TEST(MtpTest, CopiesFollowThePolicy) {
  const MtpFolder folder("deepseek_v3");
  const ModelFolder model = folder.Load();
  MtpTensors tensors = folder.published;
  const std::string embedding = "model.layers.3.embed_tokens.weight", head = "model.layers.3.shared_head.head.weight";
  tensors[embedding] = at::zeros({64, 16});
  tensors[head] = at::zeros({64, 16});
  UpdateMtpCopies(model.config, model.parameters, &tensors);
  EXPECT_TRUE(at::equal(tensors.at(embedding), model.parameters.at("model.embed_tokens.weight")));
  EXPECT_TRUE(at::equal(tensors.at(head), model.parameters.at("lm_head.weight")));
  const Transformer policy = *Transformer::Create(model.config, model.parameters);
  EXPECT_TRUE(MtpHead::Create(tensors, policy).ok());
}

// As in a layer-sharded trainer, which keeps a dropped parameter's shape but not its bytes.
TEST(MtpTest, ACopyOfAParameterThatAnotherRankHasIsLeftOut) {
  const MtpFolder folder("deepseek_v3");
  ModelFolder model = folder.Load();
  MtpTensors tensors = folder.published;
  const std::string embedding = "model.layers.3.embed_tokens.weight", head = "model.layers.3.shared_head.head.weight";
  tensors[embedding] = tensors[head] = at::zeros({64, 16});
  at::Tensor dropped = model.parameters.at("lm_head.weight").clone();
  dropped.storage().set_nbytes(0);
  model.parameters.tensors()["lm_head.weight"] = dropped;
  UpdateMtpCopies(model.config, model.parameters, &tensors);
  EXPECT_TRUE(tensors.contains(embedding));
  EXPECT_FALSE(tensors.contains(head));
}

TEST(MtpTest, RandomLayersAreAHead) {
  for (const char* name : {"deepseek_v3", "glm4_moe", "qwen3_next"}) {
    const ModelFolder model = *LoadModelDir(FolderOf(name));
    const Transformer policy = *Transformer::Create(model.config, model.parameters);
    const absl::StatusOr<MtpHead> head = MtpHead::Create(InitMtpHead(model.config, 1, 5, at::kFloat), policy);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_EQ(head->layers(), 1);
  }
}

}  // namespace
}  // namespace ingot::model
