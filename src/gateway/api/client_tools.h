// Tools of the Responses API that clients declare by their type alone and run themselves. The model knows each as a
// function; a call of it goes out, and comes back, as an item of its own kind. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "gateway/api/fields.h"
#include "gateway/api/request.h"
#include "gateway/api/request_fields.h"

namespace ingot::gateway {

struct ClientTool {
  ToolKind kind;
  const char* type;         // of its declaration, and its name as the model knows it
  const char* description;  // for the model
  const char* schema;       // of its arguments
  const char* call_type;    // of the item that calls it; the item of its result is of that and "_output"
  const char* id_prefix;    // of that item
  const char* asked;        // that item's field that says what is to be done
  const char* blank;        // that field's value in a call whose arguments cannot be read
};

// nullptr: it is none of them.
const ClientTool* FindClientTool(std::string_view type);
const ClientTool* FindClientTool(ToolKind kind);
const ClientTool* ClientToolOfCall(std::string_view call_type);

ToolDeclaration DeclarationOf(const ClientTool& tool);
// A function call's arguments as the item's field, and back: what is not null.
base::json::object AskedOf(const ClientTool& tool, const std::string& arguments_json);
std::string ArgumentsOf(const ClientTool& tool, const base::json::object& asked);
// What the item of a result says, as text.
absl::StatusOr<std::string> ResultText(const ClientTool& tool, Fields& item);

// The arguments of a call as a client sends it back. Calls of custom tools and of client tools are told to clients in
// other words than the model's, which do not say all that the model wrote.
std::string EchoedArguments(const GatewayRequest& request, const text::ToolCall& call);

}  // namespace ingot::gateway
