#include "gateway/api/dialects/openai_fields.h"

#include <utility>

#include "gateway/api/client_tools.h"
#include "gateway/api/request_fields.h"

namespace ingot::gateway {
namespace {

using base::json::value;

std::string StringIn(const value& json, std::string_view name) {
  const value* field = base::Find(json, name);
  return field != nullptr && field->is_string() ? std::string(field->get_string()) : "";
}

// Returns the model's name for the chosen tool, or "" if none is given.
std::string ChosenName(const value& choice) {
  for (const char* type : {"function", "custom"}) {
    if (const value* inner = base::Find(choice, type)) return StringIn(*inner, "name");
  }
  const std::string name = StringIn(choice, "name");
  if (name.empty() && FindClientTool(StringIn(choice, "type")) != nullptr) return StringIn(choice, "type");
  return FlatName(StringIn(choice, "namespace"), name);
}

// Returns true for a tool that runs on the vendor's servers. Requests with such tools are accepted without them.
bool IsHosted(const value& chosen) {
  const std::string type = StringIn(chosen, "type");
  return !type.empty() && type != "function" && type != "custom" && FindClientTool(type) == nullptr;
}

}  // namespace

void ReadChoices(Fields& body, GatewayRequest& request) {
  std::optional<int64_t> n;
  body.Read("n", 1, 128, n);
  request.n = static_cast<int32_t>(n.value_or(1));
  if (body.Object("stream_options") == nullptr) return;
  Fields options(*body.Get("stream_options"), "stream_options");
  options.Read("include_usage", request.include_usage);
  body.Fail(options.status());
}

absl::Status ReadToolChoice(Fields& body, GatewayRequest& request) {
  const value* choice = body.Get("tool_choice");
  if (choice == nullptr) return absl::OkStatus();
  if (choice->is_string()) return SetToolChoice(choice->get_string(), request);
  if (StringIn(*choice, "type") == "allowed_tools") {
    const value* nested = base::Find(*choice, "allowed_tools");
    Fields fields(nested == nullptr ? *choice : *nested,
                  nested == nullptr ? "tool_choice" : "tool_choice.allowed_tools");
    std::string mode = "auto";
    fields.Read("mode", mode);
    const base::json::array* tools = fields.List("tools", kMaxListed);
    INGOT_RETURN_IF_ERROR(fields.status());
    std::vector<std::string> names;
    bool any_hosted = false;
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
      const bool hosted = IsHosted((*tools)[i]);
      any_hosted = any_hosted || hosted;
      if (!hosted) names.push_back(ChosenName((*tools)[i]));
    }
    if (mode != "auto") {
      INGOT_RETURN_IF_ERROR(RequireTools(std::move(names), request));
      return SetToolChoice(mode, request);
    }
    if (!names.empty() || !any_hosted) INGOT_RETURN_IF_ERROR(RequireTools(names, request));
    KeepTools(names, request);
    request.tool_choice = {};
    return absl::OkStatus();
  }
  const std::string name = ChosenName(*choice);
  if (name.empty()) return SetToolChoice("", request);  // the error lists the possible values
  return RequireTools({name}, request);
}

}  // namespace ingot::gateway
