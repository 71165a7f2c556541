// An answer as the gateway makes it, step by step, before any dialect words it. Plain values.
//
//   AnswerBegin  (PartBegin PartDelta* PartEnd)*  AnswerEnd          per choice
//
// Parts do not overlap, and come in the order in which the model wrote them. A stream that breaks off lacks its end:
// why is a Status beside it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "gateway/part_kind.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// A sampled id. `bytes` and `top` are filled if log-probs were asked for.
struct Token {
  int32_t id = 0;
  float logprob = 0;       // of the temperature-scaled, untruncated policy
  bool is_text = true;     // false: the end-of-turn id, which is no part of the text
  bool is_content = true;  // some of the content is its text; false: reasoning, calls and what stands around them
  std::string bytes;
  struct Alternative {
    int32_t id = 0;
    float logprob = 0;
    std::string bytes;
  };
  std::vector<Alternative> top;  // most likely first
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;     // of the prompt, whose KV the engine had
  int64_t reasoning_tokens = 0;  // of the completion
};

struct AnswerBegin {
  int64_t prompt_tokens = 0;
  std::vector<int32_t> prompt_ids;  // if they were asked for
  std::string prompt_text;          // if it is to be repeated
};
struct PartBegin {
  PartKind kind = PartKind::kContent;
  std::string id;    // a call's, globally unique
  std::string name;  // a call's, as the model knows it
};
// A call's text are its arguments, as the model wrote them, which need not be JSON. `tokens`: those since the last
// event that had some.
struct PartDelta {
  std::string text;
  std::vector<Token> tokens;
};
struct PartEnd {
  bool cut = false;  // the turn's limit came within it
};
struct AnswerEnd {
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;  // STOP or LENGTH
  std::string stop_string;                           // the client's own, that ended it; empty: none
  std::vector<Token> tokens;
  Usage usage;
};
using Event = std::variant<AnswerBegin, PartBegin, PartDelta, PartEnd, AnswerEnd>;

// What the events of one choice add up to.
struct Part {
  PartKind kind = PartKind::kContent;
  std::string id, name, text;
  std::vector<Token> tokens;
  bool cut = false;
};
struct Choice {
  int index = 0;
  AnswerBegin begin;
  std::vector<Part> parts;
  AnswerEnd end;  // finish is UNSPECIFIED before it came

  bool has_calls() const;
  std::string TextOf(PartKind kind) const;  // of all such parts, joined
  std::vector<Token> Tokens() const;
};

}  // namespace ingot::gateway
