// Calls in constrained sampling: parameters between delimiters, repetition, and every output format that can be forced.
// For each format, any sampled text is read back as calls with arguments that the tools' schemas allow.
#include <map>

#include "base/json.h"
#include "base/rng.h"
#include "grammar/support.h"
#include "text/output/output_pattern.h"
#include "text/output/output_stream.h"

namespace ingot::grammar {
namespace {

namespace json = base::json;
using testing::HasSubstr;

const ParameterSyntax kXml{
    .begin = "<p=", .text_key_end = ">\n", .json_key_end = ">\n", .value_end = "\n</p>\n", .stop = "</p>"};
const ParameterSyntax kTyped{
    .begin = "<p ", .text_key_end = " text>", .json_key_end = " json>", .value_end = "</p>", .stop = "</p>"};

Part Parameters(const std::string& schema, const ParameterSyntax& syntax = kXml) {
  return {.is_schema = true, .text = schema, .parameters = syntax};
}
Part Literal(const std::string& text) { return {.is_schema = false, .text = text}; }

absl::StatusOr<std::shared_ptr<const Program>> Compile(std::vector<Part> parts,
                                                       const std::vector<std::string>& atoms = {}) {
  return Compiler(MakeVocabulary({}, atoms)).Compile({{std::move(parts)}, ""});
}

void ExpectTakes(std::vector<Part> parts, const std::vector<std::string>& yes, const std::vector<std::string>& no) {
  const auto program = Compile(std::move(parts));
  ASSERT_TRUE(program.ok()) << program.status();
  for (const std::string& text : yes) EXPECT_TRUE(Takes(*program, text)) << "must take " << text;
  for (const std::string& text : no) EXPECT_FALSE(Takes(*program, text)) << "must not take " << text;
}

std::string P(const std::string& key, const std::string& value) { return "<p=" + key + ">\n" + value + "\n</p>\n"; }

TEST(Parameters, FollowTheSchemasOrderWithEveryRequiredOne) {
  ExpectTakes({Parameters(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},
                              "c":{"type":"boolean"}},"required":["b"]})")},
              {P("b", "x"), P("a", "1") + P("b", ""), P("a", "-7") + P("b", "x") + P("c", "true")},
              {"", P("a", "1"), P("b", "x") + P("a", "1"), P("b", "x") + P("d", "1"), P("a", "one") + P("b", "x"),
               P("b", "x") + P("c", "True"), P("b", "x") + "\n", "{\"b\": \"x\"}"});
}

TEST(Parameters, TextIsRawUpToItsEnd) {
  ExpectTakes(
      {Parameters(R"({"type":"object","properties":{"t":{"type":"string"}},"required":["t"]})")},
      {P("t", "two\nlines\n\n"), P("t", "\"q\" \\ {é \xF0\x9F\x98\x80} <p=t> </p >"), P("t", "\n"), P("t", "</p")},
      {P("t", "x</p>y"), P("t", "x\n</p>\n\n</p>"), P("t", "\xC3"), P("t", "\xED\xA0\x80"), "<p=t>\nx</p>\n"});
}

