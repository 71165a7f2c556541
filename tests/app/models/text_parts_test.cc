#include "app/models/text_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/written_files.h"
#include "text/output/output_format.h"

namespace ingot::app {
namespace {

using testing::HasSubstr;

// A ChatML template that writes calls as Hermes does.
constexpr char kTemplate[] =
    "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content }}{% for c in m.tool_calls %}"
    "{{ '<tool_call>\\n{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' ~ c.function.arguments | tojson ~ "
    "'}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}";

class TextPartsTest : public testing::Test {
 protected:
  TextPartsTest() : dir_(std::filesystem::path(testing::TempDir()) / ("text_parts_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    const TextParts parts = MakeTextParts("auto").value();
    for (const auto& [name, text] : parts.files) Write(name, text);
  }
  ~TextPartsTest() override { std::filesystem::remove_all(dir_); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name) << text; }
  void WriteTemplate() {
    Write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
    Write("chat_template.jinja", kTemplate);
  }
  std::string Fingerprint(const std::string& chat_format) {
    const auto parts = LoadTextParts(dir_, chat_format);
    EXPECT_TRUE(parts.ok()) << parts.status();
    return parts.ok() ? parts->format->fingerprint() : "";
  }
  const std::filesystem::path dir_;
};

TEST_F(TextPartsTest, RandomWeightsUseHermesByDefault) {
  EXPECT_EQ(MakeTextParts("auto")->format->fingerprint(), MakeTextParts("hermes")->format->fingerprint());
  EXPECT_NE(MakeTextParts("auto")->format->fingerprint(), MakeTextParts("compact")->format->fingerprint());
  EXPECT_EQ(MakeTextParts("auto")->files.at("ingot.json"), "{\"chat_format\":\"hermes\"}\n");
  EXPECT_EQ(MakeTextParts("template").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TextPartsTest, AFolderWhoseTextsDifferFromItsRecordIsRejected) {
  WriteTemplate();
  Write("config.json", "{}");
  ASSERT_TRUE(base::WriteChecksums(dir_.string()).ok());
  ASSERT_TRUE(LoadTextParts(dir_.string(), "auto").ok());
  for (const std::string name : {"tokenizer.json", "chat_template.jinja", "ingot.json", "config.json"}) {
    const std::string intact = base::ReadFile((dir_ / name).string()).value();
    std::string flipped = intact;
    flipped.back() ^= 1;
    Write(name, flipped);
    const absl::Status rejected = LoadTextParts(dir_.string(), "auto").status();
    EXPECT_EQ(rejected.code(), absl::StatusCode::kDataLoss) << rejected;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr(name + " is damaged"));
    Write(name, intact);
  }
}

TEST_F(TextPartsTest, IngotJsonThenTemplateThenHermesDecideTheFormat) {
  const std::string hermes = MakeTextParts("hermes")->format->fingerprint();
  const std::string compact = MakeTextParts("compact")->format->fingerprint();
  EXPECT_EQ(Fingerprint("auto"), hermes);  // by its ingot.json
  Write("ingot.json", R"({"chat_format": "compact"})");
  EXPECT_EQ(Fingerprint("auto"), compact);
  EXPECT_EQ(Fingerprint(""), compact);
  WriteTemplate();
  EXPECT_EQ(Fingerprint("auto"), compact);  // ingot.json, the format of its training, wins over its template
  std::filesystem::remove(dir_ / "ingot.json");
  const std::string own = Fingerprint("auto");
  EXPECT_NE(own, hermes);
  EXPECT_EQ(own, Fingerprint("template"));
  EXPECT_EQ(own, Fingerprint("template:hermes"));  // recognised by the calls that the template writes
  EXPECT_NE(own, Fingerprint("template:qwen3_coder"));
  EXPECT_EQ(Fingerprint("hermes"), hermes);  // an explicit name wins
  std::filesystem::remove(dir_ / "chat_template.jinja");
  EXPECT_EQ(Fingerprint("auto"), hermes);  // no template and no ingot.json
}

TEST_F(TextPartsTest, AFolderWithoutATokenizerNamesWhatWasMeant) {
  EXPECT_THAT(std::string(LoadTextParts("no-such/Model-135M", "auto").status().message()),
              HasSubstr("models are not downloaded from the Hub: `hf download no-such/Model-135M --local-dir DIR`"));
  std::filesystem::remove(dir_ / "tokenizer.json");
  EXPECT_THAT(std::string(LoadTextParts(dir_, "auto").status().message()),
              testing::Not(testing::AnyOf(HasSubstr("Hub"), HasSubstr("did you mean"))));
  for (const char* step : {"step-00000004", "step-00000012"}) {
    std::filesystem::create_directories(dir_ / "checkpoints" / step);
  }
  EXPECT_THAT(std::string(LoadTextParts(dir_, "auto").status().message()),
              HasSubstr("did you mean " + (dir_ / "checkpoints/step-00000012").string() + "?"));
}

// A checkpoint of a model with its own template carries the template on.
TEST_F(TextPartsTest, CopiedFilesGiveTheSameFormat) {
  std::filesystem::remove(dir_ / "ingot.json");
  WriteTemplate();
  const auto parts = LoadTextParts(dir_, "auto");
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->format->output()->name(), "hermes");
  std::filesystem::remove_all(dir_);
  std::filesystem::create_directories(dir_);
  for (const auto& [name, text] : parts->files) Write(name, text);
  EXPECT_EQ(Fingerprint("auto"), parts->format->fingerprint());
}

// A built-in format uses no template, but its tokenizer's tokens may stand in tokenizer_config.json.
TEST_F(TextPartsTest, TokensOfTheTokenizerConfigGoWithTheModel) {
  const int32_t id = LoadTextParts(dir_, "hermes")->tokenizer->vocab_size();
  Write("tokenizer_config.json",
        absl::StrCat(R"({"added_tokens_decoder": {")", id, R"(": {"content": "<more>", "special": false}}})"));
  const auto parts = LoadTextParts(dir_, "hermes");
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->tokenizer->Encode("<more>", true), std::vector<int32_t>{id});
  std::filesystem::remove_all(dir_);
  std::filesystem::create_directories(dir_);
  for (const auto& [name, text] : parts->files) Write(name, text);
  EXPECT_EQ(LoadTextParts(dir_, "")->tokenizer->fingerprint(), parts->tokenizer->fingerprint());
}

