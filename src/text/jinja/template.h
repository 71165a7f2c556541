// Chat templates: Jinja as Hugging Face's apply_chat_template compiles it.
//
// The language is jinja2 3.1's ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks and loop controls, plus
// raise_exception, strftime_now, {% generation %} and Hugging Face's own tojson (no HTML escapes, non-ASCII kept). A
// template renders to the same text as in Python, and fails where it fails in Python; the error's words differ.
// Integers have 64 bits. Some features fail when the template is parsed, with an error that names them: template
// inheritance, includes and imports (which have no loader in Python either), autoescape, and the filters
// filesizeformat, pprint, random, striptags, urlize, wordwrap and xmlattr.
//
// A template may come from anywhere, with any model. Rendering is bounded in steps, bytes and depth (Limits) and reads
// only its variables and the clock. It marks the text from its variables (Mark).
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/value.h"

namespace ingot::text::jinja {

struct Ast;

// Limits of one rendering. The defaults are some hundred times the needs of the largest known template for a
// conversation of a megabyte.
struct Limits {
  uint64_t steps = 20'000'000;        // nodes evaluated and items iterated over: about a second or two
  uint64_t bytes = 1'000'000'000;     // of all text and values made, kept or not
  uint64_t output_bytes = 256 << 20;  // of the result
  int depth = 1500;                   // nested evaluations, over all macros being called
};

struct RenderOptions {
  std::vector<std::pair<std::string, Value>> variables;
  std::vector<Value> tracked;  // dicts, each once, whose passes through `for` loops are reported: RenderedText::passes
  std::timespec now{};         // for strftime_now, as local time; {0, 0}: the system clock
  Limits limits;
};

struct RenderedText {
  std::string text;
  std::vector<Mark> marks;  // of `text`: the parts from outside
  // An iteration over tracked[index], in the template's main flow, wrote text[begin, end), which is not empty.
  struct Pass {
    size_t index, begin, end;
  };
  std::vector<Pass> passes;
  std::vector<std::pair<size_t, size_t>> generations;  // [begin, end) of the text of {% generation %} blocks
};

// A conversation rendered with or without the generation prompt, and that prompt.
struct PromptRendering {
  RenderedText rendered;    // with or without the prompt, as requested
  size_t prompt_begin = 0;  // where the texts with and without the prompt diverge; their end if they are equal
  std::string prompt;       // the text with the prompt, from prompt_begin on
  // Not OK: the template fails with add_generation_prompt. Then `prompt` is empty and prompt_begin 0.
  absl::Status with_prompt;
};

struct FlagSplit;

// Immutable, thread safe.
class Template {
 public:
  // INVALID_ARGUMENT naming the line where `source` is not a template.
  static absl::StatusOr<std::shared_ptr<const Template>> Parse(std::string_view source);
  ~Template();

  // Renders with add_generation_prompt as given, whatever the variables say, and with the other value. The template
  // runs once for both if the flag matters only at its end (flag_split.h). Fails if Render fails without the prompt, or
  // with the given value.
  absl::StatusOr<PromptRendering> RenderAtPrompt(const RenderOptions& options, bool add_generation_prompt) const;

  // INVALID_ARGUMENT with the template's line: the template raised an exception, or Python would. RESOURCE_EXHAUSTED: a
  // limit was passed.
  absl::StatusOr<RenderedText> Render(const RenderOptions& options) const;

  // Whether the template contains this name, as a variable that it may read or as its own variable.
  bool Mentions(std::string_view name) const;

 private:
  explicit Template(std::unique_ptr<const Ast> ast);
  const std::unique_ptr<const Ast> ast_;
  const std::unique_ptr<const FlagSplit> prompt_split_;  // null: both are rendered from the start
};

}  // namespace ingot::text::jinja
