// The tokenizer of a tokenizer.json, compared with ids and texts of Hugging Face's `tokenizers`
// (testdata/tokenizers.json, written by peer/compare_components.py --golden); and cases that this cannot compare.
#include "text/tokenizer/pipeline_tokenizer.h"
#include "test_paths.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "text/text_samples.h"
#include "text/tokenizer/alphabet_tokenizer.h"

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

TEST(PipelineTokenizerTest, FilesThatContradictThemselvesAreRejected) {
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

// Texts with few ids for their bytes: runs of tokens, of spaces that tokens take along, and of characters that a
// normalizer shortens or a model leaves out.
std::string LongText(std::mt19937& rng, const Tokenizer& tokenizer, const std::vector<std::string>& added) {
  static const std::vector<std::string> kRuns = {" ",
                                                 "\n",
                                                 "\u3000",
                                                 "a",
                                                 "e\u0301",
                                                 "\u03b1\u0313\u0300\u0345",
                                                 "\u1100\u1161\u11a8",
                                                 "\u212b",
                                                 "\u2126",
                                                 "\U0001d400",
                                                 "\ufdfa",
                                                 "\u212a",
                                                 "\u1fef",
                                                 "\U0001f600",
                                                 "\uff21",
                                                 "\u0130",
                                                 "\U0002f800",
                                                 "<|im_end|>",
                                                 "K\u030a\u0327",
                                                 "aexK"};
  std::string text;
  for (int runs = rng() % 2 == 0 ? 1 : 2 + static_cast<int>(rng() % 3); runs > 0; --runs) {
    std::string piece = kRuns[rng() % kRuns.size()];
    if (rng() % 3 == 0) piece = tokenizer.TokenBytes(static_cast<int32_t>(rng() % tokenizer.vocab_size()));
    if (rng() % 5 == 0) piece = RandomText(rng, 3);
    for (int n = static_cast<int>(rng() % 200); n > 0; --n) text += piece;
    if (!added.empty() && rng() % 2 == 0) text += added[rng() % added.size()];
  }
  return ToUtf8(text);
}

// A tokenizer.json without long tokens. "single": bytes. "bytes": with tokens for two composed characters too; "taking":
// and an added token that takes spaces along. Otherwise a character without a token is dropped, becomes <unk>, or its
// run becomes one <unk>.
json::object ShortTokens(const std::string& model) {
  json::object vocab;
  json::array merges;
  const auto add = [&](const std::string& token) { vocab[token] = vocab.size(); };
  const bool bytes = model == "single" || model == "bytes" || model == "taking";
  if (bytes) {
    for (const std::string& spelled : ByteSpelling()) add(spelled);
    for (const char* composed : {"\u1f82", "\uac01"}) {
      if (model == "single") break;
      std::string left = SpellBytes(std::string_view(composed).substr(0, 1));
      for (const size_t at : {1, 2}) {
        const std::string right = SpellBytes(std::string_view(composed).substr(at, 1));
        merges.push_back(json::array{left.c_str(), right.c_str()});
        left += right;
        add(left);
      }
    }
  } else {
    for (const char* token : {"<unk>", " ", "a", "e", "x", "K", "\u1f82"}) add(token);
  }
  json::object bpe = {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}, {"fuse_unk", model == "joined"}};
  if (model == "unknown" || model == "joined") bpe["unk_token"] = "<unk>";
  json::array added;
  if (model == "taking") {
    added.push_back(json::object{{"id", vocab.size()},
                                 {"content", "<m>"},
                                 {"special", true},
                                 {"single_word", false},
                                 {"lstrip", true},
                                 {"rstrip", true},
                                 {"normalized", false}});
  }
  json::value stage = nullptr;
  if (bytes) stage = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {
      {"added_tokens", added}, {"normalizer", nullptr}, {"pre_tokenizer", stage}, {"decoder", nullptr}, {"model", bpe}};
}

TEST(PipelineTokenizerTest, ATextHasAtLeastItsLeastIds) {
  std::mt19937 rng(5);
  int bounded = 0;
  const auto check = [&](const std::shared_ptr<const Tokenizer>& tokenizer, const json::value& file) {
    ASSERT_NE(tokenizer, nullptr);
    bounded += tokenizer->LeastIds(std::string(1000000, 'x')) > 1000 ? 1 : 0;
    std::vector<std::string> added;
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      if (tokenizer->SpecialId(tokenizer->TokenBytes(id)) == id) added.push_back(tokenizer->TokenBytes(id));
    }
    for (int i = 0; i < 300; ++i) {
      const std::string text = LongText(rng, *tokenizer, added);
      const size_t least = tokenizer->LeastIds(text);
      for (const bool special : {false, true}) {
        ASSERT_LE(least, tokenizer->Encode(text, special).size()) << text << "\n" << file;
      }
    }
  };
  for (const json::value& test : Cases()) check(Load(FileOf(test)), test.at("tokenizer"));
  EXPECT_GE(bounded, 20) << "of " << Cases().size();
  // Components that lose text, before models whose tokens are short: bytes, and characters of which some are unknown.
  for (const char* model : {"single", "bytes", "taking", "dropped", "unknown", "joined"}) {
    const json::object plain = ShortTokens(model);
    check(Load(plain), plain);
    for (const char* normalizer :
         {R"({"type":"NFC"})", R"({"type":"NFKC"})", R"({"type":"NFKD"})", R"({"type":"Lowercase"})",
          R"({"type":"Strip","strip_left":true,"strip_right":true})",
          R"({"type":"Replace","pattern":{"String":"aaaaa"},"content":"e"})",
          R"({"type":"Replace","pattern":{"String":"a"},"content":""})",
          R"({"type":"Replace","pattern":{"Regex":"a+"},"content":"a"})",
          R"({"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"a"},"content":"\u00e4"},
              {"type":"NFD"},{"type":"Lowercase"},{"type":"NFKC"}]})",
          R"({"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"a"},"content":"\u03b1"},
              {"type":"Replace","pattern":{"String":"e"},"content":"\u0313"},
              {"type":"Replace","pattern":{"String":"x"},"content":"\u0300"},
              {"type":"Replace","pattern":{"String":"K"},"content":"\u0345"},{"type":"NFC"}]})"}) {
      json::object file = plain;
      file["normalizer"] = *base::ParseJson(normalizer);
      check(Load(file), file.at("normalizer"));
    }
    for (const char* stage : {R"({"type":"WhitespaceSplit"})", R"({"type":"BertPreTokenizer"})",
                              R"({"type":"Split","pattern":{"Regex":"[a-m]+"},"behavior":"Removed","invert":false})",
                              R"({"type":"Punctuation","behavior":"Removed"})"}) {
      json::object file = plain;
      json::array stages = {*base::ParseJson(stage)};
      if (!plain.at("pre_tokenizer").is_null()) stages.push_back(plain.at("pre_tokenizer"));
      file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", stages}};
      check(Load(file), file.at("pre_tokenizer"));
    }
  }
}

// The numbers in normalizer.cc: no form takes more than three bytes for one, nor makes one byte of more than four.
TEST(PipelineTokenizerTest, NormalFormsChangeSizesByNoMoreThanTheBoundSays) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    AppendUtf8(c, text);
    EXPECT_LE(Normalize(text, NormalForm::kNfd).size(), 3 * text.size()) << c;
    EXPECT_GE(Normalize(text, NormalForm::kNfkd).size(), 1u) << c;
    std::string lower;
    AppendLowercase(c, lower);
    EXPECT_GE(lower.size(), 1u) << c;
  }
}

}  // namespace
}  // namespace ingot::text