TEST(Parameters, StringValuesObeyTheirSchemas) {
  const auto one = [](const std::string& schema) {
    return std::vector<Part>{Parameters(R"({"type":"object","properties":{"t":)" + schema + R"(},"required":["t"]})")};
  };
  ExpectTakes(one(R"({"enum":["a","b c",1,null,"x</p>"]})"), {P("t", "a"), P("t", "b c"), P("t", "1"), P("t", "null")},
              {P("t", "\"a\""), P("t", "b"), P("t", "2"), P("t", "x</p>")});
  ExpectTakes(one(R"({"type":"string","pattern":"^[a-z]+é?$"})"), {P("t", "abc"), P("t", "xé")},
              {P("t", ""), P("t", "A"), P("t", "\"abc\"")});
  ExpectTakes(one(R"({"type":"string","minLength":2,"maxLength":3})"), {P("t", "é\n"), P("t", "abc")},
              {P("t", "a"), P("t", "abcd")});
  ExpectTakes(one(R"({"anyOf":[{"type":"integer","minimum":0},{"type":"string","enum":["all"]}]})"),
              {P("t", "3"), P("t", "all")}, {P("t", "-3"), P("t", "some")});
  ExpectTakes(one(R"({"$ref":"#/properties/t/$defs/x","$defs":{"x":{"type":"array","items":{"type":"string"}}}})"),
              {P("t", R"(["a", "b"])"), P("t", "[]")}, {P("t", "a"), P("t", "[1]")});
  ExpectTakes(one(R"({"type":"object","properties":{"k":{"type":"number"}}})"), {P("t", R"({"k": 1.5})")},
              {P("t", "k"), P("t", R"({"k": "x"})")});
  ExpectTakes(one("true"), {P("t", "anything"), P("t", "{\"a\": [1]}"), P("t", "3")}, {P("t", "</p>")});
}

TEST(Parameters, DelimitersMayTellTextFromJson) {
  ExpectTakes(
      {Parameters(R"({"type":"object","properties":{"a":{"type":["string","integer"]},"b":{"type":"null"}}})", kTyped)},
      {"", "<p a text>12</p>", "<p a json>12</p>", "<p a text></p><p b json>null</p>"},
      {"<p a json>x</p>", "<p b text>null</p>", "<p b json>1</p>"});
}

TEST(Parameters, AdditionalOnesAppearOnlyWhereTheSchemaAllowsThem) {
  ExpectTakes({Parameters(R"({"type":"object"})")}, {"", P("x", "1"), P("a.b-c_9", "text") + P("x", "")},
              {P("", "1"), P("a b", "1"), P("<", "1")});
  ExpectTakes({Parameters(R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":
                              {"type":"boolean"}})")},
              {P("a", "1") + P("b", "true") + P("c", "false"), P("b", "true")},
              {P("b", "1"), P("b", "true") + P("a", "1"), P("a", "true")});
  ExpectTakes({Parameters(R"({"type":"object","properties":{},"additionalProperties":false})")}, {""}, {P("a", "1")});
  ExpectTakes({Parameters(R"({"anyOf":[{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]},
                              {"type":"object","properties":{"b":{"type":"null"}},"required":["b"]},
                              {"type":"array"}]})")},
              {P("a", "null"), P("b", "null")}, {"", P("a", "null") + P("b", "null"), "[]"});
}

// Delimiters that are atomic tokens are taken as tokens; a text may contain their spelling.
TEST(Parameters, DelimitersMayBeAtomicTokens) {
  const ParameterSyntax glm{
      .begin = "<k>", .text_key_end = "</k>\n<v>", .json_key_end = "</k>\n<v>", .value_end = "</v>\n", .stop = "</v>"};
  const auto program =
      Compile({Parameters(R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]})", glm)},
              {"<k>", "</k>", "<v>", "</v>"});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto takes = [&](const std::vector<std::string>& tokens) {
    const Vocabulary& vocabulary = *(*program)->vocabulary;
    Matcher matcher(*program);
    for (const std::string& token : tokens) {
      const int32_t atom = token.size() > 1 ? vocabulary.AtomAt(token) : -1;
      if (atom >= 0 ? !matcher.Accept(atom) : !matcher.AcceptText(token)) return false;
    }
    return matcher.complete();
  };
  EXPECT_TRUE(takes({"<k>", "a", "</k>", "\n", "<v>", "x ", "<", "/", "v", ">", "</v>", "\n"}));
  EXPECT_TRUE(takes({"<k>", "a", "</k>", "\n", "<v>", "</v>", "\n"}));
  EXPECT_FALSE(takes({"<k>", "a", "</k>", "\n", "<v>", "x", "<k>", "</v>", "\n"})) << "another token in a text";
}

TEST(Parameters, FaultsAreNamed) {
  const auto fault = [](const Part& part) { return std::string(Compile({part}).status().message()); };
  EXPECT_THAT(fault(Parameters(R"({"type":"object","properties":{"a>b":{}}})")), HasSubstr("a>b: this name"));
  EXPECT_THAT(fault(Parameters(R"({"type":"object","properties":{"":{}}})")), HasSubstr("this name"));
  EXPECT_THAT(fault(Parameters(R"({"enum":[{}]})")), HasSubstr("an enum of objects"));
  EXPECT_THAT(fault(Parameters(R"({"type":"array"})")), HasSubstr("matches no string"));
  EXPECT_THAT(fault(Parameters(R"({"type":"object","properties":{"a":{"not":{}}}})")), HasSubstr("keyword 'not'"));
  EXPECT_THAT(fault(Parameters("{")), HasSubstr("parts[0].json_schema"));
  ParameterSyntax odd = kXml;
  odd.stop = "</q>";
  EXPECT_THAT(fault(Parameters("{}", odd)), HasSubstr("value_end must contain stop"));
}

