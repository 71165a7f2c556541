// Reads the request fields that constrain an answer in vLLM, SGLang, and llama.cpp. All dialects accept them. Pure
// functions.
#pragma once

#include "gateway/api/fields.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

inline constexpr size_t kMaxChoiceTexts = 1024;

// Reads the constraints on the answer's text (structured_outputs, guided_json, guided_regex, guided_choice,
// json_schema, regex), on its beginning (continue_final_message), and on its end (min_tokens, ignore_eos,
// stop_token_ids, include_stop_str_in_output). A field that other servers support but this server does not, such as a
// grammar, causes a 400 error that names the field.
void ReadConstraints(Fields& body, GatewayRequest& request);

// Must be called before setting a constraint on the answer's text. If one is already set, records a 400 error that
// names both fields and returns false. Otherwise, sets request.format_field to `name`.
bool BeginAnswerConstraint(Fields& owner, std::string_view name, GatewayRequest& request);

}  // namespace ingot::gateway
