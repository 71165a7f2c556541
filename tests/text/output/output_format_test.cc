// Outputs as each family's models write them, by their chat templates, parsed to messages.
#include "text/output/output_format.h"

#include <gtest/gtest.h>

namespace ingot::text::output_format_test {
namespace {

std::vector<base::json::value> Tools() {
  std::vector<base::json::value> tools;
  for (const char* json : {
           R"({"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
                "city":{"type":"string"},"days":{"type":"integer"},"hourly":{"type":"boolean"},
                "unit":{"enum":["C","F"]},"tags":{"type":"array","items":{"type":"string"}},
                "place":{"$ref":"#/$defs/Place"},"note":{"type":["string","null"]},
                "limit":{"anyOf":[{"type":"number"},{"type":"null"}]}},
                "$defs":{"Place":{"type":"object","properties":{"lat":{"type":"number"}}}}}}})",
           R"({"type":"function","function":{"name":"write_file","parameters":{"type":"object","properties":{
                "path":{"type":"string"},"text":{"type":"string"}}}}})",
           R"({"type":"function","function":{"name":"ping","parameters":{"type":"object","properties":{}}}})",
       }) {
    tools.push_back(base::ParseJson(json).value());
  }
  return tools;
}

ParsedOutput Parse(const std::string& format, std::string_view output, CallMode calls = CallMode::kWhole,
                   std::string_view prefill = "") {
  static const auto* const tools = new std::vector<base::json::value>(Tools());
  return (*FindOutputFormat(format))->Parse(output, {.tools = *tools, .prefill = prefill, .calls = calls});
}

// name(arguments) of all calls, without the content around them.
std::string Calls(const ParsedOutput& parsed) {
  std::string out = parsed.malformed ? "MALFORMED " : "";
  for (const ToolCall& call : parsed.tool_calls) {
    out += (call.id.empty() ? "" : call.id + "=") + call.name + "(" + call.arguments_json + ")";
  }
  return out;
}

TEST(OutputFormats, AreFoundByNameAndAlias) {
  EXPECT_EQ((*FindOutputFormat("qwen3"))->name(), "hermes");
  EXPECT_EQ((*FindOutputFormat("gpt_oss"))->name(), "harmony");
  const auto missing = FindOutputFormat("qwen9");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("kimi_k2"), absl::string_view::npos);
  EXPECT_GE(OutputFormatNames().size(), 12u);
}

TEST(OutputFormats, PlainHasReasoningAndNoCalls) {
  const auto parsed = Parse("plain", "<think>\nso\n</think>\n\nHi <tool_call>{}</tool_call>");
  EXPECT_EQ(parsed.reasoning, "so");
  EXPECT_EQ(parsed.content, "Hi <tool_call>{}</tool_call>");
  EXPECT_EQ(Calls(parsed), "");
}

TEST(OutputFormats, Hermes) {
  const auto parsed = Parse("hermes",
                            "<think>\nThe user wants two.\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": "
                            "\"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}}\n</tool_call>\n"
                            "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>");
  EXPECT_EQ(parsed.reasoning, "The user wants two.");
  EXPECT_EQ(parsed.content, "Let me look.");
  EXPECT_EQ(Calls(parsed), R"(get_weather({"city": "Paris", "days": 2})ping({}))");
}

TEST(OutputFormats, Qwen3Coder) {
  const auto parsed = Parse("qwen3_coder",
                            "I'll check.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nSão Paulo\n"
                            "</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=hourly>\nTrue\n</parameter>\n"
                            "<parameter=tags>\n[\"a\", 1]\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
                            "<function=ping>\n</function>\n</tool_call>");
  EXPECT_EQ(parsed.content, "I'll check.");
  EXPECT_EQ(Calls(parsed),
            R"(get_weather({"city": "São Paulo", "days": 3, "hourly": true, "tags": ["a", 1]})ping({}))");
  // Without the opening tag; a value of several lines keeps its indentation and white space.
  EXPECT_EQ(Calls(Parse("qwen3_coder",
                        "<function=write_file>\n<parameter=path>\na.py\n</parameter>\n<parameter=text>\n  def f():\n"
                        "    return \"</parameter>\"\n\n</parameter>\n</function>\n</tool_call>")),
            R"(write_file({"path": "a.py", "text": "  def f():\n    return \"</parameter>\"\n"}))");
}

