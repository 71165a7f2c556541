#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/written_files.h"
#include "model/plain_model.h"
#include "model/served_types.h"

namespace ingot::model {
namespace {

using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  Safetensors() {
    std::string name = (std::filesystem::temp_directory_path() / "safetensors_test.XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
    path_ = dir_ + "/t.safetensors";
  }
  ~Safetensors() override { std::filesystem::remove_all(dir_); }

  void WriteRaw(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  void Write(const std::string& header, const std::string& data) {
    const uint64_t size = header.size();
    WriteRaw(std::string(reinterpret_cast<const char*>(&size), 8) + header + data);
  }
  std::string ReadRaw() {
    std::stringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }

  std::string dir_, path_;
};

std::map<std::string, at::Tensor> Samples() {
  return {{"a", at::randn({3, 5})},
          {"b.weight", at::randn({7}).to(at::kBFloat16)},
          {"c", at::arange(4, at::kLong)},
          {"d", at::randn({2, 2, 2}, at::kDouble)},
          {"empty", at::empty({0, 4})},
          {"half \"quoted\" \xC3\xA9", at::randn({2}).to(at::kHalf)},
          {"mask", at::ones({3}, at::kBool)},
          {"scalar", at::full({}, 2.5)},
          {"transposed", at::randn({3, 2}).t()}};
}

TEST_F(Safetensors, SavedTensorsAreLoadedBitForBit) {
  const auto samples = Samples();
  ASSERT_TRUE(SaveSafetensors(path_, samples, {{"format", "pt"}}).ok());
  const auto loaded = LoadSafetensors(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), samples.size());
  for (const auto& [name, t] : samples) {
    ASSERT_TRUE(loaded->contains(name)) << name;
    EXPECT_EQ(loaded->at(name).scalar_type(), t.scalar_type()) << name;
    EXPECT_TRUE(at::equal(loaded->at(name), t)) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_), {}), 1) << "a temporary file was left";
}

TEST_F(Safetensors, AreReadIntoExistingTensors) {
  const auto samples = Samples();
  ASSERT_TRUE(SaveSafetensors(path_, samples, {}).ok());
  const at::Tensor whole = at::zeros({2, 3, 5});
  // One tensor inside another, one of another type, one that is not contiguous, one that the file lacks.
  std::map<std::string, at::Tensor> into = {{"a", whole[1]},
                                            {"b.weight", at::zeros({7}, at::kDouble)},
                                            {"transposed", at::zeros({3, 2}).t()},
                                            {"empty", at::empty({0, 4})},
                                            {"not there", at::zeros({2})}};
  const auto names = LoadSafetensorsInto(path_, into);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->size(), samples.size());  // all of the file's
  EXPECT_TRUE(names->contains("mask") && !names->contains("not there"));
  EXPECT_TRUE(at::equal(whole[1], samples.at("a")));
  EXPECT_EQ(whole[0].abs().sum().item<float>(), 0);
  EXPECT_TRUE(at::equal(into.at("b.weight"), samples.at("b.weight").to(at::kDouble)));
  EXPECT_TRUE(at::equal(into.at("transposed"), samples.at("transposed")));
  EXPECT_EQ(into.at("not there").sum().item<float>(), 0);

  const auto rejected = LoadSafetensorsInto(path_, {{"a", at::zeros({5, 3})}});
  EXPECT_EQ(rejected.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rejected.status().message()), ::testing::AllOf(HasSubstr(path_), HasSubstr("'a'")));
}

TEST_F(Safetensors, SavingOverAFileReplacesItWhole) {
  ASSERT_TRUE(SaveSafetensors(path_, {{"x", at::ones({1000})}}, {}).ok());
  ASSERT_TRUE(SaveSafetensors(path_, {{"y", at::ones({2})}}, {}).ok());
  const auto loaded = LoadSafetensors(path_);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->contains("y") && loaded->size() == 1);
}

