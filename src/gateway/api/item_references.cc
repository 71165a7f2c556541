#include "gateway/api/item_references.h"

#include <optional>

#include "gateway/api/api_error.h"

namespace ingot::gateway {
namespace {

// Limit in bytes on the total text of all references. A client could otherwise repeat a short reference to a long text.
constexpr size_t kMaxReferredBytes = 64 << 20;

}  // namespace

absl::Status ResolveReferences(const FindDelivered& find_delivered, GatewayRequest& request) {
  // Iterates from last to first, so insertions do not move the positions of the remaining references.
  absl::Status unknown;
  size_t bytes = 0;
  for (auto reference = request.references.rbegin(); reference != request.references.rend(); ++reference) {
    const std::optional<text::Message> delivered = find_delivered(reference->call_id);
    const bool is_call = reference->kind == PartKind::kCall;
    if (!delivered.has_value() || (is_call && reference->index >= delivered->tool_calls.size())) {
      unknown = ApiError(400, "unsupported_parameter", reference->path,
                         absl::StrCat("'", reference->path,
                                      "' refers to an unknown item: send the item itself, as with store: false"));
      continue;
    }
    bytes += is_call                                   ? delivered->tool_calls[reference->index].arguments_json.size()
             : reference->kind == PartKind::kReasoning ? delivered->reasoning.size()
                                                       : delivered->content.size();
    if (bytes > kMaxReferredBytes) {
      return BadRequest(request.prompt_field, absl::StrCat("'", request.prompt_field, "' refers to more than ",
                                                           kMaxReferredBytes, " bytes of earlier answers"));
    }
    text::Message& message = request.conversation.messages[reference->message];
    if (is_call) {
      message.tool_calls[reference->at] = delivered->tool_calls[reference->index];
    } else if (reference->kind == PartKind::kReasoning) {
      message.reasoning.insert(reference->at, delivered->reasoning);
    } else {
      message.content.insert(reference->at, delivered->content);
    }
  }
  request.references.clear();
  return unknown;
}

}  // namespace ingot::gateway
