#include "app/checks/model_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Error(const RunConfig& config, int64_t experts, bool bias = false) {
  model::ModelConfig shape;
  shape.model_type = experts > 0 ? "qwen3_moe" : "qwen3";
  shape.experts.count = experts;
  shape.experts.correction_bias = bias;
  return std::string(CheckModelKeys(config, shape).message());
}

TEST(ModelKeys, KeysOfExpertsNeedAModelThatHasSome) {
  const auto of = [](const std::function<void(RunConfig&)>& set) {
    RunConfig config;
    set(config);
    return config;
  };
  EXPECT_EQ(Error({}, 0), "");
  const std::pair<const char*, RunConfig> keys[] = {
      {"trainer.expert_balance", of([](RunConfig& c) { c.trainer.expert_balance = 0.01; })},
      {"trainer.expert_bias_rate", of([](RunConfig& c) { c.trainer.expert_bias_rate = 0.001; })},
      {"trainer.replay_routes", of([](RunConfig& c) { c.trainer.replay_routes = true; })},
      {"rollout.record_routes", of([](RunConfig& c) { c.rollout.record_routes = true; })}};
  for (const auto& [key, config] : keys) {
    EXPECT_THAT(Error(config, 0), AllOf(HasSubstr(key), HasSubstr("the model (qwen3) has no experts")));
  }
  EXPECT_EQ(Error(keys[0].second, 4), "");
  EXPECT_THAT(Error(keys[1].second, 4), HasSubstr("the routers of qwen3_moe have no bias"));
  EXPECT_EQ(Error(keys[1].second, 4, /*bias=*/true), "");
  EXPECT_THAT(Error(keys[2].second, 4), HasSubstr("set rollout.record_routes too"));
  RunConfig both = keys[2].second;
  both.rollout.record_routes = true;
  EXPECT_EQ(Error(both, 4), "");
}

// A folder with one tensor, of type F64.
std::string FolderOfDoubles() {
  const std::string dir = ::testing::TempDir() + "/doubles_" + std::to_string(getpid());
  std::filesystem::create_directories(dir);
  const std::string header = R"({"model.norm.weight":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  const uint64_t bytes = header.size();
  std::ofstream file(dir + "/model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  file << header << std::string(8, '\0');
  return dir;
}

TEST(ModelKeys, AFolderOfDoublesNeedsATypeToTrainIn) {
  RunConfig config;
  config.model.path = FolderOfDoubles();
  EXPECT_THAT(Error(config, 0), AllOf(HasSubstr("'model.norm.weight' is F64"), HasSubstr("set trainer.dtype to")));
  for (const char* type : {"fp32", "bf16"}) {
    config.trainer.dtype = type;
    EXPECT_EQ(Error(config, 0), "") << type;
  }
  std::filesystem::remove_all(config.model.path);
}

}  // namespace
}  // namespace ingot::app