TEST_F(Safetensors, RejectsMalformedFilesByName) {
  const auto rejects = [&](const std::string& header, const std::string& data, const char* why) {
    Write(header, data);
    const auto loaded = LoadSafetensors(path_);
    ASSERT_FALSE(loaded.ok()) << header;
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(why)) << header;
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(path_));
  };
  const std::string four(4, 'x'), eight(8, 'x');
  rejects("", "", "JSON");
  rejects("[]", "", "object");
  rejects(R"({"a": 3})", "", "dtype");
  rejects(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})", four, "JSON");
  rejects(R"({"a": {"dtype": "F31", "shape": [1], "data_offsets": [0, 4]}})", four, "F31");
  rejects(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", four, "holds 4 bytes");
  rejects(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", four, "truncated");
  rejects(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", four, "truncated");
  rejects(R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", four, "whole number");
  rejects(R"({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}})", four, "whole number");
  rejects(R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 4]}})", four, "overflow");
  rejects(R"({"a": {"dtype": "F32", "shape": [0, 18446744073709551615], "data_offsets": [0, 0]}})", "", "overflow");
  rejects(R"({"a": {"dtype": "F32", "shape": [0, 4611686018427387904, 4], "data_offsets": [0, 0]}})", "", "overflow");
  rejects(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}})", four, "data_offsets");
  rejects(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, "4"]}})", four, "data_offsets");
  rejects(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", eight, "belong to no tensor");
  rejects(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", eight, "gap");
  rejects(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
              "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
          eight, "overlap");
  const std::string word(70'000, 'w');
  for (const std::string& header :
       {R"({")" + word + R"(": 3})", R"({"a": {"dtype": ")" + word + R"(", "shape": [1]}})"}) {
    Write(header, four);
    const absl::Status status = LoadSafetensors(path_).status();
    EXPECT_FALSE(status.ok());
    EXPECT_LE(status.message().size(), 1200u);
  }
  WriteRaw("");
  EXPECT_THAT(std::string(LoadSafetensors(path_).status().message()), HasSubstr("0 bytes"));
  WriteRaw(std::string(8, '\xff'));
  EXPECT_THAT(std::string(LoadSafetensors(path_).status().message()), HasSubstr("header claims"));
  EXPECT_EQ(LoadSafetensors(dir_ + "/absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(LoadSafetensors(dir_).ok());
  EXPECT_FALSE(SaveSafetensors(dir_ + "/no/such/folder", {}, {}).ok());
}

// Every prefix of a file, and random changes of its header's bytes and digits. Each gives an error or a load, never a
// crash.
TEST_F(Safetensors, SurvivesTruncatedAndMutatedFiles) {
  ASSERT_TRUE(SaveSafetensors(path_, Samples(), {{"format", "pt"}}).ok());
  const std::string good = ReadRaw();
  for (size_t size = 0; size < good.size(); size += size < 64 ? 1 : 13) {
    WriteRaw(good.substr(0, size));
    EXPECT_FALSE(LoadSafetensors(path_).ok()) << size;
  }
  uint64_t header_bytes;
  std::memcpy(&header_bytes, good.data(), 8);
  std::mt19937_64 rng(1);
  const std::string alphabet = "0123456789-.eE[]{}\",: \\u\0nF\xff";
  int rejected = 0;
  for (int i = 0; i < 800; ++i) {
    std::string bad = good;
    for (uint64_t n = rng() % 4 + 1; n > 0; --n) {
      const size_t at = rng() % (header_bytes + 8);
      bad[at] = at < 8 ? static_cast<char>(rng()) : alphabet[rng() % alphabet.size()];
    }
    WriteRaw(bad);
    rejected += !LoadSafetensors(path_).ok();
  }
  EXPECT_GT(rejected, 300);
}

TEST_F(Safetensors, ModelFolderRoundTripsAndShardsAreGathered) {
  const ModelConfig config = testing::SmallConfig("qwen3");
  const Parameters parameters = testing::RandomParameters(config, 3, at::kFloat);
  const std::string folder = dir_ + "/model";
  ASSERT_TRUE(SaveModelDir(folder, config, parameters).ok());
  const auto loaded = LoadModelDir(folder);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(base::PrintJson(loaded->config.ToJson()), base::PrintJson(config.ToJson()));
  for (const auto& [name, t] : parameters.tensors()) EXPECT_TRUE(at::equal(t, loaded->parameters.at(name))) << name;

  std::map<std::string, at::Tensor> halves[2];
  base::json::object weight_map;
  int n = 0;
  for (const auto& [name, t] : parameters.tensors()) {
    halves[n % 2][name] = t;
    weight_map[name] = n++ % 2 == 0 ? "m-1.safetensors" : "m-2.safetensors";
  }
  ASSERT_TRUE(SaveSafetensors(folder + "/m-1.safetensors", halves[0], {}).ok());
  ASSERT_TRUE(SaveSafetensors(folder + "/m-2.safetensors", halves[1], {}).ok());
  std::filesystem::remove(folder + "/model.safetensors");
  const auto write_index = [&] {
    std::ofstream(folder + "/model.safetensors.index.json")
        << base::PrintJson(base::json::object{{"weight_map", weight_map}});
  };
  write_index();
  const auto sharded = LoadModelDir(folder);
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  for (const auto& [name, t] : parameters.tensors()) EXPECT_TRUE(at::equal(t, sharded->parameters.at(name))) << name;

  for (const char* wrong : {"../m-1.safetensors", "m-2.safetensors", "m-3.safetensors", ""}) {
    weight_map.begin()->value() = wrong;
    write_index();
    EXPECT_FALSE(LoadModelDir(folder).ok()) << wrong;
  }
}

// A folder in two shards, the second of which has a tensor that the index does not name.
void WriteShards(const std::string& folder) {
  const ModelConfig config = testing::SmallConfig("qwen3");
  std::map<std::string, at::Tensor> halves[2];
  std::map<std::string, std::string> files;
  const auto parameters = testing::RandomParameters(config, 3, at::kFloat);
  for (const auto& [name, tensor] : parameters.tensors()) {
    const int half = static_cast<int>(files.size() % 2);
    halves[half][name] = tensor;
    files[name] = ShardFile("model", half, 2);
  }
  halves[1]["a.more"] = at::ones({3});
  std::filesystem::create_directory(folder);
  for (int i : {0, 1}) {
    ASSERT_TRUE(SaveSafetensors(absl::StrCat(folder, "/", ShardFile("model", i, 2)), halves[i], {}).ok());
  }
  ASSERT_TRUE(SaveWeightsIndex(folder, files, 0).ok());
  ASSERT_TRUE(SaveModelConfig(folder, config).ok());
}

void ExpectDamage(const std::string& folder, const std::string& name, const std::string& how) {
  const absl::Status rejected = LoadModelDir(folder).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kDataLoss) << how << " " << rejected;
  EXPECT_THAT(std::string(rejected.message()), HasSubstr(folder + "/" + name)) << how;
}

TEST_F(Safetensors, DamageToARecordedFolderIsRejectedByName) {
  const std::string folder = dir_ + "/model";
  WriteShards(folder);
  ASSERT_TRUE(base::WriteChecksums(folder).ok());
  ASSERT_TRUE(LoadModelDir(folder).ok()) << LoadModelDir(folder).status();
  const std::string first = ShardFile("model", 0, 2), second = ShardFile("model", 1, 2);
  for (const std::string& name : {first, second, std::string(kWeightsIndex), std::string("config.json")}) {
    path_ = folder + "/" + name;
    const std::string intact = ReadRaw();
    // In a header: its length, a name, a shape; in the data of a tensor that is skipped, and at the end.
    for (const size_t at : {size_t{1}, size_t{12}, size_t{40}, intact.size() / 2, intact.size() - 2}) {
      std::string flipped = intact;
      flipped[at] = static_cast<char>(flipped[at] ^ 4);
      WriteRaw(flipped);
      ExpectDamage(folder, name, absl::StrCat("a bit of byte ", at));
    }
    WriteRaw(intact.substr(0, intact.size() - 4));
    ExpectDamage(folder, name, "cut off");
    WriteRaw(intact);
  }
  std::filesystem::rename(folder + "/" + second, folder + "/aside");
  ExpectDamage(folder, second, "gone");
  std::filesystem::rename(folder + "/" + first, folder + "/" + second);
  std::filesystem::rename(folder + "/aside", folder + "/" + first);
  ExpectDamage(folder, first, "in each other's place");
}

TEST_F(Safetensors, AFolderWithoutARecordIsLoadedAsItIs) {
  const std::string folder = dir_ + "/model";
  WriteShards(folder);
  path_ = folder + "/" + ShardFile("model", 1, 2);
  std::string flipped = ReadRaw();
  flipped[flipped.size() - 2] ^= 4;
  WriteRaw(flipped);
  EXPECT_TRUE(LoadModelDir(folder).ok());
}

TEST_F(Safetensors, AModelThatIsWrittenOverARecordedOneHasNoRecord) {
  const std::string folder = dir_ + "/model";
  const ModelConfig config = testing::SmallConfig("qwen3");
  ASSERT_TRUE(SaveModelDir(folder, config, testing::RandomParameters(config, 3, at::kFloat)).ok());
  ASSERT_TRUE(base::WriteChecksums(folder).ok());
  ASSERT_TRUE(SaveModelDir(folder, config, testing::RandomParameters(config, 4, at::kFloat)).ok());
  EXPECT_TRUE(LoadModelDir(folder).ok()) << LoadModelDir(folder).status();
}

TEST_F(Safetensors, APipeIsRejectedAtOnce) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(std::string(LoadSafetensors(path_).status().message()), HasSubstr("not a regular file"));
  const std::string index = dir_ + "/model.safetensors.index.json";
  ASSERT_EQ(::mkfifo(index.c_str(), 0600), 0);
  EXPECT_THAT(std::string(LoadSafetensors(index).status().message()), HasSubstr("not a regular file"));
}

// As `transformers` does with dtype="auto".
TEST_F(Safetensors, AFolderOfSeveralTypesIsLoadedAsOne) {
  ModelConfig config = testing::SmallConfig("qwen3");
  const Parameters parameters = testing::RandomParameters(config, 3, at::kFloat);
  Parameters mixed = parameters;
  for (auto& [name, t] : mixed.tensors()) {
    if (name.find("norm") == std::string::npos) t = t.to(at::kBFloat16);
  }
  const std::string folder = dir_ + "/model";
  for (const auto& [dtype, type] : {std::pair("bfloat16", at::kBFloat16), std::pair("float32", at::kFloat),
                                    std::pair("float16", at::kBFloat16)}) {  // no tensor is fp16: the embedding's
    config.torch_dtype = dtype;
    ASSERT_EQ(SaveModelDir(folder, config, mixed), absl::OkStatus());
    const auto loaded = LoadModelDir(folder);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    for (const auto& [name, t] : loaded->parameters.tensors()) {
      EXPECT_TRUE(at::equal(t, mixed.at(name).to(type))) << dtype << " " << name;
    }
    EXPECT_TRUE(Transformer::Create(config, loaded->parameters).ok());
  }
}

// Checkpoints of bf16 weights keep the bias of a router in fp32.
TEST_F(Safetensors, ARoutersBiasDecidesNoOtherTensorsType) {
  ModelConfig config = testing::SmallConfig("minimax_m2");
  config.qk_norm = config.qk_norm_whole = true;
  config.experts = {.count = 5, .per_token = 2, .width = 40, .normalize = true, .correction_bias = true};
  config.experts.scoring = "sigmoid";
  config.torch_dtype = "float32";
  Parameters parameters = testing::RandomParameters(config, 3, at::kBFloat16);
  int biases = 0;
  for (auto& [name, t] : parameters.tensors()) {
    if (name.find("e_score_correction_bias") == std::string::npos) continue;
    t = t.to(at::kFloat);
    ++biases;
  }
  EXPECT_GT(biases, 0);
  ASSERT_EQ(SaveModelDir(dir_ + "/model", config, parameters), absl::OkStatus());
  const auto loaded = LoadModelDir(dir_ + "/model");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const auto& [name, t] : loaded->parameters.tensors()) {
    EXPECT_EQ(t.scalar_type(), parameters.at(name).scalar_type()) << name;
  }
}

TEST_F(Safetensors, AFolderOfDoublesIsNotServed) {
  const ModelConfig config = testing::SmallConfig("llama");
  const std::string folder = dir_ + "/model";
  EXPECT_EQ(CheckServedTypes(folder), absl::OkStatus()) << "a folder without weights";
  Parameters parameters = testing::RandomParameters(config, 3, at::kFloat);
  ASSERT_EQ(SaveModelDir(folder, config, parameters), absl::OkStatus());
  EXPECT_EQ(CheckServedTypes(folder), absl::OkStatus());
  at::Tensor& norm = parameters.tensors().at("model.norm.weight");
  norm = norm.to(at::kDouble);
  ASSERT_EQ(SaveModelDir(folder, config, parameters), absl::OkStatus());
  EXPECT_THAT(std::string(CheckServedTypes(folder).message()),
              HasSubstr(folder + "/model.safetensors: tensor 'model.norm.weight' is F64, but engines accept only F32"));
}

TEST(Parameters, NamesTheTensorThatDoesNotFit) {
  const ModelConfig config = testing::SmallConfig("llama");
  const auto error = [&](const std::function<void(std::map<std::string, at::Tensor>&)>& change) {
    auto tensors = Parameters::Init(config, 1, at::kFloat).tensors();
    change(tensors);
    return std::string(Parameters::FromTensors(config, tensors).status().message());
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_THAT(error([](auto& t) { t.erase("lm_head.weight"); }), HasSubstr("lm_head.weight"));
  EXPECT_THAT(error([](auto& t) { t["model.norm.weight"] = at::ones({3}); }), HasSubstr("model.norm.weight"));
  EXPECT_THAT(error([](auto& t) { t["model.extra"] = at::ones({3}); }), HasSubstr("model.extra"));
  EXPECT_THAT(error([](auto& t) { t["model.norm.weight"] = at::ones({24}, at::kInt); }), HasSubstr("floating"));
  EXPECT_EQ(error([](auto& t) { t["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({4}); }), "");
}

TEST(Parameters, NamesTheTensorThatTwoConfigurationsDoNotShare) {
  const ModelConfig config = testing::SmallConfig("llama");
  const auto difference = [&](const std::function<void(ModelConfig&)>& change) {
    ModelConfig other = config;
    change(other);
    return std::string(Parameters::CheckSameShapes(config, other).message());
  };
  EXPECT_EQ(difference([](auto& c) { c.rope_theta *= 2; }), "");
  EXPECT_THAT(difference([](auto& c) { c.vocab_size += 1; }), HasSubstr("lm_head.weight has shape"));
  EXPECT_THAT(difference([](auto& c) { c.num_hidden_layers += 1; }), HasSubstr("does not belong to the model"));
  EXPECT_THAT(difference([](auto& c) { c.num_hidden_layers -= 1; }), HasSubstr("is missing"));
}

TEST(Parameters, ATiedHeadMayBeStoredTwiceIfEqual) {
  const ModelConfig config = testing::SmallConfig("qwen2");
  auto tensors = Parameters::Init(config, 1, at::kFloat).tensors();
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone();
  EXPECT_TRUE(Parameters::FromTensors(config, tensors).ok());
  tensors["lm_head.weight"][0][0] = 9;
  EXPECT_FALSE(Parameters::FromTensors(config, tensors).ok());
}

}  // namespace
}  // namespace ingot::model
