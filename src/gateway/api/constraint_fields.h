// Reads the fields by which vLLM, SGLang and llama.cpp let a client constrain an answer, in every dialect. Pure
// functions.
#pragma once

#include "gateway/api/fields.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

inline constexpr size_t kMaxChoiceTexts = 1024;

// Reads structured_outputs, guided_json, guided_regex, guided_choice, json_schema and regex (the answer's text), and
// continue_final_message (its beginning), and min_tokens, ignore_eos, stop_token_ids and include_stop_str_in_output
// (its end). A field that other servers support and this one does not is a 400 that names it (grammars, ...).
void ReadConstraints(Fields& body, GatewayRequest& request);

// Call it before setting a constraint on the answer's text. If there is already one, returns false, and a 400 names
// both fields. Otherwise `name` becomes request.format_field.
bool BeginAnswerConstraint(Fields& owner, std::string_view name, GatewayRequest& request);

}  // namespace ingot::gateway
