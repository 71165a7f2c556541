// Defines the table of output formats. Each row follows the family's published chat template, and its comment shows a
// call.
#include "text/output/format_spec.h"
#include "text/output/output_row.h"

namespace ingot::text {
namespace {

// Qwen3-Coder's call format, which other families use within their own delimiters.
//   <tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>
std::string FunctionTags(const std::string& begin, const std::string& end) {
  return begin + "{~\n}<function={name}>{~\n}{parameters}</function>{~\n}" + end;
}

OutputRow Plain() { return {.name = "plain", .think_begin = "<think>", .think_end = "</think>"}; }

OutputRow Qwen3Coder() {
  return {.name = "qwen3_coder",
          .aliases = {"qwen3_5"},
          .think_begin = "<think>",
          .think_end = "</think>",
          .sections = {{.call = FunctionTags("<tool_call>", "</tool_call>"), .between = "\n", .before = "\n"},
                       // Models sometimes omit the opening tag.
                       {.call = "<function={name}>{~\n}{parameters}</function>{~\n}{?</tool_call>}",
                        .between = "\n",
                        .before = "\n"}},
          .parameter = "<parameter={key}>\n{value}\n</parameter>\n"};
}

OutputRow SeedOss() {
  return {
      .name = "seed_oss",
      .think_begin = "<seed:think>",
      .think_end = "</seed:think>",
      .sections = {{.call = FunctionTags("<seed:tool_call>", "</seed:tool_call>"), .between = "\n", .before = "\n"}},
      .parameter = "<parameter={key}>{value}</parameter>\n"};
}

// {"name": "f", "parameters": {...}} as the whole turn, or anywhere after <|python_tag|>.
OutputRow Llama3Json() {
  const std::string object = "{object}";
  return {.name = "llama3_json",
          .aliases = {"llama3"},
          .sections = {{.call = object, .between = "; ", .bare = true},
                       {.begin = "<|python_tag|>{~}", .call = object, .between = "; "}},
          .argument_keys = {"parameters", "arguments"}};
}

// [f(a=1), g()] as the whole turn. Llama 4 may enclose it in <|python_start|> and <|python_end|>.
OutputRow LlamaPythonic() {
  const std::string call = "{name}({keywords})";
  return {.name = "llama_pythonic",
          .aliases = {"llama4", "pythonic"},
          .sections = {
              {.begin = "[{~}", .call = call, .between = ", ", .end = "{~}]", .bare = true},
              {.begin = "<|python_start|>{~}[{~}", .call = call, .between = ", ", .end = "{~}]{~}{?<|python_end|>}"}}};
}

OutputRow Lfm2() {
  return {.name = "lfm2",
          .think_begin = "<think>",
          .think_end = "</think>",
          .sections = {{.begin = "<|tool_call_start|>[{~}",
                        .call = "{name}({keywords})",
                        .between = ", ",
                        .end = "{~}]<|tool_call_end|>"}}};
}

// <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{...}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
OutputRow DeepSeekV3() {
  return {.name = "deepseek_v3",
          .aliases = {"deepseek_r1"},
          .think_begin = "<think>",
          .think_end = "</think>",
          .sections = {{.begin = "<｜tool▁calls▁begin｜>{~}",
                        .call = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}{~\n}```json{~\n}{json}{~\n}```{~}"
                                "<｜tool▁call▁end｜>",
                        .between = "\n",
                        .end = "{~}<｜tool▁calls▁end｜>"}}};
}

// <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
OutputRow DeepSeekV31() {
  return {.name = "deepseek_v31",
          .think_begin = "<think>",
          .think_end = "</think>",
          .sections = {{.begin = "<｜tool▁calls▁begin｜>{~}",
                        .call = "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{~}{json}{~}<｜tool▁call▁end｜>",
                        .end = "{~}<｜tool▁calls▁end｜>"}}};
}

// <｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n</｜DSML｜invoke>
OutputRow DeepSeekV32() {
  return {.name = "deepseek_v32",
          .think_begin = "<think>",
          .think_end = "</think>",
          .sections = {{.begin = "<｜DSML｜function_calls>{~\n}",
                        .call = "<｜DSML｜invoke name=\"{name}\">{~\n}{parameters}</｜DSML｜invoke>",
                        .between = "\n",
                        .end = "{~\n}</｜DSML｜function_calls>",
                        .before = "\n\n"}},
          .parameter = "<｜DSML｜parameter name=\"{key}\" string=\"{is_string}\">{value}</｜DSML｜parameter>\n"};
}

// <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|>...
OutputRow KimiK2() {
  return {
      .name = "kimi_k2",
      .think_begin = "<think>",
      .think_end = "</think>",
      .sections = {{.begin = "<|tool_calls_section_begin|>{~}",
                    .call = "<|tool_call_begin|>{~}{id}{~}<|tool_call_argument_begin|>{~}{json}{~}<|tool_call_end|>",
                    .end = "{~}<|tool_calls_section_end|>"}},
      .id_prefix = "functions.",
      .id_index = ":"};
}

// <minimax:tool_call>\n<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>\n</minimax:tool_call>
OutputRow MiniMaxM2() {
  return {.name = "minimax_m2",
          .think_begin = "<think>",
          .think_end = "</think>",
          .sections = {{.begin = "<minimax:tool_call>{~\n}",
                        .call = "<invoke name=\"{name}\">{~\n}{parameters}</invoke>",
                        .between = "\n",
                        .end = "{~\n}</minimax:tool_call>",
                        .before = "\n"}},
          .parameter = "<parameter name=\"{key}\">{value}</parameter>\n"};
}

// <tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>
OutputRow Glm45() {
  return {.name = "glm45",
          .aliases = {"glm46", "glm47"},
          .think_begin = "<think>",
          .think_end = "</think>",
          .sections = {{.call = "<tool_call>{~}{name}{~\n}{parameters}</tool_call>", .between = "\n", .before = "\n"}},
          .parameter = "<arg_key>{key}</arg_key>{~\n}<arg_value>{value}</arg_value>\n"};
}

// [TOOL_CALLS] [{"name": "f", "arguments": {...}}]
OutputRow Mistral() {
  return {.name = "mistral",
          .sections = {{.begin = "[TOOL_CALLS]{~ }[{~}", .call = "{object}", .between = ", ", .end = "{~}]"}},
          .id_keys = {"id"}};
}

// [TOOL_CALLS]f[ARGS]{...}, the delimiters once per call
OutputRow MistralV11() {
  return {.name = "mistral_v11",
          .aliases = {"magistral"},
          .think_begin = "[THINK]",
          .think_end = "[/THINK]",
          .sections = {{.call = "[TOOL_CALLS]{~}{name}{~}{?[CALL_ID]{id}}{?[ARGS]}{~}{json}"}}};
}

// <TOOLCALL>[{"name": "f", "arguments": {...}}]</TOOLCALL>
OutputRow Nemotron() {
  return {
      .name = "nemotron",
      .think_begin = "<think>",
      .think_end = "</think>",
      .sections = {{.begin = "<TOOLCALL>{~}[{~}", .call = "{object}", .between = ", ", .end = "{~}]{~}</TOOLCALL>"}}};
}

// <|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": {...}}\n]<|END_ACTION|>
OutputRow Command() {
  return {.name = "command_r7b",
          .aliases = {"command_a"},
          .think_begin = "<|START_THINKING|>",
          .think_end = "<|END_THINKING|>",
          .sections = {{.begin = "<|START_ACTION|>{~}[{~\n    }",
                        .call = "{object}",
                        .between = ",\n    ",
                        .end = "{~\n}]{~}<|END_ACTION|>"}},
          .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
          .name_keys = {"tool_name"},
          .argument_keys = {"parameters"},
          .id_keys = {"tool_call_id"}};
}

// <|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>
OutputRow Harmony() {
  return {.name = "harmony",
          .aliases = {"gpt_oss"},
          .channels = {.start = "<|start|>",
                       .channel = "<|channel|>",
                       .constrain = "<|constrain|>",
                       .message = "<|message|>",
                       .ends = {"<|end|>", "<|call|>", "<|return|>"},
                       .reasoning = {"analysis"},
                       .recipient_key = "to=",
                       .recipient_prefix = "functions.",
                       .joiner = "\n",
                       .write_content = "<|channel|>final<|message|>{content}",
                       .write_preamble = "<|channel|>commentary<|message|>{content}<|end|>",
                       .write_call = "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json}"
                                     "<|call|>",
                       .write_between = "<|start|>assistant"}};
}

}  // namespace

const std::vector<OutputRow>& BuiltinOutputRows() {
  static const auto* const rows = [] {
    auto* all = new std::vector<OutputRow>;
    // Adds the chat formats that also render, with one definition for both directions.
    for (const FormatSpec& spec : BuiltinFormats()) all->push_back(RowOf(spec));
    (*all)[0].aliases = {"qwen", "qwen2", "qwen3"};
    for (OutputRow row :
         {Plain(), Qwen3Coder(), Llama3Json(), LlamaPythonic(), DeepSeekV3(), DeepSeekV31(), DeepSeekV32(), KimiK2(),
          MiniMaxM2(), Harmony(), Glm45(), Mistral(), MistralV11(), SeedOss(), Lfm2(), Nemotron(), Command()}) {
      all->push_back(std::move(row));
    }
    return all;
  }();
  return *rows;
}

}  // namespace ingot::text
