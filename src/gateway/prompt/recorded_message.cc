#include "gateway/prompt/recorded_message.h"

#include "base/json.h"

namespace ingot::gateway {
namespace {

constexpr char kEchoedArguments[] = "echoed_arguments";  // of a tool call

}  // namespace

std::string DeliveredJson(const text::Message& message, const std::vector<std::string>& echoed_arguments) {
  base::json::value json = text::MessageToJson(message);
  for (size_t i = 0; i < echoed_arguments.size(); ++i) {
    json.at("tool_calls").at(i).as_object()[kEchoedArguments] = echoed_arguments[i];
  }
  return base::PrintJson(json);
}

absl::StatusOr<DeliveredMessage> ReadDelivered(std::string_view json) {
  INGOT_ASSIGN_OR_RETURN(const base::json::value value, base::ParseJson(json));
  DeliveredMessage delivered;
  INGOT_ASSIGN_OR_RETURN(delivered.message, text::MessageFromJson(value));
  for (size_t i = 0; i < delivered.message.tool_calls.size(); ++i) {
    const base::json::value* echoed = base::Find(value.at("tool_calls").at(i), kEchoedArguments);
    if (echoed == nullptr || !echoed->is_string()) break;
    delivered.echoed_arguments.emplace_back(echoed->get_string());
  }
  return delivered;
}

}  // namespace ingot::gateway
