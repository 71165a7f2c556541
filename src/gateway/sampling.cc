#include "gateway/sampling.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/rng.h"
#include "gateway/api_error.h"

namespace ingot::gateway {
namespace {

void Pin(const SamplingPin& pin, const GatewayOptions& options, const v1::Episode& record, int32_t sequence,
         v1::SamplingParams& params) {
  params.set_temperature(pin.temperature);
  params.set_top_p(pin.top_p);
  params.set_top_k(pin.top_k);
  params.set_min_p(pin.min_p);
  // From the run's seed and the call's place in it, so that a run's draws can be repeated, and samples of one group
  // differ whatever seed their agents send.
  uint64_t seed = base::DeriveSeed(options.seed, record.purpose());
  seed = base::DeriveSeed(seed, record.ref().group_id());
  seed = base::DeriveSeed(seed, (static_cast<uint64_t>(record.ref().sample_index()) << 32) | record.ref().attempt());
  // Evaluations of different versions repeat group numbers only if their scheduler does; the version keeps them apart.
  seed = base::DeriveSeed(seed, static_cast<uint64_t>(record.pinned_version() + 1));
  params.set_seed(base::DeriveSeed(seed, sequence));
}

void Ask(const GatewayRequest& request, int choice, v1::SamplingParams& params) {
  params.set_temperature(static_cast<float>(request.temperature.value_or(1)));
  params.set_top_p(static_cast<float>(request.top_p.value_or(1)));
  params.set_top_k(request.top_k.value_or(0));
  params.set_min_p(static_cast<float>(request.min_p.value_or(0)));
  uint64_t seed = request.seed.has_value() ? *request.seed : RandomSeed();
  if (choice > 0) seed = base::DeriveSeed(seed, choice);
  params.set_seed(seed);
  params.set_frequency_penalty(static_cast<float>(request.frequency_penalty.value_or(0)));
  params.set_presence_penalty(static_cast<float>(request.presence_penalty.value_or(0)));
  params.set_repetition_penalty(static_cast<float>(request.repetition_penalty.value_or(1)));
  params.set_penalty_acted(params.frequency_penalty() != 0 || params.presence_penalty() != 0 ||
                           params.repetition_penalty() != 1);
  for (const auto& [id, bias] : request.logit_bias) (*params.mutable_logit_bias())[id] = bias;
  params.set_bias_acted(!request.logit_bias.empty());
}

bool ThinkingIsOpen(const text::ChatFormat& format, std::string_view prefill) {
  const std::string begin = format.SyntaxOfReasoning().begin;
  while (prefill.ends_with('\n') || prefill.ends_with(' ')) prefill.remove_suffix(1);
  return !begin.empty() && prefill.ends_with(begin);
}

std::string ArgumentsSchema(const base::json::value& tool) {
  const base::json::value* function = base::Find(tool, "function");
  const base::json::value* parameters = function == nullptr ? nullptr : base::Find(*function, "parameters");
  const bool usable = parameters != nullptr && parameters->is_object() && !parameters->get_object().empty();
  return usable ? base::PrintJson(*parameters) : R"({"type":"object"})";
}

}  // namespace

absl::Status CheckContext(const Backend& backend, size_t prompt_tokens) {
  if (backend.context_length == 0) {
    auto status = backend.engine->Status();
    if (!status.ok()) return base::Annotate(status.status(), "the engine does not answer");
    backend.context_length = status->context_length();
  }
  const int64_t context = backend.context_length;
  if (context <= 0 || static_cast<int64_t>(prompt_tokens) < context) return absl::OkStatus();
  return ApiError(
      400, kContextLengthExceeded, "messages",
      absl::StrCat(prompt_tokens, " tokens > ", context, " maximum: this model's maximum context length is ", context,
                   " tokens, and the prompt has ", prompt_tokens, ": shorten it"));
}

std::optional<v1::Grammar> GrammarOf(const text::ChatFormat& format, const GatewayRequest& request,
                                     bool thinking_open) {
  const ToolChoice& choice = request.tool_choice;
  const bool required = choice.mode == ToolChoice::Mode::kRequired;
  if (!required && !request.json_schema.has_value()) return std::nullopt;
  v1::Grammar grammar;
  const text::ChatFormat::ReasoningSyntax reasoning = format.SyntaxOfReasoning();
  const bool after_reasoning =
      !request.raw_output && !reasoning.end.empty() && (thinking_open || request.thinking.value_or(false));
  if (after_reasoning) grammar.set_begins_after(reasoning.end);
  const auto begin = [&] {
    v1::GrammarSequence* sequence = grammar.add_alternatives();
    if (after_reasoning && !reasoning.after.empty()) sequence->add_parts()->set_literal(reasoning.after);
    return sequence;
  };
  for (size_t i = 0; i < request.tools.size() && request.tools_enabled(); ++i) {
    const std::string& name = request.tools[i].name;
    const bool allowed =
        choice.names.empty() || std::find(choice.names.begin(), choice.names.end(), name) != choice.names.end();
    if (!allowed) continue;
    const auto syntax = format.SyntaxOfCall(name);
    if (!syntax.has_value()) return std::nullopt;
    v1::GrammarSequence* call = begin();
    call->add_parts()->set_literal(syntax->before);
    call->add_parts()->set_json_schema(ArgumentsSchema(request.conversation.tools[i]));
    call->add_parts()->set_literal(syntax->after);
  }
  if (!required) begin()->add_parts()->set_json_schema(*request.json_schema);
  return grammar;
}

SamplingPlan PlanSampling(const Core& core, const v1::Episode& episode, const GatewayRequest& request, int32_t sequence,
                          int choice, const PromptPlan& prompt) {
  SamplingPlan plan;
  v1::SamplingParams& params = plan.params;
  if (episode.purpose() == v1::PURPOSE_SERVE) {
    Ask(request, choice, params);
  } else {
    const bool train = episode.purpose() == v1::PURPOSE_TRAIN;
    Pin(train ? core.options.train_sampling : core.options.eval_sampling, core.options, episode, sequence, params);
  }
  const int64_t cap = core.options.max_new_tokens;
  const int64_t unasked = core.options.default_max_tokens > 0 ? core.options.default_max_tokens : cap;
  int64_t limit = std::min(cap, request.max_tokens > 0 ? request.max_tokens : unasked);
  const int64_t context = core.BackendOf(request.model).context_length;
  if (context > 0) limit = std::min<int64_t>(limit, context - static_cast<int64_t>(prompt.ids.size()));
  params.set_max_new_tokens(static_cast<int32_t>(limit));
  for (const std::string& stop : request.stop) params.add_stop(stop);
  for (const int32_t id : core.parts.format->end_of_turn_ids()) params.add_stop_token_ids(id);
  if (auto grammar = GrammarOf(*core.parts.format, request, ThinkingIsOpen(*core.parts.format, prompt.prefill))) {
    *params.mutable_grammar() = *std::move(grammar);
    params.set_grammar_acted(true);
  } else if (!request.parallel_tool_calls && request.tools_enabled()) {
    const auto syntax = core.parts.format->SyntaxOfCall(request.tools[0].name);
    if (syntax.has_value()) plan.own_stop = syntax->end;
    if (!plan.own_stop.empty()) params.add_stop(plan.own_stop);
  }
  return plan;
}

}  // namespace ingot::gateway
