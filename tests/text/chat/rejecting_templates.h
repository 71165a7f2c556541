// Chat templates that reject what others accept, each in the style of a family of models and written for these tests.
#pragma once

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "text/chat/template_format.h"
#include "text/output/output_format.h"

namespace ingot::text {

struct RejectingTemplate {
  std::string name;
  std::string source;
  std::string output;  // the output format that its calls are written in
};

// The common frame: `head` before all messages, `content` and `calls` in a message, ChatML around them.
inline std::string Turns(const std::string& head, const std::string& content, const std::string& calls) {
  return head + R"({%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' }})" + content + "{%- if m.tool_calls %}" +
         calls + R"({%- endif %}{{ '<|im_end|>\n' }}{%- endfor %})" +
         R"({{- '<|im_start|>assistant\n' if add_generation_prompt }})";
}

inline constexpr char kContent[] = "{{- m.content }}";
inline constexpr char kJsonCalls[] =
    R"({%- for c in m.tool_calls %}{{ '\n<tool_call>\n{"name": "' ~ c.function.name ~ '", "arguments": ' ~ c.function.arguments | tojson ~ '}\n</tool_call>' }}{%- endfor %})";
inline constexpr char kParameterCalls[] =
    R"({%- for c in m.tool_calls %}{{ '\n<tool_call>\n<function=' ~ c.function.name ~ '>\n' }}
{%- for k, v in c.function.arguments | items %}{{ '<parameter=' ~ k ~ '>\n' ~ (v if v is string else v | tojson) ~ '\n</parameter>\n' }}{%- endfor %}
{{- '</function>\n</tool_call>' }}{%- endfor %})";

inline std::vector<RejectingTemplate> RejectingTemplates() {
  const std::string alternates = R"({%- set turns = namespace(n=0) %}
{%- for m in (messages[1:] if messages and messages[0].role == 'system' else messages) %}
{%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}
{%- if (m.role == 'user') != (turns.n % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{%- set turns.n = turns.n + 1 %}{% endif %}{% endfor %})";
  return {
      // Qwen3-Coder, Nemotron 3
      {"items", Turns("", kContent, kParameterCalls), "qwen3_coder"},
      // GLM 4.5, which calls a method, and LFM2.5
      {"methods", Turns("", kContent, R"({%- for c in m.tool_calls %}{{ '\n<tool_call>' ~ c.function.name ~ '\n' }}
{%- for k, v in c.function.arguments.items() %}{{ '<arg_key>' ~ k ~ '</arg_key>\n<arg_value>' ~ (v if v is string else v | tojson) ~ '</arg_value>\n' }}{%- endfor %}
{{- '</tool_call>' }}{%- endfor %})"),
       "glm45"},
      // Llama 3.1
      {"one_call",
       Turns("", kContent, R"({%- if m.tool_calls | length != 1 %}{{ raise_exception('one call at once') }}{% endif %}
{{- '{"name": "' ~ m.tool_calls[0].function.name ~ '", "parameters": ' ~ m.tool_calls[0].function.arguments | tojson ~ '}' }})"),
       "llama3_json"},
      // Qwen 3.5
      {"system_first",
       Turns("",
             "{%- if m.role == 'system' and not loop.first %}{{ raise_exception('system must be first') }}{% endif %}" +
                 std::string(kContent),
             kParameterCalls),
       "qwen3_coder"},
      // MiniMax-M2: other system messages are left out
      {"system_once",
       Turns("{%- set first = messages[0].content if messages[0].role == 'system' else 'be good' %}{{ first }}",
             "{%- if m.role != 'system' %}" + std::string(kContent) + "{%- endif %}", kJsonCalls),
       "hermes"},
      // Mistral
      {"alternates",
       Turns(alternates,
             "{%- if m.role == 'system' and not loop.first %}{{ raise_exception('no late system') }}{% endif %}" +
                 std::string(kContent),
             kJsonCalls),
       "hermes"},
      // Ministral
      {"no_blanks",
       Turns(alternates,
             "{%- if not m.content and not m.tool_calls %}{{ raise_exception('a message needs text') }}{% endif %}" +
                 std::string(kContent),
             kJsonCalls),
       "hermes"},
      // Gemma 2, which knows two roles
      {"two_roles",
       R"({%- for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{{- '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' if add_generation_prompt }})",
       "hermes"},
      // gpt-oss, Hermes 2 Pro
      {"described",
       Turns("{%- for t in tools or [] %}{{ '// ' + t.function.description + ' ' + t.function.name + '\\n' }}{% endfor "
             "%}",
             kContent, kJsonCalls),
       "hermes"},
      // Command R, Seed-OSS
      {"parameters",
       Turns(
           R"({%- for t in tools or [] %}{% for k, p in t.function.parameters.properties | items %}{{ k + p.description }}{% endfor %}{{ t.function.parameters | tojson }}{% endfor %})",
           kContent, kJsonCalls),
       "hermes"},
  };
}

// Every text of the template that looks like a token is one.
inline std::shared_ptr<const Tokenizer> TokenizerOf(const RejectingTemplate& of) {
  static const std::regex token(R"(<[|/!a-z_A-Z0-9\x80-\xff\-:]+>|\[/?[A-Z_]+\]|\]~b\]|\[e~\[)");
  std::set<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  const std::sregex_iterator end;
  for (std::sregex_iterator at(of.source.begin(), of.source.end(), token); at != end; ++at) tokens.insert(at->str());
  return MakeByteTokenizer({tokens.begin(), tokens.end()});
}

inline std::shared_ptr<const ChatTemplate> TemplateOf(const RejectingTemplate& of) {
  return ChatTemplate::Make(of.source, R"({"eos_token": "<|im_end|>"})", "").value();
}

inline std::shared_ptr<const ChatFormat> FormatOf(const RejectingTemplate& of, const std::string& output = "") {
  const auto encoder = std::make_shared<const MarkedEncoder>(TokenizerOf(of), of.source);
  return MakeTemplateFormat(TemplateOf(of), encoder, *FindOutputFormat(output.empty() ? of.output : output)).value();
}

}  // namespace ingot::text
