// Parses and renders chat templates: Jinja as compiled by Hugging Face's apply_chat_template.
//
// The language is jinja2 3.1 in an ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, and loop controls,
// plus raise_exception, strftime_now, {% generation %}, and Hugging Face's own tojson (no HTML escapes, non-ASCII
// characters kept). A template produces the same text as in Python and fails where it would fail in Python, but with
// different error messages. Integers are limited to 64 bits. Unsupported features cause a parse error that names the
// feature: template inheritance, includes, and imports (which have no loader in Python either), autoescape, and the
// filters filesizeformat, pprint, random, striptags, urlize, wordwrap, and xmlattr.
//
// Templates may come from untrusted sources together with a model. Rendering is limited in steps, bytes, and depth
// (Limits), and can read only its variables and the clock. Text from its variables is marked (Mark).
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

// Limits for one rendering. The defaults are several hundred times what the largest known template needs for a 1 MB
// conversation.
struct Limits {
  uint64_t steps = 20'000'000;        // evaluated nodes and iterated items; about one or two seconds
  uint64_t bytes = 1'000'000'000;     // all strings and values created, whether or not they are kept
  uint64_t output_bytes = 256 << 20;  // size of the result
  int depth = 1500;                   // nested evaluations, across all active macros
};

struct RenderOptions {
  std::vector<std::pair<std::string, Value>> variables;
  std::vector<Value> tracked;  // distinct dicts whose passes through `for` loops are reported in RenderedText::passes
  std::timespec now{};         // local time for strftime_now; {0, 0} = the system clock
  Limits limits;
};

struct RenderedText {
  std::string text;
  std::vector<Mark> marks;  // the untrusted parts of `text`
  // A loop iteration over tracked[index], outside macros and captured blocks, that wrote the nonempty text[begin,
  // end).
  struct Pass {
    size_t index, begin, end;
  };
  std::vector<Pass> passes;
  std::vector<std::pair<size_t, size_t>> generations;  // [begin, end) of text in {% generation %} blocks
};

// A conversation rendered with or without the generation prompt, and the prompt itself.
struct PromptRendering {
  RenderedText rendered;  // with or without the prompt, as requested
  // Position where the texts with and without the prompt start to differ, or their end if they are equal.
  size_t prompt_begin = 0;
  std::string prompt;  // the text with the prompt, starting at prompt_begin
  // Not OK = the template fails with add_generation_prompt. `prompt` is then empty, and prompt_begin is 0.
  absl::Status with_prompt;
};

struct FlagSplit;

// Immutable and thread safe.
class Template {
 public:
  // Returns INVALID_ARGUMENT, with the line, if `source` is not a valid template.
  static absl::StatusOr<std::shared_ptr<const Template>> Parse(std::string_view source);
  ~Template();

  // Renders with both values of add_generation_prompt, which override the variables, and returns the requested text. If
  // the flag matters only at the end (flag_split.h), most of the template runs only once. Fails if Render fails without
  // the prompt or with the requested value.
  absl::StatusOr<PromptRendering> RenderAtPrompt(const RenderOptions& options, bool add_generation_prompt) const;

  // Returns INVALID_ARGUMENT, with the line, if the template raises an exception or would fail in Python. Returns
  // RESOURCE_EXHAUSTED if a limit is exceeded.
  absl::StatusOr<RenderedText> Render(const RenderOptions& options) const;

  // Returns whether the template contains this name, either as a variable it may read or as one it defines.
  bool Mentions(std::string_view name) const;

 private:
  explicit Template(std::unique_ptr<const Ast> ast);
  const std::unique_ptr<const Ast> ast_;
  const std::unique_ptr<const FlagSplit> prompt_split_;  // null = render the entire template twice
};

}  // namespace ingot::text::jinja
