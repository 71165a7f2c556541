#include "gateway/calls/sampling.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/random.h"
#include "base/rng.h"
#include "gateway/api/api_error.h"
#include "gateway/api/request_fields.h"
#include "gateway/lost_tools.h"
#include "text/output/output_format.h"

namespace ingot::gateway {
namespace {

void Pin(const SamplingPin& pin, const GatewayOptions& options, const Episode& episode, int32_t sequence,
         v1::SamplingParams& params) {
  const v1::Episode& record = episode.record();
  params.set_temperature(pin.temperature);
  params.set_top_p(pin.top_p);
  params.set_top_k(pin.top_k);
  params.set_min_p(pin.min_p);
  // The seed is derived from the run's seed and the call's position in the run. So a run's draws can be reproduced, and
  // a group's samples differ regardless of the seeds that their agents send. An attempt that replaces a lost one has
  // the same seeds, so a run that was killed samples what it would have sampled.
  uint64_t seed = base::DeriveSeed(options.seed, record.purpose());
  seed = base::DeriveSeed(seed, record.ref().group_id());
  seed = base::DeriveSeed(seed, (static_cast<uint64_t>(record.ref().sample_index()) << 32) | episode.failed_attempts());
  // Evaluations of different versions may have equal group numbers. The version separates their seeds.
  seed = base::DeriveSeed(seed, static_cast<uint64_t>(record.pinned_version() + 1));
  params.set_seed(base::DeriveSeed(seed, sequence));
}

// Returns the maximum number of tokens for one call.
int64_t CapOf(const GatewayOptions& options, v1::EpisodePurpose purpose) {
  const bool own = purpose == v1::PURPOSE_EVAL && options.eval_max_new_tokens > 0;
  return own ? options.eval_max_new_tokens : options.max_new_tokens;
}

void Ask(const GatewayRequest& request, int choice, v1::SamplingParams& params) {
  // A smaller temperature selects the most likely token. Engines reject values between 0 and this one.
  constexpr double kMinTemperature = 0.001;
  const double temperature = request.temperature.value_or(1);
  params.set_temperature(static_cast<float>(temperature < kMinTemperature ? 0 : temperature));
  // For the engine, a top_p of 0 means off. For a client, it is the smallest nucleus, which has one token.
  const bool one_token = request.top_p.has_value() && *request.top_p == 0;
  params.set_top_p(static_cast<float>(one_token ? 1 : request.top_p.value_or(1)));
  params.set_top_k(one_token ? 1 : request.top_k.value_or(0));
  params.set_min_p(static_cast<float>(request.min_p.value_or(0)));
  uint64_t seed = request.seed.has_value() ? *request.seed : base::RandomSeed();
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

std::string ArgumentsSchema(const base::json::value& tool, bool strict) {
  const base::json::value* function = base::Find(tool, "function");
  const base::json::value* parameters = function == nullptr ? nullptr : base::Find(*function, "parameters");
  const bool usable = parameters != nullptr && parameters->is_object() && !parameters->get_object().empty();
  if (!usable) return R"({"type":"object"})";
  return base::PrintJson(strict ? *parameters : LenientSchema(*parameters));
}

bool MayBeCalled(const GatewayRequest& request, const std::string& name) {
  const std::vector<std::string>& names = request.tool_choice.names;
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// Writes a sequence's parts. Merges adjacent literals into one part.
class SequenceWriter {
 public:
  explicit SequenceWriter(v1::GrammarSequence* sequence) : sequence_(sequence) {}

  void Text(const std::string& text) {
    if (text.empty()) return;
    const int parts = sequence_->parts_size();
    if (parts > 0 && sequence_->parts(parts - 1).has_literal()) {
      sequence_->mutable_parts(parts - 1)->mutable_literal()->append(text);
    } else {
      sequence_->add_parts()->set_literal(text);
    }
  }

  void Value(const std::string& schema) { sequence_->add_parts()->set_json_schema(schema); }
  void Regex(const std::string& regex) { sequence_->add_parts()->set_regex(regex); }

  void Call(const text::OutputFormat& format, const text::OutputFormat::CallShape& shape, const std::string& schema) {
    using Piece = text::OutputFormat::CallPiece;
    for (const Piece& piece : shape.call) {
      switch (piece.kind) {
        case Piece::kText:
          Text(piece.text);
          break;
        case Piece::kArguments:
          Value(schema);
          break;
        case Piece::kParameters:
          Parameters(format.ShapeOfParameters(), schema);
          break;
        case Piece::kKeywords:
          sequence_->add_parts()->set_python_keywords(schema);
          break;
        case Piece::kIndex:
          Value(R"({"type":"integer","minimum":0})");
          break;
      }
    }
  }

  v1::GrammarRepeat* Repeat(const std::string& between) {
    v1::GrammarRepeat* repeat = sequence_->add_parts()->mutable_repeat();
    repeat->set_between(between);
    return repeat;
  }

 private:
  void Parameters(const text::OutputFormat::ParameterShape& shape, const std::string& schema) {
    v1::GrammarParameters& parameters = *sequence_->add_parts()->mutable_parameters();
    parameters.set_json_schema(schema);
    parameters.set_begin(shape.begin);
    parameters.set_text_key_end(shape.text_key_end);
    parameters.set_json_key_end(shape.json_key_end);
    parameters.set_value_end(shape.value_end);
    parameters.set_stop(shape.stop);
  }

  v1::GrammarSequence* const sequence_;
};

}  // namespace

absl::Status CheckToolChoice(const text::ChatFormat& format, const GatewayRequest& request) {
  if (request.tool_choice.mode != ToolChoice::Mode::kRequired || request.raw_output) return absl::OkStatus();
  for (const Tool& tool : request.tools) {
    if (!MayBeCalled(request, tool.name)) continue;
    const auto shape = format.output()->ShapeOf(tool.name);
    if (shape.ok()) continue;
    const std::string way_on =
        absl::IsUnimplemented(shape.status())
            ? absl::StrCat(kWayToTools, ". Without such a format, answers are text, even with 'auto'")
            : std::string("leave the choice to the model (auto)");
    return ApiError(
        400, "tool_choice_unsupported", request.tool_choice_field,
        absl::StrCat("no call of '", tool.name, "' can be forced: ", shape.status().message(), "; ", way_on));
  }
  return absl::OkStatus();
}

absl::Status CheckStopIds(const text::Tokenizer& tokenizer, const GatewayRequest& request) {
  for (const int32_t id : request.stop_token_ids) {
    if (id < tokenizer.vocab_size()) continue;
    return BadRequest("stop_token_ids", absl::StrCat("'stop_token_ids' has ", id, ", but the vocabulary has ",
                                                     tokenizer.vocab_size(), " tokens"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ContextOf(const Backend& backend) {
  if (backend.context_length == 0) {
    auto status = backend.engine->Status();
    if (!status.ok()) return base::Annotate(status.status(), "the engine does not respond");
    backend.context_length = status->context_length();
  }
  return backend.context_length;
}

absl::Status PromptTooLong(int64_t context, const char* field, size_t prompt_tokens, bool at_least) {
  return ApiError(
      400, kContextLengthExceeded, field,
      absl::StrCat(prompt_tokens, " tokens > ", context, " maximum: this model's maximum context length is ", context,
                   " tokens, and the prompt has ", at_least ? "at least " : "", prompt_tokens, ": shorten it"));
}

std::optional<v1::Grammar> GrammarOf(const text::ChatFormat& format, const GatewayRequest& request,
                                     bool thinking_open) {
  const ToolChoice& choice = request.tool_choice;
  const bool required = choice.mode == ToolChoice::Mode::kRequired;
  if (!required && !request.holds_answer()) return std::nullopt;
  v1::Grammar grammar;
  const text::ChatFormat::ReasoningSyntax reasoning = format.SyntaxOfReasoning();
  const bool after_reasoning =
      !request.raw_output && !reasoning.end.empty() && (thinking_open || request.thinking.value_or(false));
  if (after_reasoning) grammar.set_begins_after(reasoning.end);
  const auto begin = [&] {
    SequenceWriter sequence(grammar.add_alternatives());
    if (after_reasoning) sequence.Text(reasoning.after);
    return sequence;
  };
  const bool several = request.parallel_tool_calls && choice.names.size() != 1;
  v1::GrammarRepeat* repeat = nullptr;
  const text::OutputFormat& output = *format.output();
  for (size_t i = 0; i < request.tools.size() && request.tools_enabled(); ++i) {
    const std::string& name = request.tools[i].name;
    if (!MayBeCalled(request, name)) continue;
    const auto shape = output.ShapeOf(name);
    if (!shape.ok()) return std::nullopt;
    const std::string schema = ArgumentsSchema(request.conversation.tools[i], request.tools[i].strict);
    if (several && repeat == nullptr) {
      SequenceWriter calls = begin();
      calls.Text(shape->begin);
      repeat = calls.Repeat(shape->between);
      calls.Text(shape->end);
    }
    SequenceWriter call = several ? SequenceWriter(repeat->add_alternatives()) : begin();
    if (!several) call.Text(shape->begin);
    call.Call(output, *shape, schema);
    if (!several) call.Text(shape->end);
  }
  if (required) return grammar;
  if (request.json_schema.has_value()) begin().Value(*request.json_schema);
  if (request.regex.has_value()) begin().Regex(*request.regex);
  for (const std::string& text : request.choice_texts) begin().Text(text);
  return grammar;
}

std::string ParamOf(const std::string& field, const GatewayRequest& request, const v1::SamplingParams& sent) {
  if (field == "sampling.logit_bias") return "logit_bias";
  if (!sent.has_grammar()) return "";
  if (request.tool_choice.mode == ToolChoice::Mode::kRequired) return "tools";
  // GrammarOf puts the answer's alternatives last, after those for tools.
  constexpr std::string_view kAlternative = "grammar.alternatives[";
  const size_t answers = std::max<size_t>(request.choice_texts.size(), 1);
  const size_t of_tools = sent.grammar().alternatives_size() - answers;
  size_t place = of_tools;
  if (field.starts_with(kAlternative)) {
    std::from_chars(field.data() + kAlternative.size(), field.data() + field.size(), place);
  }
  return place < of_tools ? "tools" : request.format_field;
}

v1::SamplingParams PlanSampling(const Core& core, const Episode& episode, const GatewayRequest& request,
                                int32_t sequence, int choice, const PromptPlan& prompt) {
  v1::SamplingParams params;
  const v1::EpisodePurpose purpose = episode.record().purpose();
  if (purpose == v1::PURPOSE_SERVE) {
    Ask(request, choice, params);
  } else {
    const bool train = purpose == v1::PURPOSE_TRAIN;
    Pin(train ? core.options.train_sampling : core.options.eval_sampling, core.options, episode, sequence, params);
  }
  const int64_t cap = CapOf(core.options, purpose);
  const int64_t unasked = core.options.default_max_tokens > 0 ? core.options.default_max_tokens : cap;
  int64_t limit = std::min(cap, request.max_tokens > 0 ? request.max_tokens : unasked);
  const int64_t context = core.backends.Of(request.model).context_length;
  if (context > 0) limit = std::min<int64_t>(limit, context - static_cast<int64_t>(prompt.ids.size()));
  params.set_max_new_tokens(static_cast<int32_t>(limit));
  for (const std::string& stop : request.stop) params.add_stop(stop);
  for (const int32_t id : request.stop_token_ids) params.add_stop_token_ids(id);
  params.set_ignore_eos(request.ignore_eos);
  for (const int32_t id : core.parts.format->end_of_turn_ids()) {
    if (!request.ignore_eos) params.add_stop_token_ids(id);
  }
  params.set_min_new_tokens(request.min_tokens);
  if (request.min_tokens > 0) params.set_bias_acted(true);
  if (auto grammar = GrammarOf(*core.parts.format, request, ThinkingIsOpen(*core.parts.format, prompt.prefill))) {
    *params.mutable_grammar() = *std::move(grammar);
    params.set_grammar_acted(true);
  }
  return params;
}

}  // namespace ingot::gateway