TEST(Repetition, OneOrMoreWithTextBetween) {
  Part some = Literal(", ");
  some.repeated = {{Literal("a")}, {Literal("b"), {.is_schema = true, .text = R"({"type":"integer"})"}}};
  ExpectTakes({Literal("["), some, Literal("]")}, {"[a]", "[b1]", "[a, b20, a]"},
              {"[]", "[a,b1]", "[a, ]", "[ab1]", "[b]", "a"});
  Part close = some;  // no separator
  close.text = "";
  ExpectTakes({close, Literal(".")}, {"a.", "aab1b2a."}, {".", "a, a."});
  Part empty;  // one alternative is empty
  empty.repeated = {{}, {Literal("x")}};
  ExpectTakes({empty, Literal(".")}, {".", "x.", "xx."}, {"", "y."});
}

// ---- Texts sampled under the calls of a format ----

const char* const kTools = R"([
    {"type":"function","function":{"name":"write_file","parameters":{"type":"object","required":["path"],"properties":{
      "path":{"type":"string"},"count":{"type":"integer","minimum":1,"maximum":99},"mode":{"enum":["w","a"]},
      "tags":{"type":"array","items":{"type":"string","maxLength":4},"maxItems":2},"force":{"type":"boolean"}}}}},
    {"type":"function","function":{"name":"ping","parameters":{"type":"object","properties":{}}}}])";

std::vector<Part> PartsOf(const text::OutputFormat& format, const text::OutputFormat::CallShape& shape,
                          const std::string& schema) {
  using Piece = text::OutputFormat::CallPiece;
  std::vector<Part> parts;
  for (const Piece& piece : shape.call) {
    if (piece.kind == Piece::kText) parts.push_back(Literal(piece.text));
    if (piece.kind == Piece::kArguments) parts.push_back({.is_schema = true, .text = schema});
    if (piece.kind == Piece::kKeywords) parts.push_back({.is_schema = true, .text = schema, .keywords = true});
    if (piece.kind == Piece::kIndex) parts.push_back({.is_schema = true, .text = R"({"type":"integer","minimum":0})"});
    if (piece.kind != Piece::kParameters) continue;
    const auto syntax = format.ShapeOfParameters();
    parts.push_back(Parameters(schema, {.begin = syntax.begin,
                                        .text_key_end = syntax.text_key_end,
                                        .json_key_end = syntax.json_key_end,
                                        .value_end = syntax.value_end,
                                        .stop = syntax.stop}));
  }
  return parts;
}

// Samples tokens until the text is complete and a coin ends it, and pushes each into `stream`; nullopt: it grew too
// long.
std::optional<text::ParsedOutput> Draw(const std::shared_ptr<const Program>& program, text::OutputStream stream,
                                       uint64_t seed, std::string* text) {
  uint64_t drawn = 0;
  const auto random = [&](size_t bound) { return base::DeriveSeed(seed, drawn++) % bound; };
  const Vocabulary& vocabulary = *program->vocabulary;
  Matcher matcher(program);
  for (bool done = false; !done && text->size() < 3000;) {
    const auto allowed = matcher.Allowed();
    EXPECT_TRUE(allowed.ok()) << allowed.status();
    if (!allowed.ok()) return std::nullopt;
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      // Prefers longer tokens such as delimiters, so that texts end.
      if ((*allowed)->contains(id)) ids.insert(ids.end(), vocabulary.bytes(id).size() > 1 ? 24 : 1, id);
    }
    done = matcher.complete() && (ids.empty() || random(4) == 0);
    if (done) break;
    const int32_t id = ids[random(ids.size())];
    EXPECT_TRUE(matcher.Accept(id));
    stream.Push(vocabulary.bytes(id), vocabulary.atomic(id));
    *text += vocabulary.bytes(id);
  }
  if (text->size() >= 3000) return std::nullopt;
  stream.Finish();
  return stream.message();
}

