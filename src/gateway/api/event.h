// Defines an answer's events, independent of any API dialect. Plain values.
//
//   AnswerBegin  (PartBegin PartDelta* PartEnd)*  AnswerEnd          per choice
//
// Parts do not overlap and arrive in the order the model wrote them. If a stream ends early, it has no AnswerEnd, and a
// separate Status gives the reason.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "gateway/part_kind.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// A sampled token id. `bytes` and `top` are set only if the request wants log-probs.
struct Token {
  int32_t id = 0;
  float logprob = 0;       // under the temperature-scaled, untruncated policy
  bool is_text = true;     // false = the end-of-turn id
  bool is_content = true;  // the content includes some of its text; false = reasoning, calls, delimiters
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
  int64_t cached_tokens = 0;     // prompt tokens found in the engine's KV cache
  int64_t reasoning_tokens = 0;  // completion tokens that are reasoning
};

struct AnswerBegin {
  int64_t prompt_tokens = 0;
  std::vector<int32_t> prompt_ids;  // set if GatewayRequest::return_token_ids
  std::string prompt_text;          // set if GatewayRequest::echo_prompt
};
struct PartBegin {
  PartKind kind = PartKind::kContent;
  std::string id;    // tool call id, globally unique
  std::string name;  // tool name, as the model sees it
};
// For a tool call, `text` is a piece of the arguments as the model wrote them, which may be invalid JSON. `tokens` has
// the tokens since the last event that had any.
struct PartDelta {
  std::string text;
  std::vector<Token> tokens;
};
struct PartEnd {
  bool cut = false;  // the token limit ended the turn in the middle of this part
};
struct AnswerEnd {
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;  // STOP or LENGTH
  std::string stop_string;                           // the client's stop string that ended the answer; empty = none
  std::vector<Token> tokens;
  Usage usage;
};
using Event = std::variant<AnswerBegin, PartBegin, PartDelta, PartEnd, AnswerEnd>;

// A part and a choice, each accumulated from its events.
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
  AnswerEnd end;  // end.finish stays UNSPECIFIED until the AnswerEnd event

  bool has_calls() const;
  std::string TextOf(PartKind kind) const;  // concatenated text of all parts of this kind
  std::vector<Token> Tokens() const;
};

}  // namespace ingot::gateway
