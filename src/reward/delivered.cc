#include "reward/delivered.h"

#include "base/json.h"

namespace ingot::reward {
namespace {

std::string TextOf(const base::json::value& of, std::string_view key) {
  const base::json::value* field = base::Find(of, key);
  if (field == nullptr || field->is_null()) return "";
  return field->is_string() ? std::string(field->get_string()) : base::PrintJson(*field);
}

}  // namespace

DeliveredMessage DeliveredBy(const v1::Call& call) {
  DeliveredMessage delivered;
  const auto message = base::ParseJson(call.delivered_json());
  if (!message.ok()) return delivered;
  delivered.content = TextOf(*message, "content");
  delivered.reasoning = TextOf(*message, "reasoning_content");
  const base::json::value* calls = base::Find(*message, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return delivered;
  for (const base::json::value& one : calls->get_array()) {
    DeliveredToolCall tool{.id = TextOf(one, "id"), .name = "", .arguments = ""};
    if (const base::json::value* function = base::Find(one, "function"); function != nullptr) {
      tool.name = TextOf(*function, "name");
      tool.arguments = TextOf(*function, "arguments");
    }
    delivered.tool_calls.push_back(std::move(tool));
  }
  return delivered;
}

}  // namespace ingot::reward
