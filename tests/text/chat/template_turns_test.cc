// The turns that a chat template keeps as they were sampled. Templates: the ones below, written for this test in the
// style of many families, and all *.jinja files in the folder INGOT_TEST_TEMPLATES, if it is set
// (tests/text/peer/compare_templates.py downloads some).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "text/chat/template_format.h"

namespace ingot::text::template_turns_test {
namespace {

struct Sample {
  std::string name, source, eos;
};

// Qwen 3: reasoning behind the last question stays; only the last message without a thought gets an empty one.
constexpr char kQwen3[] = R"({%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
{%- set thought = m.reasoning_content or '' %}
{{- '<|im_start|>' ~ m.role ~ '\n' }}
{%- if m.role == 'assistant' and loop.index0 > ns.last and (loop.last or thought) %}
{{- '<think>\n' ~ thought.strip('\n') ~ '\n</think>\n\n' ~ m.content.lstrip('\n') }}
{%- else %}{{ m.content }}{% endif %}
{%- for call in m.tool_calls %}
{%- if m.content or not loop.first %}{{ '\n' }}{% endif %}
{{- '<tool_call>\n{"name": "' ~ call.function.name ~ '", "arguments": ' ~ call.function.arguments | tojson ~ '}\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}
{%- if enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %})";

// GLM 4.5: reasoning that is left out leaves its delimiters.
constexpr char kGlm[] = R"({%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}{{ '<|' ~ m.role ~ '|>' }}
{%- if m.role == 'assistant' %}
{%- if loop.index0 > ns.last and m.reasoning_content %}{{ '\n<think>' ~ m.reasoning_content.strip() ~ '</think>' }}
{%- else %}{{ '\n<think></think>' }}{% endif %}
{%- if m.content.strip() %}{{ '\n' ~ m.content.strip() }}{% endif %}
{%- for call in m.tool_calls %}{{ '\n<tool_call>' ~ call.function.name ~ '\n' }}
{%- for k, v in call.function.arguments.items() %}<arg_key>{{ k }}</arg_key>
<arg_value>{{ v if v is string else v | tojson }}</arg_value>
{% endfor %}</tool_call>{% endfor %}
{%- else %}{{ '\n' ~ m.content }}{% endif %}
{%- endfor %}{{ '<|assistant|>' if add_generation_prompt }}{# <|user|> <|observation|> #})";

// gpt-oss: the last message ends with another token than earlier ones, and reasoning goes once an answer follows.
constexpr char kChannels[] = R"({%- for m in messages %}
{%- if m.role == 'assistant' %}
{%- set final = namespace(follows=false) %}
{%- for later in messages[loop.index0:] %}{% if later.role == 'assistant' and not later.tool_calls %}{% set final.follows = true %}{% endif %}{% endfor %}
{%- if m.reasoning_content and not final.follows %}{{ '<|start|>assistant<|channel|>analysis<|message|>' ~ m.reasoning_content ~ '<|end|>' }}{% endif %}
{%- if m.tool_calls %}{% set call = m.tool_calls[0].function %}
{{- '<|start|>assistant to=functions.' ~ call.name ~ '<|channel|>commentary json<|message|>' ~ call.arguments | tojson ~ '<|call|>' }}
{%- elif loop.last and not add_generation_prompt %}{{ '<|start|>assistant<|channel|>final<|message|>' ~ m.content ~ '<|return|>' }}
{%- else %}{{ '<|start|>assistant<|channel|>final<|message|>' ~ m.content ~ '<|end|>' }}{% endif %}
{%- else %}{{ '<|start|>' ~ m.role ~ '<|message|>' ~ m.content ~ '<|end|>' }}{% endif %}
{%- endfor %}{{ '<|start|>assistant' if add_generation_prompt }})";

std::vector<Sample> Samples() {
  std::vector<Sample> samples = {
      {"qwen3", kQwen3, "<|im_end|>"}, {"glm", kGlm, "<|user|>"}, {"channels", kChannels, "<|return|>"}};
  const char* folder = std::getenv("INGOT_TEST_TEMPLATES");
  if (folder == nullptr) return samples;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    samples.push_back({entry.path().filename(), text.str(), "</s>"});
  }
  return samples;
}

// Every text of the template that looks like a token is one.
std::vector<std::string> TokensOf(const Sample& sample) {
  static const std::regex token(R"(<[|/!a-z_A-Z0-9\x80-\xff\-:]+>|\[/?[A-Z_]+\]|\]~b\]|\[e~\[)");
  std::set<std::string> tokens = {sample.eos, "<|endoftext|>"};
  const std::sregex_iterator end;
  for (std::sregex_iterator at(sample.source.begin(), sample.source.end(), token); at != end; ++at) {
    tokens.insert(at->str());
  }
  return {tokens.begin(), tokens.end()};
}

// Delimiters of thoughts and calls are added tokens but not special, as in the families' own files.
std::shared_ptr<const Tokenizer> TokenizerFor(const Sample& sample) {
  base::json::value json = *base::ParseJson(ByteTokenizerJson(TokensOf(sample)));
  for (base::json::value& token : json.as_object()["added_tokens"].as_array()) {
    const std::string text(token.at("content").as_string());
    const bool plain = text.find("think") != text.npos || text.find("tool_call") != text.npos ||
                       text.find("arg_") != text.npos || text.find("func") != text.npos;
    if (plain) token.as_object()["special"] = false;
  }
  return ParseTokenizerJson(base::PrintJson(json)).value();
}

class Family {
 public:
  explicit Family(const Sample& sample) : tokenizer_(TokenizerFor(sample)) {
    const auto made =
        ChatTemplate::Make(sample.source, R"({"bos_token": "<s>", "eos_token": ")" + sample.eos + "\"}", "");
    if (!made.ok()) return;
    const auto encoder = std::make_shared<const MarkedEncoder>(tokenizer_, (*made)->source());
    const auto output = DetectOutputFormat(**made, *encoder);
    auto format = MakeTemplateFormat(*made, encoder, output.ok() ? *output : *FindOutputFormat("plain"));
    if (format.ok()) format_ = *std::move(format);
  }
  const ChatFormat* operator->() const { return format_.get(); }
  const ChatFormat& operator*() const { return *format_; }
  bool ok() const { return format_ != nullptr; }
  std::vector<int32_t> Ids(const std::string& text) const { return tokenizer_->Encode(text, true); }
  std::string Text(std::span<const int32_t> ids) const { return tokenizer_->Decode(ids, false); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatFormat> format_;
};

Conversation FromJson(const std::string& text) { return *ConversationFromJson(*base::ParseJson(text)); }

// A call, its result, an answer, a question, and so on, with thinking in some turns, in all, or in none.
Conversation Talk(bool call_thinks, bool answer_thinks) {
  Conversation talk = FromJson(R"({"messages": [{"role": "user", "content": "100+200?"},
      {"role": "assistant", "content": "", "reasoning_content": "I shall add",
       "tool_calls": [{"id": "abcdef123", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 100, \"b\": \"200\"}"}}]},
      {"role": "tool", "tool_call_id": "abcdef123", "name": "add", "content": "300"},
      {"role": "assistant", "content": "It is 300.", "reasoning_content": "the tool said so"},
      {"role": "user", "content": "sure?"},
      {"role": "assistant", "content": "Yes.", "reasoning_content": "indeed"},
      {"role": "user", "content": "thanks"}],
      "tools": [{"type": "function", "function": {"name": "add", "description": "adds", "parameters": {"type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}}}]})");
  if (!call_thinks) talk.messages[1].reasoning.clear();
  if (!answer_thinks) talk.messages[3].reasoning.clear();
  if (!answer_thinks) talk.messages[5].reasoning.clear();
  return talk;
}

Conversation First(const Conversation& talk, size_t count) {
  Conversation part = talk;
  part.messages.resize(count);
  return part;
}

// For every template: a turn sampled in the template's form, from the template's prompt, is continued. Prompt, turn and
// tail together are the template's text of the whole conversation.
TEST(TemplateTurns, SampledInTheTemplatesFormAreContinued) {
  int continued = 0, families = 0;
  for (const Sample& sample : Samples()) {
    const Family family(sample);
    if (!family.ok()) continue;
    ++families;
    for (int kind = 0; kind < 4; ++kind) {
      const Conversation talk = Talk(kind & 1, kind & 2);
      for (size_t turn = 1; turn < talk.messages.size(); turn += 2) {
        for (size_t count = turn + 2; count <= talk.messages.size(); count += 2) {
          const Conversation now = First(talk, count);
          const auto prompt = family->Render(First(talk, turn), true), whole = family->Render(now, true);
          if (!prompt.ok() || !whole.ok()) continue;
          const std::string before = family.Text(prompt->ids), all = family.Text(whole->ids);
          const size_t end = family.Text(std::span(whole->ids).first(whole->sampled_ranges[turn].second)).size();
          if (!all.starts_with(before) || end <= before.size()) continue;
          const std::vector<int32_t> sampled = family.Ids(all.substr(before.size(), end - before.size()));
          for (const std::string& from : {prompt->text_key, std::string()}) {
            const auto tail = family->RenderTail(now, turn + 1, sampled, {.sampled_from = from});
            ASSERT_TRUE(tail.ok()) << sample.name << ": " << tail.status() << "\n" << all;
            EXPECT_EQ(before + family.Text(sampled) + family.Text(tail->ids), all) << sample.name;
          }
          ++continued;
        }
      }
    }
  }
  EXPECT_GE(continued, 40);
  std::printf("%d turns of %d templates\n", continued, families);
}

// A turn by RenderTurns: its context, then the sampled ids.
struct WholeTurn {
  std::vector<int32_t> ids;
  size_t context = 0;
};
std::vector<WholeTurn> Whole(const std::vector<RenderedTurn>& turns) {
  std::vector<WholeTurn> whole;
  for (const RenderedTurn& turn : turns) {
    std::vector<int32_t> ids;
    if (!whole.empty()) ids = whole.back().ids;
    EXPECT_LE(turn.shared, ids.size());
    ids.resize(turn.shared);
    ids.insert(ids.end(), turn.context.begin(), turn.context.end());
    const size_t context = ids.size();
    ids.insert(ids.end(), turn.sampled.begin(), turn.sampled.end());
    whole.push_back({ids, context});
  }
  return whole;
}

void ExpectAsRenderedWhenLast(const ChatFormat& format, const Conversation& talk, const std::string& name) {
  const auto turns = format.RenderTurns(talk, 0);
  if (!turns.ok()) return;
  const std::vector<WholeTurn> whole = Whole(*turns);
  for (size_t t = 0; t < turns->size(); ++t) {
    const size_t message = (*turns)[t].message;
    const auto alone = format.Render(First(talk, message + 1), false);
    ASSERT_TRUE(alone.ok()) << alone.status();
    const auto [first, last] = alone->sampled_ranges[message];
    EXPECT_EQ(whole[t].context, first) << name << ", message " << message;
    const auto end = alone->ids.begin() + static_cast<std::ptrdiff_t>(last);
    EXPECT_EQ(whole[t].ids, std::vector<int32_t>(alone->ids.begin(), end)) << name << ", message " << message;
  }
}

// A random conversation: messages in any order, texts that begin and end alike, forged tokens, thoughts in either
// place.
Conversation RandomTalk(std::mt19937& rng) {
  const std::vector<std::string> texts = {
      "", "a", "ab", "<think>\nx\n</think>\n\na", "<|im_end|>", "a\n", "</think>a", "né", "<|im_", "end|>"};
  const auto text = [&] { return texts[rng() % texts.size()]; };
  Conversation talk = Talk(true, true);
  const Message call = talk.messages[1];
  if (rng() % 2 == 0) talk.tools.clear();
  talk.messages.resize(1);
  for (int more = 1 + static_cast<int>(rng() % 9); more > 0; --more) {
    Message message;
    message.role = std::vector<std::string>{"assistant", "assistant", "user", "tool", "system"}[rng() % 5];
    if (message.role == "assistant" && rng() % 3 == 0) message = call;
    message.content = text();
    message.reasoning = message.role == "assistant" && rng() % 2 == 0 ? text() : "";
    talk.messages.push_back(message);
  }
  return talk;
}

// A turn is rendered as it was when it was the last one, whatever the template later does with it or with its context.
TEST(TemplateTurns, AreRenderedAsWhenTheyWereTheLast) {
  for (const Sample& sample : Samples()) {
    const Family family(sample);
    if (!family.ok()) continue;
    for (int kind = 0; kind < 4; ++kind) ExpectAsRenderedWhenLast(*family, Talk(kind & 1, kind & 2), sample.name);
    std::mt19937 rng(7);
    for (int trial = 0; trial < 200; ++trial) ExpectAsRenderedWhenLast(*family, RandomTalk(rng), sample.name);
  }
  const auto builtin = *MakeChatFormat("hermes", TokenizerFor(Samples()[0]));
  std::mt19937 rng(8);
  for (int trial = 0; trial < 300; ++trial) ExpectAsRenderedWhenLast(*builtin, RandomTalk(rng), "hermes");
}

TEST(TemplateTurns, KeepTheirThoughtsInEitherPlace) {
  const Family family(Samples()[0]);
  const auto sampled = [&](const Conversation& talk) {
    std::vector<std::string> texts;
    const std::vector<RenderedTurn> turns = *family->RenderTurns(talk, 0);
    for (const RenderedTurn& turn : turns) texts.push_back(family.Text(turn.sampled));
    return texts;
  };
  const std::string call =
      "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 100, \"b\": \"200\"}}\n</tool_call><|im_end|>";
  EXPECT_THAT(sampled(Talk(true, true)),
              testing::ElementsAre("<think>\nI shall add\n</think>\n\n" + call,
                                   "<think>\nthe tool said so\n</think>\n\nIt is 300.<|im_end|>",
                                   "<think>\nindeed\n</think>\n\nYes.<|im_end|>"));
  EXPECT_THAT(sampled(Talk(false, false)),
              testing::ElementsAre("<think>\n\n</think>\n\n" + call, "<think>\n\n</think>\n\nIt is 300.<|im_end|>",
                                   "<think>\n\n</think>\n\nYes.<|im_end|>"));
  const auto turns = *family->RenderTurns(Talk(true, true), 3);
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_EQ(turns[0].message, 3u);
  EXPECT_EQ(turns[0].shared, 0u);
  // The question drops earlier thoughts, so the turns share only the ids before the first of them.
  EXPECT_EQ(family.Text(std::span(turns[0].context).first(turns[1].shared)),
            "<|im_start|>user\n100+200?<|im_end|>\n<|im_start|>assistant\n");
}

TEST(TemplateTurns, AreRenderedWithTheTemplatesVariables) {
  const Family family(
      {"styled",
       "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ (style or '') ~ m.content ~ '<|im_end|>\n' }}"
       "{% endfor %}{{ '<|im_start|>assistant\n' if add_generation_prompt }}",
       "<|im_end|>"});
  Conversation talk = Talk(true, true);
  talk.template_variables["style"] = "!";
  const std::vector<WholeTurn> turns = Whole(*family->RenderTurns(talk, 0));
  EXPECT_EQ(turns.size(), 3u);
  for (const WholeTurn& turn : turns) {
    EXPECT_THAT(family.Text(turn.ids), testing::HasSubstr("\n!100+200?<|im_end|>"));
  }
}

// "ok", or the reason against it, for `sampled` behind the prompt of messages [0, turn), continued with the next
// message.
std::string Verdict(const Family& family, const Conversation& talk, size_t turn, const std::string& sampled) {
  const auto prompt = family->Render(First(talk, turn), true);
  const auto tail = family->RenderTail(First(talk, turn + 2), turn + 1, family.Ids(sampled));
  const std::string key = prompt.ok() ? prompt->text_key : "";
  const auto named = family->RenderTail(First(talk, turn + 2), turn + 1, family.Ids(sampled), {.sampled_from = key});
  EXPECT_EQ(named.status().code(), tail.status().code()) << named.status() << tail.status();
  if (tail.ok()) return "ok";
  return absl::IsFailedPrecondition(tail.status()) ? "thought" : absl::IsAborted(tail.status()) ? "other" : "error";
}

constexpr char kHermesCall[] =
    "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":100,  \"b\": \"200\"}}\n</tool_call>";

TEST(TemplateTurns, WithoutAThoughtAreNotStripped) {
  const Family family(Samples()[0]);
  const Conversation talk = Talk(false, false);
  EXPECT_EQ(Verdict(family, talk, 1, std::string(kHermesCall) + "<|im_end|>"), "ok");
  EXPECT_EQ(Verdict(family, talk, 1, kHermesCall), "ok") << "cut off before its end";
  EXPECT_EQ(Verdict(family, talk, 3, "It is 300.<|im_end|>"), "ok");
  EXPECT_EQ(Verdict(family, talk, 3, "\nIt is 300. <|im_end|>"), "ok") << "white space around the text";
  // The delimiters of an empty thought are a thought, which the template leaves out.
  EXPECT_EQ(Verdict(family, talk, 1, "<think>\n\n</think>\n\n" + std::string(kHermesCall) + "<|im_end|>"), "thought");
  EXPECT_EQ(Verdict(family, talk, 3, "<think>\n\n</think>\n\nIt is 300.<|im_end|>"), "thought");
  Conversation off = talk;
  off.template_variables["enable_thinking"] = false;
  EXPECT_EQ(Verdict(family, off, 3, "It is 300.<|im_end|>"), "thought") << "the generation prompt wrote it";
}

TEST(TemplateTurns, RewrittenByTheTemplateAreNotReportedAsDroppedThoughts) {
  const Conversation talk = Talk(false, false);
  // The template cuts all messages short except the last.
  const Family cut(
      {"cut",
       "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ (m.content if loop.last else m.content[:6])"
       " ~ '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' if add_generation_prompt }}",
       "<|im_end|>"});
  EXPECT_EQ(Verdict(cut, talk, 3, "It is 300.<|im_end|>"), "other");
  EXPECT_EQ(Verdict(cut, talk, 5, "Yes.<|im_end|>"), "ok");
  // The template adds a thought, which was not sampled, to the last message.
  const Family family(Samples()[0]);
  const Conversation last = First(talk, 4);
  EXPECT_EQ(family->RenderTail(last, 4, family.Ids("It is 300.<|im_end|>")).status().code(),
            absl::StatusCode::kAborted);
}

TEST(TemplateTurns, KeepTheirThoughtsAsLongAsTheTemplateDoes) {
  const Family family(Samples()[0]);
  const Conversation talk = Talk(true, true);
  const std::string call = "<think>\nI shall add\n</think>\n\n" + std::string(kHermesCall) + "<|im_end|>";
  EXPECT_EQ(Verdict(family, talk, 1, call), "ok");
  EXPECT_EQ(Verdict(family, talk, 3, "<think>\nthe tool said so\n</think>\n\nIt is 300.<|im_end|>"), "thought");
  // The next question drops the thought of an earlier turn.
  Conversation mixed = Talk(true, false);
  EXPECT_EQ(Verdict(family, mixed, 3, "It is 300.<|im_end|>"), "thought");
}

TEST(TemplateTurns, OfOtherFamilies) {
  const Family glm(Samples()[1]), channels(Samples()[2]);
  ASSERT_EQ(glm->output()->name(), "glm45");
  const std::string call =
      "\n<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>100</arg_value>\n<arg_key>b</arg_key>\n"
      "<arg_value>200</arg_value>\n</tool_call>";
  EXPECT_EQ(Verdict(glm, Talk(true, true), 1, "\n<think>I shall add</think>" + call), "ok");
  EXPECT_EQ(Verdict(glm, Talk(false, true), 1, "\n<think></think>" + call), "ok");
  EXPECT_EQ(Verdict(glm, Talk(false, true), 1, call), "other") << "the marks of a thought are added";
  EXPECT_EQ(Verdict(glm, Talk(true, true), 3, "\n<think>the tool said so</think>\nIt is 300."), "thought");
  EXPECT_EQ(Verdict(glm, Talk(false, false), 3, "\n<think></think>\nIt is 300."), "ok");
  // The template writes the headers of channels in another order than the model.
  ASSERT_EQ(channels->output()->name(), "harmony");
  const std::string to =
      "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 100, \"b\": \"200\"}<|call|>";
  EXPECT_EQ(Verdict(channels, Talk(false, false), 1, to), "ok");
  EXPECT_EQ(Verdict(channels, Talk(true, false), 1,
                    "<|channel|>analysis<|message|>I shall add<|end|><|start|>assistant" + to),
            "ok");
  const std::string final = "<|channel|>final<|message|>It is 300.";
  EXPECT_EQ(Verdict(channels, Talk(false, false), 3, final + "<|end|>"), "ok");
  EXPECT_EQ(Verdict(channels, Talk(false, false), 3, final + "<|return|>"), "other") << "another token ends it now";
  EXPECT_EQ(Verdict(channels, Talk(false, true), 3,
                    "<|channel|>analysis<|message|>the tool said so<|end|><|start|>assistant" + final + "<|return|>"),
            "thought");
}

}  // namespace
}  // namespace ingot::text::template_turns_test
