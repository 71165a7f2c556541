#include "gateway/lost_tools.h"

#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "text/output/output_format.h"

namespace ingot::gateway {
namespace {

constexpr char kProbe[] = "probed_tool";

// Returns true if a prompt with a tool differs from one without it. A template that rejects a conversation does not
// lose anything silently.
bool WritesTools(const text::ChatFormat& format) {
  text::Conversation conversation;
  conversation.messages.emplace_back();
  conversation.messages[0].role = "user";
  conversation.messages[0].content = "1";
  const auto without = format.Render(conversation, /*add_generation_prompt=*/true);
  const base::json::object parameters{{"type", "object"}, {"properties", base::json::object()}};
  const base::json::object function{{"name", kProbe}, {"description", "Probes."}, {"parameters", parameters}};
  conversation.tools.emplace_back(base::json::object{{"type", "function"}, {"function", function}});
  const auto with = format.Render(conversation, /*add_generation_prompt=*/true);
  return !without.ok() || !with.ok() || with->ids != without->ids;
}

}  // namespace

std::string WhyToolsAreLost(const text::ChatFormat& format) {
  std::string why;
  if (!WritesTools(format)) why = "the chat template does not write tools into the prompt";
  const absl::Status calls = format.output()->ShapeOf(kProbe).status();
  if (absl::IsUnimplemented(calls)) absl::StrAppend(&why, why.empty() ? "" : ", and ", calls.message());
  return why;
}

void LostTools::Note(size_t tools) {
  std::call_once(looked_, [&] {
    const std::string why = WhyToolsAreLost(*format_);
    lost_ = !why.empty();
    if (!lost_) return;
    INGOT_LOG(warn,
              "a call has tools ({}), but this model cannot use them: {}. Such calls get text answers, and "
              "ingot_gateway_lost_tools_total counts them; {}",
              tools, why, kWayToTools);
  });
  if (lost_) ++calls_;
}

}  // namespace ingot::gateway
