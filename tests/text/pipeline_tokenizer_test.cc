// The tokenizer of a tokenizer.json, compared with ids and texts of Hugging Face's `tokenizers`
// (testdata/tokenizers.json, written by peer/compare_components.py --golden); and cases that this cannot compare.
#include "text/pipeline_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "text/text_samples.h"

namespace ingot::text {
namespace {

namespace json = base::json;

const json::value& Golden() {
  static const auto* const golden = [] {
    std::ifstream file(std::string(INGOT_SOURCE_DIR) + "/tests/text/testdata/tokenizers.json");
    std::stringstream text;
    text << file.rdbuf();
    auto parsed = base::ParseJson(text.str());
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return new json::value(parsed.ok() ? *parsed : json::value(json::object{}));
  }();
  return *golden;
}

const json::array& Cases() { return Golden().at("cases").as_array(); }

// The tokenizer.json of a case, with its model's vocabulary and merges filled in.
json::object FileOf(const json::value& test) {
  json::object root = test.at("tokenizer").as_object();
  const json::object& model = Golden().at("models").as_array()[test.at("model").to_number<size_t>()].as_object();
  for (const char* part : {"vocab", "merges"}) root["model"].as_object()[part] = model.at(part);
  return root;
}

std::shared_ptr<const Tokenizer> Load(const json::value& root) {
  auto tokenizer = ParseTokenizerJson(base::PrintJson(root));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

std::vector<int32_t> Ids(const json::value& list) {
  std::vector<int32_t> ids;
  for (const json::value& id : list.as_array()) ids.push_back(id.to_number<int32_t>());
  return ids;
}

std::string Streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& ids, bool skip) {
  DecodeStream stream(tokenizer, skip);
  std::string text;
  for (const int32_t id : ids) {
    const std::string part = stream.Push(id);
    EXPECT_TRUE(IsValidUtf8(part));
    text += part;
  }
  return text + stream.Flush();
}

TEST(PipelineTokenizerTest, EncodesLikeTheReference) {
  ASSERT_GE(Cases().size(), 30u);
  for (const json::value& test : Cases()) {
    const auto tokenizer = Load(FileOf(test));
    ASSERT_NE(tokenizer, nullptr);
    const json::array& strings = test.at("strings").as_array();
    for (size_t i = 0; i < strings.size(); ++i) {
      const std::string text(strings[i].as_string());
      const auto ids = tokenizer->Encode(text, true);
      EXPECT_EQ(ids, Ids(test.at("encode").as_array()[i])) << text << "\n" << test.at("tokenizer");
      EXPECT_EQ(tokenizer->AddSpecial(ids), Ids(test.at("special").as_array()[i])) << text;
    }
  }
}

TEST(PipelineTokenizerTest, DecodesLikeTheReference) {
  for (const json::value& test : Cases()) {
    const auto tokenizer = Load(FileOf(test));
    ASSERT_NE(tokenizer, nullptr);
    const json::array& lists = test.at("lists").as_array();
    for (size_t i = 0; i < lists.size(); ++i) {
      const auto ids = Ids(lists[i]);
      EXPECT_EQ(tokenizer->DecodeText(ids, false), test.at("decode").as_array()[i].as_string()) << lists[i];
      EXPECT_EQ(tokenizer->DecodeText(ids, true), test.at("decode_skip").as_array()[i].as_string()) << lists[i];
    }
  }
}

TEST(PipelineTokenizerTest, AStreamDecodesLikeTheWhole) {
  std::mt19937 rng(1);
  for (const json::value& test : Cases()) {
    const auto tokenizer = Load(FileOf(test));
    ASSERT_NE(tokenizer, nullptr);
    for (int i = 0; i < 100; ++i) {
      std::vector<int32_t> ids;
      for (int k = rng() % 12; k > 0; --k)
        ids.push_back(static_cast<int32_t>(rng() % (tokenizer->vocab_size() + 2)) - 1);
      for (const bool skip : {false, true})
        EXPECT_EQ(Streamed(tokenizer, ids, skip), ToUtf8(tokenizer->Decode(ids, skip)));
    }
  }
}

TEST(PipelineTokenizerTest, InvalidUtf8IsReadAsReplacementCharacters) {
  std::mt19937 rng(2);
  for (const json::value& test : Cases()) {
    const auto tokenizer = Load(FileOf(test));
    ASSERT_NE(tokenizer, nullptr);
    for (int i = 0; i < 30; ++i) {
      std::string bytes = RandomText(rng, 5);
      for (int k = 0; k < 3 && !bytes.empty(); ++k) bytes[rng() % bytes.size()] = static_cast<char>(rng());
      for (const bool special : {false, true}) {
        EXPECT_EQ(tokenizer->Encode(bytes, special), tokenizer->Encode(ToUtf8(bytes), special));
      }
    }
  }
}

TEST(PipelineTokenizerTest, DamagedFilesNeverCrash) {
  std::mt19937 rng(3);
  for (int i = 0; i < 200; ++i) {
    std::string text = base::PrintJson(FileOf(Cases()[rng() % Cases().size()]));
    for (int k = 0; k < 3; ++k) {
      const size_t at = rng() % text.size();
      if (rng() % 2 == 0) text[at] = static_cast<char>(rng() % 128);
      if (rng() % 2 == 0) text.erase(at, rng() % 30);
    }
    const auto tokenizer = ParseTokenizerJson(text);
    if (tokenizer.ok()) (*tokenizer)->DecodeText((*tokenizer)->Encode(RandomText(rng, 9), true), false);
  }
}

// A byte-level file with a few tokens: "ab" is a merge, <|end|> is special, <tag> and two spaces are added.
json::object SmallFile() {
  json::object root = base::ParseJson(ByteTokenizerJson({}))->as_object();
  json::object& model = root["model"].as_object();
  model["vocab"].as_object()["ab"] = 256;
  model["merges"] = json::array{"a b"};
  const auto added = [](int id, const char* content, bool special) {
    return json::object{{"id", id}, {"content", content}, {"special", special}, {"normalized", false}};
  };
  root["added_tokens"] = {added(257, "<|end|>", true), added(258, "<tag>", false), added(259, "  ", false)};
  return root;
}

TEST(PipelineTokenizerTest, ContentCannotForgeATokenButKeepsItsWhiteSpace) {
  const auto tokenizer = Load(SmallFile());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Encode("ab<|end|><tag>  ", true), (std::vector<int32_t>{256, 257, 258, 259}));
  const auto content = tokenizer->Encode("ab<|end|><tag>  ", false);
  EXPECT_EQ(content.size(), 1u + 7 + 5 + 1);
  EXPECT_EQ(content.front(), 256);
  EXPECT_EQ(content.back(), 259);
  EXPECT_EQ(tokenizer->SpecialId("<tag>"), 258);
  EXPECT_EQ(tokenizer->SpecialId("ab"), std::nullopt);
  EXPECT_TRUE(tokenizer->IsSpecial(257));
  EXPECT_FALSE(tokenizer->IsSpecial(258));
  EXPECT_EQ(tokenizer->vocab_size(), 260);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{257, 258, 256, -1, 1000}, true), "<tag>ab");
}

