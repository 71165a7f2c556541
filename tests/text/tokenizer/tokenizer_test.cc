#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/json.h"

namespace ingot::text {
namespace {

namespace json = base::json;

std::string RandomBytes(std::mt19937& rng, size_t most) {
  std::string bytes(rng() % (most + 1), '\0');
  for (char& c : bytes) c = static_cast<char>(rng());
  return bytes;
}

// Damages a file at random: drops keys, swaps values, flips bytes.
std::string Damaged(std::mt19937& rng, std::string text) {
  for (int i = 0; i < 3 && !text.empty(); ++i) {
    const size_t at = rng() % text.size();
    if (rng() % 2 == 0) text[at] = static_cast<char>(rng());
    if (rng() % 3 == 0) text.erase(at, rng() % 40);
    if (rng() % 3 == 0) text.insert(std::min(at, text.size()), text.substr(rng() % (text.size() + 1), rng() % 40));
  }
  return text;
}

std::string Edited(const std::function<void(json::object&)>& edit) {
  json::value root = *base::ParseJson(ByteTokenizerJson({"<|im_start|>", "<|im_end|>"}));
  edit(root.as_object());
  return base::PrintJson(root);
}

TEST(ByteTokenizerTest, IdsAreBytesAndSpecialTokensFollow) {
  const auto tokenizer = MakeByteTokenizer({"<|im_start|>", "<|im_end|>"});
  EXPECT_EQ(tokenizer->Encode("aé\n", true), (std::vector<int32_t>{'a', 0xC3, 0xA9, '\n'}));
  EXPECT_EQ(tokenizer->Encode("<|im_end|>x", true), (std::vector<int32_t>{257, 'x'}));
  EXPECT_EQ(tokenizer->SpecialId("<|im_start|>"), 256);
  EXPECT_EQ(tokenizer->SpecialId("<|im_start|>x"), std::nullopt);
  EXPECT_EQ(tokenizer->SpecialId(""), std::nullopt);
  EXPECT_TRUE(tokenizer->IsSpecial(257));
  EXPECT_FALSE(tokenizer->IsSpecial('a'));
  EXPECT_EQ(tokenizer->vocab_size(), 258);
}

TEST(ByteTokenizerTest, SpecialTokensInContentStayText) {
  const auto tokenizer = MakeByteTokenizer({"<|im_end|>"});
  const auto ids = tokenizer->Encode("<|im_end|>", false);
  EXPECT_EQ(ids.size(), 10u);
  EXPECT_EQ(tokenizer->Decode(ids, true), "<|im_end|>");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{256, 'x'}, true), "x");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{256, 'x'}, false), "<|im_end|>x");
}

TEST(ByteTokenizerTest, SpecialTokensMatchLeftmostThenLongest) {
  const auto tokenizer = MakeByteTokenizer({"<a", "<a>", "a>b>", "<a>b"});
  // At 0 "<a", "<a>" and "<a>b" match, and the longest wins, although "a>b>" at 1 would be longer.
  EXPECT_EQ(tokenizer->Encode("<a>b>", true), (std::vector<int32_t>{259, '>'}));
  EXPECT_EQ(tokenizer->Encode("<a>", true), (std::vector<int32_t>{257}));
  EXPECT_EQ(tokenizer->Encode("<ab", true), (std::vector<int32_t>{256, 'b'}));
  EXPECT_EQ(tokenizer->Encode("xa>b>", true), (std::vector<int32_t>{'x', 258}));
}

TEST(ByteTokenizerTest, AnyBytesSurviveARoundTrip) {
  const auto tokenizer = MakeByteTokenizer({"<|im_start|>", "<|im_end|>", "\xFF"});
  std::mt19937 rng(1);
  for (int i = 0; i < 500; ++i) {
    std::string bytes = RandomBytes(rng, 60);
    if (i % 3 == 0) bytes.insert(rng() % (bytes.size() + 1), "<|im_start|>");
    for (const bool special : {false, true}) {
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(bytes, special), false), bytes);
    }
  }
}

TEST(ByteTokenizerTest, IdsOutsideTheVocabularyDecodeToNothing) {
  const auto tokenizer = MakeByteTokenizer({"<e>"});
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{-1, 'a', 257, 1 << 30, INT32_MIN, INT32_MAX, 'b'}, false), "ab");
}

TEST(TokenizerJsonTest, ByteTokenizerLoadsAsItself) {
  const std::vector<std::string> special = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>"};
  const auto made = MakeByteTokenizer(special);
  const auto loaded = ParseTokenizerJson(ByteTokenizerJson(special));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->fingerprint(), made->fingerprint());
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  text += "<|im_start|>";
  EXPECT_EQ((*loaded)->Encode(text, true), made->Encode(text, true));
  EXPECT_NE(MakeByteTokenizer({"<|im_start|>"})->fingerprint(), MakeByteTokenizer({"<|im_end|>"})->fingerprint());
}

TEST(TokenizerJsonTest, IdsMayComeInAnyOrder) {
  const auto loaded = ParseTokenizerJson(Edited([](json::object& root) {
    json::object& vocab = root["model"].as_object()["vocab"].as_object();
    vocab["a"] = 98;
    vocab["b"] = 97;
    root["added_tokens"].as_array()[0].as_object()["id"] = 1000;
    root["added_tokens"].as_array()[1].as_object()["special"] = false;
  }));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->Encode("ab<|im_start|>", true), (std::vector<int32_t>{98, 97, 1000}));
  EXPECT_EQ((*loaded)->vocab_size(), 1001);
  // An added token that is not special has an id, and skip_special keeps its text.
  EXPECT_EQ((*loaded)->SpecialId("<|im_end|>"), 257);
  EXPECT_FALSE((*loaded)->IsSpecial(257));
  EXPECT_EQ((*loaded)->Decode(std::vector<int32_t>{1000, 257}, true), "<|im_end|>");
}

