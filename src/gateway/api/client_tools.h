// Responses API tools that clients only declare by type, and run themselves. The model sees each tool as a function,
// and the client sees each call as an item of the tool's own type. Pure functions.
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
  const char* type;         // in the declaration; also the name that the model sees
  const char* description;  // shown to the model
  const char* schema;       // JSON Schema for the arguments
  const char* call_type;    // type of the call item; the result item's type is call_type + "_output"
  const char* id_prefix;    // prefix for the call item's id
  const char* asked;        // the call item's field that holds the arguments
  const char* blank;        // value of that field if the arguments cannot be parsed
};

// Return nullptr if there is no such tool.
const ClientTool* FindClientTool(std::string_view type);
const ClientTool* FindClientTool(ToolKind kind);
const ClientTool* ClientToolOfCall(std::string_view call_type);

ToolDeclaration DeclarationOf(const ClientTool& tool);
// AskedOf converts a function call's arguments to the value of the `asked` field. ArgumentsOf does the reverse and
// omits null fields.
base::json::object AskedOf(const ClientTool& tool, const std::string& arguments_json);
std::string ArgumentsOf(const ClientTool& tool, const base::json::object& asked);
// Returns a result item's text.
absl::StatusOr<std::string> ResultText(const ClientTool& tool, Fields& item);

// Returns a call's arguments as a client would send them back. For custom tools, client tools, and arguments delivered
// as an object, they differ from the model's output and may omit parts of it.
std::string EchoedArguments(const GatewayRequest& request, const text::ToolCall& call);

}  // namespace ingot::gateway
