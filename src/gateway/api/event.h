// The events of an answer, before an API dialect puts them into its own format. Plain values.
//
//   AnswerBegin  (PartBegin PartDelta* PartEnd)*  AnswerEnd          per choice
//
// Parts do not overlap and come in the order in which the model wrote them. A stream that breaks off has no AnswerEnd;
// a separate Status says why.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "gateway/part_kind.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// A sampled id. `bytes` and `top` are set if the request asks for log-probs.
struct Token {
  int32_t id = 0;
  float logprob = 0;       // under the temperature-scaled, untruncated policy
  bool is_text = true;     // false: the end-of-turn id
  bool is_content = true;  // some of its text is in the content; false: reasoning, calls, delimiters
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
  int64_t cached_tokens = 0;     // prompt tokens whose keys and values the engine had cached
  int64_t reasoning_tokens = 0;  // completion tokens of the reasoning
};

struct AnswerBegin {
  int64_t prompt_tokens = 0;
  std::vector<int32_t> prompt_ids;  // GatewayRequest::return_token_ids
  std::string prompt_text;          // GatewayRequest::echo_prompt
};
struct PartBegin {
  PartKind kind = PartKind::kContent;
  std::string id;    // of a tool call, globally unique
  std::string name;  // of a tool call, as the model knows it
};
// A tool call's text is its arguments as the model wrote them, which need not be JSON. `tokens`: those since the last
// event that had tokens.
struct PartDelta {
  std::string text;
  std::vector<Token> tokens;
};
struct PartEnd {
  bool cut = false;  // the token limit ended the turn within this part
};
struct AnswerEnd {
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;  // STOP or LENGTH
  std::string stop_string;                           // the client's stop string that ended it; empty = none
  std::vector<Token> tokens;
  Usage usage;
};
using Event = std::variant<AnswerBegin, PartBegin, PartDelta, PartEnd, AnswerEnd>;

// A part and a choice, assembled from their events.
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
  AnswerEnd end;  // end.finish is UNSPECIFIED until the event comes

  bool has_calls() const;
  std::string TextOf(PartKind kind) const;  // the joined text of all parts of this kind
  std::vector<Token> Tokens() const;
};

}  // namespace ingot::gateway