void ExpectAllowed(const text::ToolCall& call, const std::string& text) {
  const auto arguments = base::ParseJson(call.arguments_json);
  ASSERT_TRUE(arguments.ok() && arguments->is_object()) << text;
  if (call.name == "ping") {
    EXPECT_TRUE(arguments->get_object().empty()) << text;
    return;
  }
  ASSERT_EQ(call.name, "write_file") << text;
  ASSERT_TRUE(arguments->get_object().contains("path")) << text;
  for (const auto& argument : arguments->get_object()) {
    const std::string_view key(argument.key().data(), argument.key().size());
    const json::value& value = argument.value();
    if (key == "path") {
      EXPECT_TRUE(value.is_string()) << text;
    } else if (key == "count") {
      EXPECT_TRUE(value.is_int64() && value.get_int64() >= 1 && value.get_int64() <= 99) << text;
    } else if (key == "mode") {
      EXPECT_TRUE(value == "w" || value == "a") << text;
    } else if (key == "tags") {
      EXPECT_TRUE(value.is_array() && value.get_array().size() <= 2) << text;
    } else {
      EXPECT_TRUE(key == "force" && value.is_bool()) << text;
    }
  }
}

TEST(ForcedCalls, EverySampledTextIsReadAsCalls) {
  const json::value list = *base::ParseJson(kTools);
  const std::vector<json::value> tools(list.get_array().begin(), list.get_array().end());
  std::map<std::string, int> calls;
  for (const std::string& name : text::OutputFormatNames()) {
    const text::OutputFormat* format = *text::FindOutputFormat(name);
    Part some;
    std::string begin, end;
    std::vector<std::string> pieces = {"path", "\"", "\": ", "</", "\n", "write_file", "true", ", ", "}"};
    bool forced = true;
    for (const json::value& tool : tools) {
      const json::value& function = *base::Find(tool, "function");
      const auto shape = format->ShapeOf(std::string(base::Find(function, "name")->get_string()));
      forced = forced && shape.ok();
      if (!forced) break;
      begin = shape->begin;
      end = shape->end;
      some.text = shape->between;
      some.repeated.push_back(PartsOf(*format, *shape, base::PrintJson(*base::Find(function, "parameters"))));
      for (const auto& piece : shape->call) {
        if (piece.text.size() > 1) pieces.push_back(piece.text);
        if (piece.kind == text::OutputFormat::CallPiece::kKeywords) pieces.insert(pieces.end(), {"='", "'"});
      }
      const auto between = format->ShapeOfParameters();
      for (const std::string& text : {between.begin, between.value_end, between.stop, end}) {
        if (text.size() > 1) pieces.push_back(text);
      }
    }
    if (!forced) continue;
    const std::vector<std::string> marks = text::PossibleTokens(format->row());
    const auto program = Compiler(MakeVocabulary(pieces, marks)).Compile({{{Literal(begin), some, Literal(end)}}, ""});
    ASSERT_TRUE(program.ok()) << name << ": " << program.status();
    for (uint64_t seed = 0; seed < 40; ++seed) {
      std::string text;
      const auto reader = format->ForTokenizer(*text::MakeByteTokenizer(marks));
      const auto read = Draw(*program, text::OutputStream(reader, {.tools = tools}), seed, &text);
      if (!read.has_value()) continue;
      ASSERT_FALSE(read->malformed) << name << ": " << text;
      EXPECT_EQ(read->content, "") << name << ": " << text;
      ASSERT_GE(read->tool_calls.size(), 1u) << name << ": " << text;
      for (const text::ToolCall& call : read->tool_calls) ASSERT_NO_FATAL_FAILURE(ExpectAllowed(call, text));
      calls[name] += static_cast<int>(read->tool_calls.size());
    }
  }
  for (const char* name : {"hermes", "qwen3_coder", "minimax_m2", "glm45", "deepseek_v32", "kimi_k2", "harmony",
                           "seed_oss", "llama_pythonic", "lfm2"}) {
    EXPECT_GE(calls[name], 20) << name;
  }
}

}  // namespace
}  // namespace ingot::grammar