TEST(OutputFormats, ParametersAreTypedByTheToolsSchema) {
  const auto value = [](const std::string& parameter, const std::string& text) {
    const auto parsed = Parse("qwen3_coder", "<tool_call>\n<function=get_weather>\n<parameter=" + parameter + ">\n" +
                                                 text + "\n</parameter>\n</function>\n</tool_call>");
    return Calls(parsed);
  };
  EXPECT_EQ(value("city", "42"), R"(get_weather({"city": "42"}))");
  EXPECT_EQ(value("city", "null"), R"(get_weather({"city": "null"}))");
  EXPECT_EQ(value("city", ""), R"(get_weather({"city": ""}))");
  EXPECT_EQ(value("days", " 42 "), R"(get_weather({"days": 42}))");
  EXPECT_EQ(value("days", "None"), R"(get_weather({"days": null}))");
  EXPECT_EQ(value("days", "soon"), R"(get_weather({"days": "soon"}))");  // the tool must refuse it
  EXPECT_EQ(value("hourly", "False"), R"(get_weather({"hourly": false}))");
  EXPECT_EQ(value("unit", "C"), R"(get_weather({"unit": "C"}))");
  EXPECT_EQ(value("unit", "1"), R"(get_weather({"unit": "1"}))");
  EXPECT_EQ(value("place", "{'lat': 1.5}"), R"(get_weather({"place": {"lat": 1.5}}))");
  EXPECT_EQ(value("place", "{\"lat\":1.50}"), R"(get_weather({"place": {"lat":1.50}}))");  // JSON stays as written
  EXPECT_EQ(value("note", "null"), R"(get_weather({"note": null}))");
  EXPECT_EQ(value("note", "7"), R"(get_weather({"note": "7"}))");
  EXPECT_EQ(value("limit", "1e3"), R"(get_weather({"limit": 1e3}))");
  EXPECT_EQ(value("unknown", "[1]"), R"(get_weather({"unknown": [1]}))");
  EXPECT_EQ(value("unknown", "\"q\""), R"(get_weather({"unknown": "\"q\""}))");
}

TEST(OutputFormats, Llama3Json) {
  EXPECT_EQ(Calls(Parse("llama3_json", R"({"name": "get_weather", "parameters": {"city": "Paris"}})")),
            R"(get_weather({"city": "Paris"}))");
  EXPECT_EQ(Calls(Parse("llama3_json", R"(<|python_tag|>{"type": "function", "name": "ping", "parameters": {}})")),
            "ping({})");
  const auto two =
      Parse("llama3_json", R"({"name": "ping", "parameters": {}}; {"name": "ping", "parameters": {"a": 1}} done)");
  EXPECT_EQ(Calls(two), R"(ping({})ping({"a": 1}))");
  EXPECT_EQ(two.content, " done");
  // JSON that is an answer, and code, are content.
  for (const char* text : {R"({"answer": 3})", R"({"name": "Ada"})", "{", "{}", "  {\"a\"", "[1, 2]"}) {
    const auto parsed = Parse("llama3_json", text);
    EXPECT_EQ(parsed.content, text);
    EXPECT_EQ(Calls(parsed), "");
  }
  EXPECT_EQ(Calls(Parse("llama3_json", R"({"name": "ping", "parameters": {"a": )")), "MALFORMED ");
  EXPECT_EQ(Calls(Parse("llama3_json", "<|python_tag|>print(1)")), "MALFORMED ");
}

TEST(OutputFormats, LlamaPythonic) {
  EXPECT_EQ(
      Calls(Parse("llama_pythonic", R"([get_weather(city='Paris, "FR"', days=-2, hourly=True, note=None), ping()])")),
      R"(get_weather({"city": "Paris, \"FR\"", "days": -2, "hourly": true, "note": null})ping({}))");
  EXPECT_EQ(Calls(Parse("llama_pythonic",
                        "<|python_start|>[write_file(path=\"a\", text='it\\'s\\n', tags=[('x', 1.5), {'k': ')'}],)]"
                        "<|python_end|>")),
            R"x(write_file({"path": "a", "text": "it's\n", "tags": [["x", 1.5], {"k": ")"}]}))x");
  for (const char* text : {"[1, 2]", "[link](http://x)", "[f(1)]", "[a, b]", "[", "[f", "[]"}) {
    const auto parsed = Parse("llama_pythonic", text);
    EXPECT_EQ(parsed.content, text);
    EXPECT_EQ(Calls(parsed), "");
  }
  EXPECT_EQ(Calls(Parse("llama_pythonic", "[ping(a=os.getcwd())]")), "MALFORMED ");
  EXPECT_EQ(Calls(Parse("llama_pythonic", "[ping(a=1)")), "MALFORMED ping({\"a\": 1})");  // the list is not closed
}