// So do templates in files of their own, which a conversation with tools needs.
TEST_F(TextPartsTest, AdditionalTemplatesGoWithTheModel) {
  std::filesystem::remove(dir_ / "ingot.json");
  WriteTemplate();
  std::filesystem::create_directory(dir_ / "additional_chat_templates");
  Write("additional_chat_templates/tool_use.jinja", "{{ tools | length }} tools, then\n" + std::string(kTemplate));
  Write("additional_chat_templates/rag.jinja", "{{ nope");
  const auto parts = LoadTextParts(dir_, "auto");
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->files.at("additional_chat_templates/rag.jinja"), "{{ nope");
  std::filesystem::remove_all(dir_);
  std::filesystem::create_directories(dir_ / "additional_chat_templates");
  for (const auto& [name, text] : parts->files) Write(name, text);
  EXPECT_EQ(Fingerprint("auto"), parts->format->fingerprint());
  std::filesystem::remove_all(dir_ / "additional_chat_templates");
  EXPECT_NE(Fingerprint("auto"), parts->format->fingerprint());
}

TEST_F(TextPartsTest, AGivenTemplateStandsForAllOfTheFolder) {
  std::filesystem::remove(dir_ / "ingot.json");
  WriteTemplate();
  std::filesystem::create_directory(dir_ / "additional_chat_templates");
  Write("additional_chat_templates/tool_use.jinja", "tools, then\n" + std::string(kTemplate));
  const std::string own = "{{ 'mine\\n' }}" + std::string(kTemplate);
  Write("other.jinja", own);
  const std::string file = dir_ / "other.jinja";
  const auto parts = LoadTextParts(dir_, "auto", file);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_NE(parts->format->fingerprint(), Fingerprint("auto"));
  EXPECT_EQ(parts->files.at("chat_template.jinja"), own);
  EXPECT_FALSE(parts->files.contains("additional_chat_templates/tool_use.jinja"));
  EXPECT_EQ(parts->files.at("ingot.json"), "{\"chat_format\":\"template\"}\n");
  // A checkpoint has it as its own.
  std::filesystem::remove_all(dir_);
  std::filesystem::create_directories(dir_);
  for (const auto& [name, text] : parts->files) Write(name, text);
  EXPECT_EQ(Fingerprint("auto"), parts->format->fingerprint());
}

