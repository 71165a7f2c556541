#include "text/unicode/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ingot::text {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 1 << 20;

struct ThreadState {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr);
  ThreadState() {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~ThreadState() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

ThreadState& State() {
  thread_local ThreadState state;
  return state;
}

}  // namespace

struct Regex::Code {
  pcre2_code* compiled = nullptr;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;

absl::StatusOr<std::shared_ptr<const Regex>> Regex::Compile(std::string_view pattern) {
  INGOT_ASSIGN_OR_RETURN(const std::string translated, OnigurumaToPcre2(pattern));
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE where = 0;
  auto code = std::make_unique<Code>();
  code->compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where, context);
  pcre2_compile_context_free(context);
  if (code->compiled == nullptr) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof(message));
    return absl::InvalidArgumentError(absl::StrCat("the regular expression '", base::View(pattern),
                                                   "' is malformed: ", reinterpret_cast<const char*>(message), " (at ",
                                                   where, " of '", translated, "')"));
  }
  // Without the JIT, pcre2_match interprets, which is slower but gives the same results.
  pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE);
  return std::shared_ptr<const Regex>(new Regex(std::move(code)));
}

bool Regex::Find(std::string_view text, size_t from, Match* match) const {
  ThreadState& state = State();
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int found = pcre2_match(code_->compiled, subject, text.size(), from, PCRE2_NO_UTF_CHECK, state.data, state.context);
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) {  // the JIT's small stack overflowed; the interpreter uses the heap
    found = pcre2_match(code_->compiled, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, state.data,
                        state.context);
  }
  if (found < 0) return false;
  const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(state.data);
  *match = {ovector[0], ovector[1]};
  return ovector[0] <= ovector[1];
}

}  // namespace ingot::text
