// Tools of the Responses API that clients declare only by type and run themselves. The model knows each as a function;
// its calls go out and come back as items with their own type. Pure functions.
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
  const char* type;         // of the declaration; also the model's name for it
  const char* description;  // for the model
  const char* schema;       // of the arguments
  const char* call_type;    // of the item of a call; the item of a result has this type with "_output" appended
  const char* id_prefix;    // of the call item's id
  const char* asked;        // the call item's field with the arguments
  const char* blank;        // that field's value if the arguments cannot be read
};

// nullptr = no such tool.
const ClientTool* FindClientTool(std::string_view type);
const ClientTool* FindClientTool(ToolKind kind);
const ClientTool* ClientToolOfCall(std::string_view call_type);

ToolDeclaration DeclarationOf(const ClientTool& tool);
// A function call's arguments as the field `asked`, and back without null fields.
base::json::object AskedOf(const ClientTool& tool, const std::string& arguments_json);
std::string ArgumentsOf(const ClientTool& tool, const base::json::object& asked);
// The text of a result's item.
absl::StatusOr<std::string> ResultText(const ClientTool& tool, Fields& item);

// The arguments of a call as a client sends them back. For custom tools, client tools and arguments delivered as an
// object, they differ from the model's text and do not contain everything that the model wrote.
std::string EchoedArguments(const GatewayRequest& request, const text::ToolCall& call);

}  // namespace ingot::gateway
