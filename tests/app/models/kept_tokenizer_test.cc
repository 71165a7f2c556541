#include "app/models/kept_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

class KeptTokenizerTest : public testing::Test {
 protected:
  KeptTokenizerTest() : root_(fs::path(testing::TempDir()) / ("kept_tokenizer_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "run");
    fs::create_directories(model() + "/additional_chat_templates");
    const TextParts parts = MakeTextParts("hermes").value();
    Write("tokenizer.json", parts.files.at("tokenizer.json"));
    Write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
    Write("chat_template.jinja", Template("user"));
    Write("additional_chat_templates/tool_use.jinja", Template("tool"));
    Write("config.json", R"({"eos_token_id": 7})");
  }
  ~KeptTokenizerTest() override { fs::remove_all(root_); }

  static std::string Template(const std::string& word) {
    return "{% for m in messages %}" + word + "{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}" +
           "{% endfor %}";
  }
  std::string model() const { return (root_ / "model").string(); }
  std::string run() const { return (root_ / "run").string(); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(model() + "/" + name) << text; }
  TextParts Keep(const std::string& chat_format) {
    auto text = LoadTextParts(model(), chat_format);
    EXPECT_TRUE(text.ok()) << text.status();
    EXPECT_TRUE(KeepTokenizer(run(), model(), *text).ok());
    return *std::move(text);
  }
  void ExpectKept(const std::string& run_dir, const TextParts& text) {
    const auto kept = KeptTextParts(run_dir);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(kept->tokenizer->fingerprint(), text.tokenizer->fingerprint());
    EXPECT_EQ(kept->format->fingerprint(), text.format->fingerprint());
    EXPECT_EQ(kept->format->end_of_turn_ids(), text.format->end_of_turn_ids());
  }

  const fs::path root_;
};

TEST_F(KeptTokenizerTest, ACopyOfTheRunReadsItsIdsWithoutTheModel) {
  for (const std::string format : {"auto", "template:hermes", "hermes", "compact"}) {
    SCOPED_TRACE(format);
    const TextParts text = Keep(format);
    fs::rename(model(), root_ / "elsewhere");
    fs::copy(run(), root_ / "copy", fs::copy_options::recursive);
    ExpectKept((root_ / "copy").string(), text);
    fs::remove_all(root_ / "copy");
    fs::rename(root_ / "elsewhere", model());
  }
}

TEST_F(KeptTokenizerTest, RandomWeightsKeepTheByteTokenizer) {
  const TextParts text = MakeTextParts("compact").value();
  ASSERT_TRUE(KeepTokenizer(run(), "", text).ok());
  ExpectKept(run(), text);
  EXPECT_EQ(KeptModelPath(run(), ""), "");
}

TEST_F(KeptTokenizerTest, TheNextStartLeavesNothingOfTheOneBefore) {
  Keep("auto");
  EXPECT_TRUE(fs::exists(run() + "/tokenizer/additional_chat_templates/tool_use.jinja"));
  fs::remove_all(model() + "/additional_chat_templates");
  const TextParts text = Keep("auto");
  EXPECT_FALSE(fs::exists(run() + "/tokenizer/additional_chat_templates"));
  ExpectKept(run(), text);
  EXPECT_EQ(std::distance(fs::directory_iterator(run()), fs::directory_iterator()), 1);  // no draft is left
}

TEST_F(KeptTokenizerTest, ADamagedCopyIsRejected) {
  Keep("auto");
  std::ofstream(run() + "/tokenizer/tokenizer.json", std::ios::app) << " ";
  const absl::Status status = KeptTextParts(run()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(KeptTokenizerTest, ARunOfAnEarlierVersionKeepsNone) {
  EXPECT_FALSE(HasKeptTokenizer(run()));
  EXPECT_TRUE(absl::IsNotFound(KeptTextParts(run()).status()));
  EXPECT_EQ(KeptModelPath(run(), "models/a"), "models/a");
}

// `ingot retrain` needs the weights that the run started from.
TEST_F(KeptTokenizerTest, TheModelIsFoundFromAnotherFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  const auto text = LoadTextParts("model", "auto");
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_TRUE(KeepTokenizer("run", "model", *text).ok());
  fs::current_path(before);
  EXPECT_EQ(KeptModelPath(run(), "model"), model());
  fs::remove_all(model());
  EXPECT_EQ(KeptModelPath(run(), "model"), "model");  // the error must name the path that the user wrote
}

}  // namespace
}  // namespace ingot::app