TEST(OutputFormats, DeepSeek) {
  const auto v3 =
      Parse("deepseek_v3",
            "Sure.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
            "{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n"
            "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>");
  EXPECT_EQ(v3.content, "Sure.");
  EXPECT_EQ(Calls(v3), R"(get_weather({"city": "Paris"})ping({}))");
  const auto v31 = Parse("deepseek_v31",
                         "I should.</think>Sure.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
                         "{\"city\": \"Paris\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}"
                         "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                         CallMode::kWhole, "<think>");
  EXPECT_EQ(v31.reasoning, "I should.");
  EXPECT_EQ(v31.content, "Sure.");
  EXPECT_EQ(Calls(v31), R"(get_weather({"city": "Paris"})ping({}))");
  EXPECT_EQ(
      Calls(Parse("deepseek_v32",
                  "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"x\" "
                  "string=\"true\">1</｜DSML｜parameter>\n<｜DSML｜parameter name=\"y\" string=\"false\">[1]"
                  "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>")),
      R"(get_weather({"x": "1", "y": [1]}))");
}

TEST(OutputFormats, KimiK2) {
  const auto parsed = Parse("kimi_k2",
                            "On it.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
                            "<|tool_call_argument_begin|>{\"city\": \"北京\"}<|tool_call_end|><|tool_call_begin|>"
                            "functions.ping:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
                            "<|tool_calls_section_end|>");
  EXPECT_EQ(parsed.content, "On it.");
  EXPECT_EQ(Calls(parsed), R"(functions.get_weather:0=get_weather({"city": "北京"})functions.ping:1=ping({}))");
}

TEST(OutputFormats, MiniMaxM2) {
  const auto parsed = Parse("minimax_m2",
                            "Two things.\n</think>\n\nOK\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n"
                            "<parameter name=\"city\">Paris</parameter>\n<parameter name=\"tags\">[\"a\", \"b\"]"
                            "</parameter>\n</invoke>\n<invoke name=\"ping\">\n</invoke>\n</minimax:tool_call>",
                            CallMode::kWhole, "<think>\n");
  EXPECT_EQ(parsed.reasoning, "Two things.");
  EXPECT_EQ(parsed.content, "OK");
  EXPECT_EQ(Calls(parsed), R"(get_weather({"city": "Paris", "tags": ["a", "b"]})ping({}))");
}

TEST(OutputFormats, Glm45) {
  const auto parsed = Parse("glm45",
                            "\n<think>Hm.</think>\nOK\n<tool_call>get_weather\n<arg_key>city</arg_key>\n"
                            "<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n"
                            "</tool_call>\n<tool_call>ping\n</tool_call>");
  EXPECT_EQ(parsed.reasoning, "Hm.");
  EXPECT_EQ(parsed.content, "OK");
  EXPECT_EQ(Calls(parsed), R"(get_weather({"city": "Paris", "days": 3})ping({}))");
}

TEST(OutputFormats, Mistral) {
  EXPECT_EQ(Calls(Parse("mistral", R"([TOOL_CALLS] [{"name": "ping", "arguments": {}, "id": "abcdefghi"}, )"
                                   R"({"name": "ping", "arguments": {"a": [1]}}])")),
            R"(abcdefghi=ping({})ping({"a": [1]}))");
  EXPECT_EQ(Calls(Parse("mistral_v11", R"([THINK]so[/THINK]Go[TOOL_CALLS]ping{"a": 1}[TOOL_CALLS]ping[ARGS]{})")),
            R"(ping({"a": 1})ping({}))");
  EXPECT_EQ(Calls(Parse("mistral_v11", R"([TOOL_CALLS]ping[CALL_ID]x1y2[ARGS]{})")), "x1y2=ping({})");
  // A call that is not closed ends at the next call's delimiter, which begins like a JSON list.
  const auto two = Parse("mistral_v11", R"([TOOL_CALLS]ping{"a": [TOOL_CALLS]ping{"b": "[TOOL_CALLS]"})");
  EXPECT_EQ(Calls(two), R"(MALFORMED ping({"b": "[TOOL_CALLS]"}))");
  EXPECT_EQ(two.content, R"([TOOL_CALLS]ping{"a": )");
}

TEST(OutputFormats, OtherRows) {
  EXPECT_EQ(Calls(Parse("nemotron", R"(<TOOLCALL>[{"name": "ping", "arguments": {}}]</TOOLCALL>)")), "ping({})");
  EXPECT_EQ(Calls(Parse("lfm2", "<|tool_call_start|>[ping(a=1)]<|tool_call_end|>Done.")), "ping({\"a\": 1})");
  EXPECT_EQ(Calls(Parse("seed_oss",
                        "<seed:think>x</seed:think>\n<seed:tool_call>\n<function=ping>\n<parameter=a>1</parameter>\n"
                        "</function>\n</seed:tool_call>")),
            "ping({\"a\": 1})");
  const auto command = Parse("command_r7b",
                             "<|START_THINKING|>Plan.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
                             "\"tool_name\": \"ping\", \"parameters\": {}}\n]<|END_ACTION|>");
  EXPECT_EQ(command.reasoning, "Plan.");
  EXPECT_EQ(Calls(command), "0=ping({})");
  EXPECT_EQ(Parse("command_r7b", "<|START_RESPONSE|>Hello.<|END_RESPONSE|>").content, "Hello.");
}

TEST(OutputFormats, Harmony) {
  const auto parsed = Parse("harmony",
                            "<|channel|>analysis<|message|>Need the weather.<|end|><|start|>assistant<|channel|>"
                            "commentary<|message|>Checking.<|end|><|start|>assistant<|channel|>commentary "
                            "to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Paris\"}<|call|>");
  EXPECT_EQ(parsed.reasoning, "Need the weather.");
  EXPECT_EQ(parsed.content, "Checking.");
  EXPECT_EQ(Calls(parsed), R"(get_weather({"city":"Paris"}))");
  // Without the stop token; with the recipient in the role's part; a built-in tool's name is not changed.
  EXPECT_EQ(Calls(Parse("harmony", "<|start|>assistant to=functions.ping<|channel|>commentary json<|message|>{}")),
            "ping({})");
  EXPECT_EQ(Calls(Parse("harmony", " to=browser.search<|channel|>analysis<|message|>{\"q\":1}<|call|>")),
            R"(browser.search({"q":1}))");
  const auto final = Parse("harmony",
                           "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b"
                           "<|end|><|start|>assistant<|channel|>final<|message|>Hi <b>you</b><|return|>");
  EXPECT_EQ(final.reasoning, "a\nb");
  EXPECT_EQ(final.content, "Hi <b>you</b>");
  EXPECT_EQ(Parse("harmony", "just text").content, "just text");
  EXPECT_EQ(Parse("harmony", "thinking on", CallMode::kWhole, "<|channel|>analysis<|message|>").reasoning,
            "thinking on");
  const std::string bad = "<|channel|>commentary to=functions.ping<|message|>{\"a\":<|call|>";
  EXPECT_EQ(Parse("harmony", bad).content, bad);
  EXPECT_EQ(Calls(Parse("harmony", bad)), "MALFORMED ");
  EXPECT_EQ(Calls(Parse("harmony", bad, CallMode::kStreamed)), "MALFORMED ping({\"a\":)");
  const std::string code = "<|channel|>analysis to=python<|message|>print(1)<|call|>";
  EXPECT_EQ(Parse("harmony", code, CallMode::kStreamed).content, code);
  EXPECT_EQ(Parse("harmony", code, CallMode::kText).content, code);
}

// ---- Malformed output -----------------------------------------------------------------------------------------------

struct Bad {
  const char* format;
  std::string text;
};

std::vector<Bad> MalformedOutputs() {
  return {
      {"hermes", "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"ping\"}\n</tool_call>"},
      {"qwen3_coder", "<tool_call>\n<function=ping\n</tool_call>"},
      {"qwen3_coder", "<tool_call>\n<function=ping>\n<parameter=a>\n1\n</parameter>\n</tool_call>"},
      {"qwen3_coder", "<tool_call>\n<function=ping>\nwhat?\n</function>\n</tool_call>"},
      {"qwen3_coder", "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>"},
      {"deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n{}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>"},
      {"deepseek_v31",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>{'a': 1}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>"},
      {"kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_end|>"
       "<|tool_calls_section_end|>"},
      {"minimax_m2", "<minimax:tool_call>\n<invoke name=ping>\n</invoke>\n</minimax:tool_call>"},
      {"glm45", "<tool_call>ping\n<arg_key>a</arg_key>\n</tool_call>"},
      {"mistral", "[TOOL_CALLS] [{\"name\": \"ping\"}]"},
      {"mistral_v11", "[TOOL_CALLS]ping(a=1)"},
      {"llama3_json", "<|python_tag|>{\"name\": \"ping\", \"parameters\": [1]}"},
      {"command_r7b", "<|START_ACTION|>[{\"tool_name\": \"ping\"}]<|END_ACTION|>"},
  };
}

TEST(MalformedCalls, StayInTheContentAsTheModelWroteThem) {
  for (const Bad& bad : MalformedOutputs()) {
    const auto parsed = Parse(bad.format, "Hi\n" + bad.text);
    EXPECT_EQ(parsed.content, "Hi\n" + bad.text) << bad.format;
    EXPECT_EQ(Calls(parsed), "MALFORMED ") << bad.format << bad.text;
  }
}

TEST(MalformedCalls, TruncatedOnesStayInTheContent) {
  const Bad whole[] = {
      {"hermes", "<tool_call>\n{\"name\": \"ping\", \"arguments\": {\"a\": \"b\"}}\n</tool_call>"},
      {"qwen3_coder", "<tool_call>\n<function=ping>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"},
      {"deepseek_v31", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"},
      {"minimax_m2", "<minimax:tool_call>\n<invoke name=\"ping\">\n<parameter name=\"a\">1</parameter>\n</invoke>"},
      {"glm45", "<tool_call>ping\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"},
  };
  for (const Bad& output : whole) {
    EXPECT_EQ(Parse(output.format, output.text).tool_calls.size(), 1u);
    for (size_t size = 1; size < output.text.size(); ++size) {
      const auto parsed = Parse(output.format, output.text.substr(0, size));
      EXPECT_EQ(parsed.content, output.text.substr(0, size)) << output.format;
      EXPECT_TRUE(parsed.tool_calls.empty());
    }
  }
}

TEST(MalformedCalls, StreamedOnesStayCalls) {
  const auto streamed = [](const char* format, const std::string& text) {
    const auto parsed = Parse(format, text, CallMode::kStreamed);
    return Calls(parsed) + "|" + parsed.content;
  };
  // The arguments stay as written, up to the text that the format has behind them.
  EXPECT_EQ(streamed("hermes", "<tool_call>\n{\"name\": \"ping\", \"arguments\": {\"a\": 'x'}}\n</tool_call> ok"),
            "MALFORMED ping({\"a\": 'x'})| ok");
  EXPECT_EQ(streamed("hermes", "<tool_call>\n{\"name\": \"ping\", \"arguments\": {\"a\": 1, }}\n</tool_call>"),
            "MALFORMED ping({\"a\": 1, })|");
  EXPECT_EQ(streamed("hermes",
                     "<tool_call>\n{\"name\": \"ping\", \"arguments\": {\"a\": {\"b\": 1}\n</tool_call>\n"
                     "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>"),
            "MALFORMED ping({\"a\": {\"b\": 1}\n)ping({})|");
  EXPECT_EQ(streamed("hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {}} x</tool_call>"),
            "MALFORMED ping({)|x");
  EXPECT_EQ(streamed("hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": \"b"),
            "MALFORMED ping({\"a\": \"b)|");
  EXPECT_EQ(streamed("qwen3_coder", "<tool_call>\n<function=ping>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2"),
            "MALFORMED ping({\"a\": 1)|<parameter=b>\n2");
  EXPECT_EQ(streamed("qwen3_coder",
                     "<tool_call>\n<function=ping>\n<parameter=a>\n1\n</parameter>\n</tool_call>\n"
                     "<tool_call>\n<function=ping>\n</function>\n</tool_call>"),
            "MALFORMED ping({\"a\": 1)ping({})|");
  // A call that is not closed as the format says loses the last brace of its arguments, so that nobody takes it for
  // whole.
  EXPECT_EQ(streamed("hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": 1}</tool_call>"),
            "MALFORMED ping({\"a\": 1)|");
  EXPECT_EQ(streamed("hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": 1}}"),
            "MALFORMED ping({\"a\": 1)|");
  EXPECT_EQ(streamed("hermes", "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"ping\"</tool_call>"),
            "MALFORMED ping({\"a\": 1)|");
  EXPECT_EQ(streamed("hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": 1}}</tool_call>"),
            "ping({\"a\": 1})|");
  // A call that breaks before its arguments is treated as in kWhole.
  EXPECT_EQ(streamed("hermes", "<tool_call>{\"name\": 3}</tool_call>"),
            "MALFORMED |<tool_call>{\"name\": 3}</tool_call>");
}

TEST(MalformedCalls, AWellFormedCallAfterOneCounts) {
  const auto parsed = Parse("kimi_k2",
                            "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_end|>"
                            "<|tool_call_begin|>functions.ping:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
                            "<|tool_calls_section_end|>");
  EXPECT_EQ(Calls(parsed), "MALFORMED functions.ping:1=ping({})");
  EXPECT_EQ(parsed.content, "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_end|>");
}

// ---- Prefill --------------------------------------------------------------------------------------------------------

TEST(Prefill, IsTakenFromTheGenerationPrompt) {
  const auto prefill = [](const char* format, std::string_view prompt) {
    return std::string((*FindOutputFormat(format))->PrefillOf(prompt));
  };
  EXPECT_EQ(prefill("hermes", "<|im_start|>assistant\n"), "");
  EXPECT_EQ(prefill("hermes", "<|im_start|>assistant\n<think>\n"), "<think>\n");
  EXPECT_EQ(prefill("hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\n"), "<think>\n\n</think>\n\n");
  EXPECT_EQ(prefill("deepseek_v31", "<｜Assistant｜></think>"), "</think>");
  EXPECT_EQ(prefill("harmony", "<|start|>assistant"), "");
  EXPECT_EQ(prefill("harmony", "<|start|>assistant<|channel|>analysis<|message|>"), "<|channel|>analysis<|message|>");
}

TEST(Prefill, DecidesTheStartOfTheParser) {
  EXPECT_EQ(Parse("hermes", "hm\n</think>\n\nHi", CallMode::kWhole, "<think>\n").reasoning, "hm");
  EXPECT_EQ(Parse("hermes", "hm\n</think>\n\nHi", CallMode::kWhole, "<think>\n").content, "Hi");
  EXPECT_EQ(Parse("hermes", "cut off", CallMode::kWhole, "<think>\n").reasoning, "cut off");
  // The prompt has closed the reasoning, so a later delimiter is text.
  EXPECT_EQ(Parse("hermes", "<think>Hi", CallMode::kWhole, "<think>\n\n</think>\n\n").content, "<think>Hi");
  EXPECT_EQ(Parse("deepseek_v31", "Hi", CallMode::kWhole, "</think>").content, "Hi");
  // A forced call: the prompt contains its name.
  const auto frame = (*FindOutputFormat("hermes"))->FrameOf("ping").value();
  EXPECT_EQ(Calls(Parse("hermes", "{\"a\": 1}" + frame.after, CallMode::kStreamed, frame.before)), "ping({\"a\": 1})");
}

TEST(CallModes, InModeTextACallIsContent) {
  const std::string text = "<think>a</think>b <tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>\n";
  const auto parsed = Parse("hermes", text, CallMode::kText);
  EXPECT_EQ(parsed.reasoning, "a");
  EXPECT_EQ(parsed.content, text.substr(text.find('b')));
  EXPECT_EQ(Calls(parsed), "");
}

}  // namespace
}  // namespace ingot::text::output_format_test
