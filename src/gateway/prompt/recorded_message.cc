#include "gateway/prompt/recorded_message.h"

#include "base/big_integer.h"
#include "base/json.h"

namespace ingot::gateway {
namespace {

constexpr char kEchoedArguments[] = "echoed_arguments";  // field of a tool call
constexpr char kStopString[] = "stop_string";            // field of the message

}  // namespace

std::string DeliveredJson(const DeliveredMessage& delivered) {
  base::json::value json = text::MessageToJson(delivered.message);
  for (size_t i = 0; i < delivered.echoed_arguments.size(); ++i) {
    json.at("tool_calls").at(i).as_object()[kEchoedArguments] = delivered.echoed_arguments[i];
  }
  if (!delivered.stop.empty()) json.as_object()[kStopString] = delivered.stop;
  return base::PrintJson(json);
}

absl::StatusOr<DeliveredMessage> ReadDelivered(std::string_view json) {
  INGOT_ASSIGN_OR_RETURN(const base::json::value value, base::ParseJsonExactly(json));
  DeliveredMessage delivered;
  INGOT_ASSIGN_OR_RETURN(delivered.message, text::MessageFromJson(value));
  delivered.message.extra.erase(kStopString);
  if (const base::json::value* stop = base::Find(value, kStopString); stop != nullptr && stop->is_string()) {
    delivered.stop = std::string(stop->get_string());
  }
  for (size_t i = 0; i < delivered.message.tool_calls.size(); ++i) {
    const base::json::value* echoed = base::Find(value.at("tool_calls").at(i), kEchoedArguments);
    if (echoed == nullptr || !echoed->is_string()) break;
    delivered.echoed_arguments.emplace_back(echoed->get_string());
  }
  return delivered;
}

}  // namespace ingot::gateway
