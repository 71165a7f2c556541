// Formats the gateway's metrics in the Prometheus text exposition format.
#include <string>

#include "gateway/gateway.h"

namespace ingot::gateway {
namespace {

void Family(std::string& out, const char* name, const char* type, const char* help) {
  absl::StrAppend(&out, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

void Single(std::string& out, const char* name, const char* type, const char* help, int64_t value) {
  Family(out, name, type, help);
  absl::StrAppend(&out, name, " ", value, "\n");
}

}  // namespace

std::string Gateway::MetricsText() const {
  const Counters& counters = core_.counters;
  std::string out;
  const auto counter = [&](const char* name, const char* help, int64_t value) {
    Single(out, name, "counter", help, value);
  };
  const auto gauge = [&](const char* name, const char* help, int64_t value) {
    Single(out, name, "gauge", help, value);
  };

  constexpr char kCalls[] = "ingot_gateway_calls_total";
  Family(out, kCalls, "counter", "Chat calls answered, by outcome.");
  const std::pair<const char*, int64_t> outcomes[] = {{"completed", counters.completed},
                                                      {"aborted", counters.aborted},
                                                      {"rejected", counters.rejected},
                                                      {"failed", counters.failed}};
  for (const auto& [outcome, value] : outcomes) {
    absl::StrAppend(&out, kCalls, "{outcome=\"", outcome, "\"} ", value, "\n");
  }
  constexpr char kForks[] = "ingot_gateway_forks_total";
  Family(out, kForks, "counter", "Calls that could not continue an earlier call's sampled ids, by cause.");
  for (const auto& [cause, value] : counters.forks()) {
    absl::StrAppend(&out, kForks, "{cause=\"", cause, "\"} ", value, "\n");
  }
  constexpr char kConcessions[] = "ingot_gateway_concessions_total";
  Family(out, kConcessions, "counter",
         "Calls whose conversation the chat template rejected as sent, by the change that made it acceptable.");
  for (size_t i = 0; i < counters.concessions.size(); ++i) {
    absl::StrAppend(&out, kConcessions, "{kind=\"", base::View(text::kConcessionNames[i]), "\"} ",
                    counters.concessions[i].load(), "\n");
  }
  counter("ingot_gateway_resumed_calls_total", "Calls continued on another engine because their engine was lost.",
          counters.resumed);
  counter("ingot_gateway_waited_calls_total", "Calls that waited for an engine because no engine was available.",
          counters.waited);
  counter("ingot_gateway_paused_calls_total", "Times that the end of a slice paused a call.", counters.paused);
  counter("ingot_gateway_slice_failures_total", "Slices that the pool did not store when the call was paused.",
          counters.slice_failures);
  counter("ingot_gateway_spliced_calls_total", "Calls that continued sampled ids.", counters.spliced);
  counter("ingot_gateway_recorded_calls_total", "Calls acknowledged by the pool.", counters.recorded);
  counter("ingot_gateway_record_failures_total", "Calls that the pool did not store.", counters.record_failures);
  counter("ingot_gateway_malformed_tool_calls_total", "Answers with a malformed tool call.",
          counters.malformed_tool_calls);
  counter("ingot_gateway_tool_choice_unforced_total", "Required tool calls that were answered with text.",
          counters.tool_choice_unforced);
  counter("ingot_gateway_lost_tools_total",
          "Calls with tools that the chat format cannot show to the model or whose calls it cannot parse.",
          core_.lost_tools.calls());
  counter("ingot_gateway_flagged_calls_total",
          "Calls sampled with a grammar, penalty, or bias, which are never trained on.", counters.flagged);
  counter("ingot_gateway_prompt_tokens_total", "Prompt tokens sent to the engine.", counters.prompt_tokens);
  counter("ingot_gateway_rendered_prompt_tokens_total",
          "Prompt tokens encoded from text, not taken from earlier calls.", counters.rendered_tokens);
  counter("ingot_gateway_cached_prompt_tokens_total", "Prompt tokens found in the engine's KV cache.",
          counters.cached_tokens);
  counter("ingot_gateway_sampled_tokens_total", "Tokens sampled.", counters.sampled_tokens);
  counter("ingot_gateway_episodes_opened_total", "Episodes opened.", counters.episodes_opened);
  counter("ingot_gateway_episodes_finished_total", "Episodes ended as finished.", counters.episodes_finished);
  counter("ingot_gateway_episodes_failed_total", "Episodes ended as failed.", counters.episodes_failed);
  counter("ingot_gateway_episodes_fenced_total", "Episodes ended as lost through no fault of the agent.",
          counters.episodes_fenced);
  counter("ingot_gateway_episodes_never_called_total", "Episodes ended because their client made no call.",
          counters.episodes_never_called);
  counter("ingot_gateway_episodes_forked_total", "Trunks ended at their fork.", counters.episodes_forked);
  counter("ingot_gateway_episodes_ended_elsewhere_total", "Episodes that another process ended in the pool.",
          counters.episodes_ended_elsewhere);
  counter("ingot_gateway_episodes_taken_total", "Open episodes taken over from another gateway or an earlier process.",
          counters.episodes_taken);
  counter("ingot_gateway_episodes_rejected_total", "Episodes not admitted.", counters.episodes_rejected);
  const v1::GatewayStatusResponse status = Status();
  gauge("ingot_gateway_open_episodes", "Episodes and sessions open now.", status.open_episodes());
  gauge("ingot_gateway_open_episodes_limit", "Maximum number of open episodes and sessions.",
        core_.options.max_open_episodes);
  gauge("ingot_gateway_uncalled_episodes", "Open episodes of external clients that have not made a call yet.",
        status.uncalled_episodes());
  gauge("ingot_gateway_oldest_uncalled_episode_seconds", "Age of the oldest uncalled episode; 0 if there is none.",
        status.oldest_uncalled_ms() / 1000);
  gauge("ingot_gateway_active_calls", "Calls in flight now.", status.active_calls());
  gauge("ingot_gateway_active_calls_limit", "Maximum number of open episodes and sessions.",
        core_.options.max_active_calls);
  gauge("ingot_gateway_queued_work", "Jobs waiting for a worker.", core_.workers.queued());
  gauge("ingot_gateway_queued_work_limit", "Maximum number of waiting jobs before new requests are rejected.",
        core_.options.max_queued_work);
  return out;
}

}  // namespace ingot::gateway
