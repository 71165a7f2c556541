// Chat templates: Jinja as Hugging Face's apply_chat_template compiles it.
//
// The language is that of jinja2 3.1's ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks and loop controls,
// plus raise_exception, strftime_now, {% generation %} and Hugging Face's own tojson (no HTML escapes, non-ASCII kept).
// A template renders to the same text as there, and fails where it fails there (the words of the error differ). What is
// left out fails when the template is read, by name: template inheritance, includes and imports (which have no loader
// there either), autoescape, and the filters filesizeformat, pprint, random, striptags, urlize, wordwrap and xmlattr.
// Integers have 64 bits.
//
// A template may come with a model from anywhere: rendering is bounded in steps, bytes and depth (Limits), reaches
// nothing but its variables and the clock, and tells its own text from the text it was given (Mark).
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

// Edge of what one rendering may take. The defaults are some hundred times what the largest known template takes for
// a conversation of a megabyte.
struct Limits {
  uint64_t steps = 20'000'000;        // nodes evaluated and items gone over: about a second or two
  uint64_t bytes = 1'000'000'000;     // of text and values made in all, kept or not
  uint64_t output_bytes = 256 << 20;  // of the result
  int depth = 1500;                   // nested evaluations, over all macros being called
};

struct RenderOptions {
  std::vector<std::pair<std::string, Value>> variables;
  std::vector<Value> tracked;  // dicts, each once, whose passes through `for` loops are reported: Rendered::passes
  std::timespec now{};         // for strftime_now, as local time; {0, 0}: the system clock
  Limits limits;
};

struct Rendered {
  std::string text;
  std::vector<Mark> marks;  // of `text`: what came from outside
  // An iteration over tracked[index] in the template's main flow wrote text[begin, end), which is not empty.
  struct Pass {
    size_t index, begin, end;
  };
  std::vector<Pass> passes;
  std::vector<std::pair<size_t, size_t>> generations;  // [begin, end) of what {% generation %} blocks wrote
};

// A conversation with or without the prompt for an answer, and what that prompt is.
struct PromptRendering {
  Rendered rendered;        // as asked for
  size_t prompt_begin = 0;  // where the texts with and without the prompt part; where they do not, their end
  std::string prompt;       // the one with it from there on
  absl::Status
      with_prompt;  // not OK: the template refuses to go on from the conversation; no prompt, which begins at 0
};

struct FlagSplit;

// Immutable, thread safe.
class Template {
 public:
  // INVALID_ARGUMENT naming the line where `source` is not a template.
  static absl::StatusOr<std::shared_ptr<const Template>> Parse(std::string_view source);
  ~Template();

  // Render with add_generation_prompt as given, whatever the variables say of it, beside Render with the other: once
  // for both, where the template lets them be told apart at its end (flag_split.h). Fails where Render fails without
  // the prompt, and where what is asked for does.
  absl::StatusOr<PromptRendering> RenderAtPrompt(const RenderOptions& options, bool add_generation_prompt) const;

  // INVALID_ARGUMENT with the template's line: its raise_exception, or what Python would raise. RESOURCE_EXHAUSTED: it
  // goes beyond the limits.
  absl::StatusOr<Rendered> Render(const RenderOptions& options) const;

  // Whether a name stands in the template, as a variable it may read or as one of its own.
  bool Mentions(std::string_view name) const;

 private:
  explicit Template(std::unique_ptr<const Ast> ast);
  const std::unique_ptr<const Ast> ast_;
  const std::unique_ptr<const FlagSplit> prompt_split_;  // null: both are rendered from the start
};

}  // namespace ingot::text::jinja
