// Tokenizers out of GGUF files. testdata/gguf_tokenizers.json is written by make_gguf_goldens.py with `transformers`.
#include "text/tokenizer/gguf_tokenizer.h"
#include "test_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "gguf/make_file.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {
namespace {

using ::testing::HasSubstr;
namespace json = base::json;

class GgufTokenizer : public ::testing::Test {
 protected:
  GgufTokenizer() {
    std::string name = (std::filesystem::temp_directory_path() / "gguf_tokenizer_test.XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
    const auto text = base::ReadFile(INGOT_SOURCE_DIR "/tests/text/testdata/gguf_tokenizers.json");
    golden_ = *base::ParseJson(*text);
  }
  ~GgufTokenizer() override { std::filesystem::remove_all(dir_); }

  absl::StatusOr<std::map<std::string, std::string>> Files(const gguf::FileMaker& maker) {
    maker.Write(dir_ + "/m.gguf");
    const auto file = gguf::File::Open(dir_ + "/m.gguf");
    if (!file.ok()) return file.status();
    return TokenizerFilesFromGguf(*file);
  }
  void ExpectRejected(const gguf::FileMaker& maker, const std::string& what) {
    const auto files = Files(maker);
    ASSERT_FALSE(files.ok()) << what;
    EXPECT_THAT(std::string(files.status().message()), HasSubstr(dir_ + "/m.gguf: "));
    EXPECT_THAT(std::string(files.status().message()), HasSubstr(what));
  }

  template <typename T>
  std::vector<T> List(const std::string& name) const {
    return json::value_to<std::vector<T>>(*base::Find(*base::Find(golden_, "lists"), name));
  }

  // The case's fields; `without`: a field that is left out.
  gguf::FileMaker Maker(const json::value& fields, std::string_view without = "") const {
    gguf::FileMaker maker;
    const std::string kind(base::Find(fields, "model")->get_string());
    for (const auto& field : fields.get_object()) {
      const std::string key = "tokenizer.ggml." + std::string(field.key());
      if (std::string_view(field.key()) == without) continue;
      if (field.value().is_string()) {
        maker.Text(key, field.value().get_string());
      } else if (field.value().is_bool()) {
        maker.Bool(key, field.value().get_bool());
      } else {
        maker.Uint32(key, static_cast<uint32_t>(field.value().get_int64()));
      }
    }
    maker.Texts("tokenizer.ggml.tokens", List<std::string>(kind + ".tokens"));
    maker.Numbers<int32_t>("tokenizer.ggml.token_type", 5, List<int32_t>(kind + ".token_type"));
    if (kind == "gpt2") {
      maker.Texts("tokenizer.ggml.merges", List<std::string>(kind + ".merges"));
    } else if (without != "scores") {
      maker.Numbers<float>("tokenizer.ggml.scores", 6, List<float>(kind + ".scores"));
    }
    return maker;
  }

  std::string dir_;
  json::value golden_;
};

TEST_F(GgufTokenizer, IdsAndTextAreThoseOfTransformers) {
  const auto& texts = base::Find(golden_, "texts")->get_array();
  for (const auto& [name, entry] : base::Find(golden_, "cases")->get_object()) {
    const auto files = Files(Maker(*base::Find(entry, "fields")));
    ASSERT_TRUE(files.ok()) << name << ": " << files.status();
    const auto tokenizer = ParseTokenizerJson(files->at("tokenizer.json"));
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status();
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string text(texts[i].get_string());
      const auto expected = json::value_to<std::vector<int32_t>>(base::Find(entry, "ids")->get_array()[i]);
      const std::vector<int32_t> ids = (*tokenizer)->AddSpecial((*tokenizer)->Encode(text, /*allow_special=*/true));
      EXPECT_EQ(ids, expected) << name << ": '" << text << "'";
      EXPECT_EQ((*tokenizer)->DecodeText(ids, /*skip_special=*/true),
                std::string(base::Find(entry, "decoded")->get_array()[i].get_string()))
          << name << ": '" << text << "'";
    }
  }
}

TEST_F(GgufTokenizer, WritesTheTemplateAndTheNamedTokens) {
  const json::value& fields = *base::Find(*base::Find(*base::Find(golden_, "cases"), "smollm"), "fields");
  gguf::FileMaker maker = Maker(fields);
  auto files = Files(maker);
  ASSERT_TRUE(files.ok());
  EXPECT_FALSE(files->contains("chat_template.jinja"));
  maker.Text("tokenizer.chat_template", "{{ messages }}");
  files = Files(maker);
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->at("chat_template.jinja"), "{{ messages }}");
  const auto config = base::ParseJson(files->at("tokenizer_config.json"));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(*base::Find(*config, "eos_token"), json::value("<|im_end|>"));
  EXPECT_EQ(*base::Find(*config, "add_bos_token"), json::value(false));
}

TEST_F(GgufTokenizer, RejectsATokenizerThatItWouldGetWrong) {
  const auto fields = [&](const char* name) {
    return *base::Find(*base::Find(*base::Find(golden_, "cases"), name), "fields");
  };
  ExpectRejected(gguf::FileMaker(), "field 'tokenizer.ggml.model' is missing");
  ExpectRejected(gguf::FileMaker().Text("tokenizer.ggml.model", "bert"), "is 'bert'; supported: gpt2 and llama");
  json::value other = fields("smollm");
  other.get_object()["pre"] = "deepseek-llm";
  ExpectRejected(Maker(other), "field 'tokenizer.ggml.pre' is 'deepseek-llm', an unknown pre-tokenizer");
  other = fields("smollm");
  other.get_object()["eos_token_id"] = 4000;
  ExpectRejected(Maker(other), "field 'tokenizer.ggml.eos_token_id' is 4000, but the vocabulary has 693 tokens");
  ExpectRejected(Maker(fields("sentencepiece"), "scores"), "field 'tokenizer.ggml.scores' is missing");

  gguf::FileMaker lists;
  lists.Text("tokenizer.ggml.model", "gpt2").Texts("tokenizer.ggml.tokens", {"a", "b"});
  gguf::FileMaker types = lists, merges = lists, unknown = lists;
  ExpectRejected(types.Numbers<int32_t>("tokenizer.ggml.token_type", 5, {1}), "has 1 values for 2 tokens");
  ExpectRejected(merges.Texts("tokenizer.ggml.merges", {"a b c"}), "has 'a b c' at 0, which is not two tokens");
  ExpectRejected(unknown.Texts("tokenizer.ggml.merges", {"a b"}), "merge 0 needs the token 'ab'");
  gguf::FileMaker twice;
  twice.Text("tokenizer.ggml.model", "gpt2").Texts("tokenizer.ggml.tokens", {"a", "b", "a"});
  ExpectRejected(twice.Texts("tokenizer.ggml.merges", {}), "has 'a' at 0 and at 2");
}

}  // namespace
}  // namespace ingot::text