TEST(PipelineTokenizerTest, TheFingerprintChangesWhenIdsChange) {
  const std::string before = Load(SmallFile())->fingerprint();
  EXPECT_EQ(Load(SmallFile())->fingerprint(), before);
  const std::vector<std::function<void(json::object&)>> edits = {
      [](auto& root) { root["model"].as_object()["merges"] = json::array{}; },
      [](auto& root) { root["model"].as_object()["ignore_merges"] = true; },
      [](auto& root) { root["normalizer"] = {{"type", "NFC"}}; },
      [](auto& root) { root["added_tokens"].as_array()[1].as_object()["lstrip"] = true; },
      [](auto& root) { root["pre_tokenizer"].as_object()["use_regex"] = true; },
  };
  for (const auto& edit : edits) {
    json::object root = SmallFile();
    edit(root);
    EXPECT_NE(Load(root)->fingerprint(), before);
  }
}

TEST(PipelineTokenizerTest, FilesThatContradictThemselvesAreRefused) {
  const std::vector<std::pair<std::function<void(json::object&)>, std::string>> cases = {
      {[](auto& root) { root["added_tokens"].as_array()[0].as_object()["id"] = 300; }, "would give it 257"},
      {[](auto& root) { root["added_tokens"].as_array()[0].as_object()["content"] = "ab"; }, "256"},
      {[](auto& root) { root["model"].as_object()["merges"] = json::array{"a c"}; }, "'ac'"},
      {[](auto& root) { root["model"].as_object()["merges"] = json::array{"a b c"}; }, "merge 0"},
      {[](auto& root) { root["model"].as_object()["merges"] = json::array{json::array{"a"}}; }, "merge 0"},
      {[](auto& root) { root["model"].as_object()["unk_token"] = "?unk?"; }, "unk_token"},
      {[](auto& root) { root["model"].as_object()["vocab"].as_object()["ab"] = 97; }, "id 97"},
      {[](auto& root) { root["pre_tokenizer"] = {{"type", "Split"}, {"behavior", "Isolated"}}; }, "pattern"},
      {[](auto& root) {
         root["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}};
       },
       "a group without )"},
  };
  for (const auto& [edit, part] : cases) {
    json::object root = SmallFile();
    edit(root);
    const auto status = ParseTokenizerJson(base::PrintJson(root)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
    EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
  }
}

// Llama 2's decoder: drops a space at a text's start; byte tokens form characters.
json::object Llama2File() {
  json::object root = SmallFile();
  root["added_tokens"] = json::array{};
  root["pre_tokenizer"] = nullptr;
  json::object vocab{{"<unk>", 0}, {"▁a", 1}, {"b", 2}, {"▁", 3}, {"a", 4}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    vocab[name] = 5 + byte;
  }
  json::object& model = root["model"].as_object();
  model["vocab"] = vocab;
  model["merges"] = json::array{json::array{"▁", "a"}};
  model["byte_fallback"] = true;
  model["unk_token"] = "<unk>";
  root["decoder"] = *base::ParseJson(R"({"type":"Sequence","decoders":[
      {"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
      {"type":"Strip","content":" ","start":1,"stop":0}]})");
  return root;
}

TEST(PipelineTokenizerTest, TheFirstSpaceIsDroppedAtATextsStartOnly) {
  const auto tokenizer = Load(Llama2File());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{1, 1}, false), "a a");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{3, 1}, false), " a");
  DecodeStream start(tokenizer, false);
  EXPECT_EQ(start.Push(1), "a");
  EXPECT_EQ(start.Push(1), " a");
  DecodeStream middle(tokenizer, false, DecodeState::MidText());
  EXPECT_EQ(middle.Push(1), " a");
  EXPECT_EQ(tokenizer->TokenBytes(1), " a");
  EXPECT_EQ(tokenizer->TokenBytes(5 + 0xE2), "\xE2");
}

TEST(PipelineTokenizerTest, ByteTokensStreamAsWholeCharacters) {
  const auto tokenizer = Load(Llama2File());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Encode("€b", true), (std::vector<int32_t>{5 + 0xE2, 5 + 0x82, 5 + 0xAC, 2}));
  DecodeStream stream(tokenizer, false);
  EXPECT_EQ(stream.Push(5 + 0xE2), "");
  EXPECT_EQ(stream.Push(5 + 0x82), "");
  EXPECT_EQ(stream.Push(5 + 0xAC), "€");
  EXPECT_EQ(stream.Push(5 + 0xE2), "");
  EXPECT_EQ(stream.Push(2),
            "\xEF\xBF\xBD"
            "b");
  // In a whole text, the reference replaces each byte of a run that is not valid UTF-8, valid characters included.
  const std::vector<int32_t> run = {5 + 0xE2, 5 + 0x82, 5 + 0xAC, 5 + 0xE2, 2};
  EXPECT_EQ(tokenizer->DecodeText(run, false),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(ToUtf8(tokenizer->Decode(run, false)),
            "€\xEF\xBF\xBD"
            "b");
}

}  // namespace
}  // namespace ingot::text