TEST(TokenizerJsonTest, UnsupportedComponentsAreNamed) {
  using Edit = std::function<void(json::object&)>;
  const std::vector<std::pair<Edit, std::string>> cases = {
      {[](auto& root) { root["normalizer"] = {{"type", "Precompiled"}}; }, "normalizer Precompiled"},
      {[](auto& root) { root["normalizer"] = {{"type", "BertNormalizer"}}; }, "normalizer BertNormalizer"},
      {[](auto& root) { root["pre_tokenizer"] = {{"type", "UnicodeScripts"}}; }, "pre_tokenizer UnicodeScripts"},
      {[](auto& root) { root["post_processor"] = {{"type", "Conduct"}}; }, "post_processor Conduct"},
      {[](auto& root) { root["decoder"] = {{"type", "WordPiece"}}; }, "decoder WordPiece"},
      {[](auto& root) { root["model"].as_object()["type"] = "Unigram"; }, "model Unigram"},
      {[](auto& root) { root["model"].as_object()["dropout"] = 0.1; }, "dropout"},
      {[](auto& root) { root["model"].as_object()["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix"},
      {[](auto& root) {
         root["pre_tokenizer"] = {
             {"type", "Split"}, {"pattern", {{"Regex", "(?<a>x)\\k<a>"}}}, {"behavior", "Isolated"}};
       },
       "a named group"},
  };
  for (const auto& [edit, component] : cases) {
    const auto loaded = ParseTokenizerJson(Edited(edit));
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kUnimplemented) << component;
    EXPECT_NE(std::string(loaded.status().message()).find(component), std::string::npos) << loaded.status();
  }
}

TEST(TokenizerJsonTest, MalformedFilesAreRejected) {
  using Edit = std::function<void(json::object&)>;
  const std::vector<Edit> edits = {
      [](auto& root) { root["added_tokens"].as_array()[0].as_object()["id"] = 97; },
      [](auto& root) { root["added_tokens"].as_array()[0].as_object()["id"] = -1; },
      [](auto& root) { root["added_tokens"].as_array()[0].as_object()["id"] = 1LL << 40; },
      [](auto& root) { root["added_tokens"].as_array()[0].as_object()["content"] = ""; },
      [](auto& root) { root["added_tokens"].as_array()[0] = root["added_tokens"].as_array()[1]; },
      [](auto& root) { root["added_tokens"] = 3; },
      [](auto& root) { root["model"].as_object()["vocab"].as_object()["a"] = 98; },
      [](auto& root) { root["model"].as_object()["vocab"].as_object()["a"] = "x"; },
      [](auto& root) { root["model"].as_object().erase("merges"); },
      [](auto& root) { root.erase("model"); },
  };
  for (size_t i = 0; i < edits.size(); ++i) {
    EXPECT_EQ(ParseTokenizerJson(Edited(edits[i])).status().code(), absl::StatusCode::kInvalidArgument) << i;
  }
}

TEST(TokenizerJsonTest, DamagedFilesNeverCrash) {
  const std::string good = ByteTokenizerJson({"<|im_start|>", "<|im_end|>"});
  std::mt19937 rng(2);
  for (int i = 0; i < 1000; ++i) {
    const auto loaded = ParseTokenizerJson(Damaged(rng, good));
    if (loaded.ok()) (*loaded)->Decode((*loaded)->Encode(RandomBytes(rng, 20), true), false);
  }
}

TEST(TokenizerJsonTest, FilesAreReadFromAModelFolder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / absl::StrCat("tokenizer_test_", getpid());
  std::filesystem::create_directories(folder);
  EXPECT_EQ(LoadTokenizer(folder).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(folder / "tokenizer.json") << ByteTokenizerJson({"<s>"});
  const auto loaded = LoadTokenizer(folder);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->SpecialId("<s>"), 256);
  // Tokens that stand only in tokenizer_config.json, in the order of their ids; the ids are those of `tokenizers` 0.23
  // after add_tokens.
  std::ofstream(folder / "tokenizer_config.json") << R"({"added_tokens_decoder": {
      "258": {"content": "</think>", "special": false, "normalized": false},
      "257": {"content": "<think>", "special": false, "normalized": false},
      "256": {"content": "<s>", "special": false}}})";
  const auto more = LoadTokenizer(folder);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ((*more)->Encode("<think>a</think><s>", true), (std::vector<int32_t>{257, 97, 258, 256}));
  EXPECT_EQ((*more)->vocab_size(), 259);
  EXPECT_NE((*more)->fingerprint(), (*loaded)->fingerprint());
  EXPECT_TRUE((*more)->IsSpecial(256)) << "tokenizer.json says so";
  std::ofstream(folder / "tokenizer_config.json") << R"({"added_tokens_decoder": {"x": {"content": "<y>"}}})";
  EXPECT_NE(std::string(LoadTokenizer(folder).status().message()).find("added_tokens_decoder has the id 'x'"),
            std::string::npos);
  std::filesystem::remove(folder / "tokenizer_config.json");
  std::ofstream(folder / "tokenizer.json") << "{";
  const auto broken = LoadTokenizer(folder);
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(broken.status().message()).find(folder.string()), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ingot::text