TEST_F(TextPartsTest, FaultsOfAGivenTemplateNameItsFile) {
  const auto fault = [&](const std::string& text, const std::string& chat_format) {
    Write("given.jinja", text);
    const std::string file = dir_ / "given.jinja";
    const absl::Status status = LoadTextParts(dir_, chat_format, file).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(file));
    return std::string(status.message());
  };
  fault("{% if %}", "auto");
  EXPECT_THAT(fault("", "template"), HasSubstr("the file is empty"));
  EXPECT_THAT(fault(kTemplate, "hermes"), HasSubstr("uses no template"));
  EXPECT_THAT(std::string(LoadTextParts(dir_, "auto", dir_ / "nowhere.jinja").status().message()),
              HasSubstr("nowhere.jinja"));
}

// An engine stops at every id that config.json names; the id is no text, whatever the format.
TEST_F(TextPartsTest, TurnsEndWithTheModelsOwnIds) {
  const int32_t im_end = *MakeTextParts("hermes")->tokenizer->SpecialId("<|im_end|>");
  Write("config.json", "{\"eos_token_id\": [" + std::to_string(im_end) + ", 65, 66]}");
  const auto ends = [&](const std::string& chat_format) {
    const auto parts = LoadTextParts(dir_, chat_format);
    EXPECT_TRUE(parts.ok()) << parts.status();
    return parts.ok() ? parts->format->end_of_turn_ids() : std::vector<int32_t>();
  };
  EXPECT_THAT(ends("hermes"), testing::IsSupersetOf({im_end, 65, 66}));
  WriteTemplate();
  EXPECT_THAT(ends("template"), testing::ElementsAre(im_end, 65, 66));
  Write("generation_config.json", R"({"eos_token_id": [67, 66]})");
  EXPECT_THAT(ends("template"), testing::ElementsAre(im_end, 67, 66, 65));
  Write("config.json", R"({"eos_token_id": 68})");
  EXPECT_THAT(ends("template"), testing::ElementsAre(im_end, 67, 66, 68));
  Write("config.json", R"({"eos_token_id": "</s>"})");
  for (const char* format : {"hermes", "template"}) {
    const std::string fault(LoadTextParts(dir_, format).status().message());
    EXPECT_THAT(fault, testing::AllOf(HasSubstr("config.json"), HasSubstr("eos_token_id"))) << format;
  }
}

TEST_F(TextPartsTest, AFolderInPlaceOfAFileIsNamed) {
  for (const char* file : {"ingot.json", "chat_template.jinja", "config.json"}) {
    std::filesystem::remove(dir_ / file);
    std::filesystem::create_directory(dir_ / file);
    const std::string fault(LoadTextParts(dir_, "auto").status().message());
    EXPECT_THAT(fault, testing::AllOf(HasSubstr(file), HasSubstr("it is a folder"))) << fault;
    std::filesystem::remove(dir_ / file);
  }
}

TEST_F(TextPartsTest, FaultsAreNamed) {
  Write("ingot.json", R"({"chat_format": 3})");
  EXPECT_THAT(std::string(LoadTextParts(dir_, "auto").status().message()), HasSubstr("chat_format must be a string"));
  EXPECT_THAT(std::string(LoadTextParts(dir_, "nonsense").status().message()), HasSubstr("known are hermes, compact"));
  EXPECT_EQ(LoadTextParts(dir_, "template").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ingot::app
