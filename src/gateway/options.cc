#include "gateway/options.h"

#include <algorithm>
#include <set>

#include "base/config.h"
#include "base/secret.h"
#include "text/chat/template_variables.h"

namespace ingot::gateway {
namespace {

absl::Status ValidateModels(const GatewayOptions& options) {
  std::set<std::string> names = {options.model_name};
  for (size_t i = 0; i < options.models.size(); ++i) {
    const ModelOptions& model = options.models[i];
    const auto fault = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat("models[", i, "] ('", model.name, "'): ", what));
    };
    if (model.name.empty()) return fault("the name is empty");
    if (!names.insert(model.name).second) return fault("another model has this name");
    const bool external = model.weights == ModelWeights::kExternal;
    if (external != (model.address.empty() == !model.url.empty()) || (!external && !model.url.empty())) {
      return fault(
          "address or url: external weights need exactly one of them, and other weights must have neither; an address "
          "is HOST:PORT, such as 10.0.0.7:7410");
    }
    const bool text_fields = !model.served_model.empty() || !model.key_file.empty() || model.stream;
    if (model.url.empty() && text_fields) return fault("served_model, key_file, and stream need a url");
    if (!model.url.empty() && !model.url.starts_with("http://") && !model.url.starts_with("https://")) {
      return fault(absl::StrCat("url is '", model.url, "': it begins with http:// or https://"));
    }
    if (model.address.empty() && (!model.token_file.empty() || !model.ca.empty())) {
      return fault("token_file and ca need external weights with an address");
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Bind(base::Schema& schema, ModelOptions& o) {
  schema.Field("name", &o.name, "model name in clients' requests");
  schema.Choice(
      "weights", &o.weights, {"follow", "pinned", "external"},
      "follow: the trained weights; pinned: one version, which the engines retain; external: another server's weights");
  schema.Field("version", &o.version, "pinned: the version", base::NotNegative());
  schema.Field("address", &o.address,
               "external: HOST:PORT of a rollout role that has this run's tokenizer; or set url");
  schema.Field("url", &o.url,
               "external: base URL of a server for OpenAI's chat completions; its answers are text, which this run's "
               "tokenizer encodes");
  schema.Field("served_model", &o.served_model, "url: the model's name there; empty: name");
  schema.Field("key_file", &o.key_file, "url: file with the server's bearer key");
  schema.Field("stream", &o.stream, "url: request streams of server-sent events");
  schema.Field("timeout_s", &o.timeout_s, "url: timeout of one request, in seconds", base::LeftOpen(0, 86400));
  schema.Field("concurrency", &o.concurrency, "url: maximum number of concurrent requests", base::InRange(1, 1024));
  schema.Field("token_file", &o.token_file,
               "external: file with the token that the other role requires: its run's cluster.token_file, or the file "
               "given to `ingot serve`");
  schema.Field("ca", &o.ca, "external: PEM file with the certificate authority of the other role, which must use TLS");
}

void Bind(base::Schema& schema, SamplingPin& o) {
  schema.Field("temperature", &o.temperature, "replaces the client's value; must be above 0 for training",
               base::NotNegative());
  schema.Field("top_p", &o.top_p, "1: off", base::Fraction());
  schema.Field("top_k", &o.top_k, "0: off", base::NotNegative());
  schema.Field("min_p", &o.min_p, "0: off", base::RightOpen(0, 1));
}

void Bind(base::Schema& schema, GatewayOptions& o) {
  for (const char* removed : {"max_remembered_ends", "session_idle_s", "retry_after_s"}) schema.Renamed(removed, "");
  schema.Field("model_name", &o.model_name, "name of the trained model, which is the first in /v1/models");
  schema.List("models", &o.models, "other models by name; only calls to models that follow training are trained on");
  schema.Field(
      "any_model_name", &o.any_model_name,
      "true: gateway.model_name also answers requests for unknown models; false: they get a 404 with the known names");
  schema.Section("train_sampling", o.train_sampling);
  schema.Section("eval_sampling", o.eval_sampling);
  schema.Field("max_new_tokens", &o.max_new_tokens, "maximum number of sampled tokens per call", base::Positive());
  schema.Field("default_max_tokens", &o.default_max_tokens,
               "token limit for calls whose client sets none; 0: gateway.max_new_tokens", base::NotNegative());
  schema.Field("max_active_calls", &o.max_active_calls, "maximum number of calls in progress; further calls get a 429",
               base::Positive());
  schema.Field("max_open_episodes", &o.max_open_episodes,
               "maximum number of open episodes and served sessions; further ones get a 429", base::Positive());
  schema.Field("max_calls_per_episode", &o.max_calls_per_episode,
               "maximum number of calls per episode; further calls get a 400, which clients do not retry",
               base::Positive());
  schema.Field(
      "max_tokens_per_episode", &o.max_tokens_per_episode,
      "maximum number of tokens in an episode's calls, including whole prompts; further calls get a 400; 0: no limit",
      base::NotNegative());
  schema.Field("max_tokens_per_session", &o.max_tokens_per_session,
               "maximum number of tokens in a served session's history, counting shared ones once; after that a new "
               "session starts",
               base::Positive());
  schema.Field("episode_deadline_s", &o.episode_deadline_s, "seconds after which an open episode fails; 0: never",
               base::NotNegative());
  schema.Field("call_deadline_s", &o.call_deadline_s, "seconds from a call's arrival to its last token; 0: no deadline",
               base::NotNegative());
  schema.Field("episode_idle_s", &o.episode_idle_s, "seconds without a call after which an episode fails; 0: never",
               base::NotNegative());
  schema.Field("episode_first_call_s", &o.episode_first_call_s,
               "seconds that an episode opened over HTTP may wait for its first call before it ends; 0: no limit; no "
               "effect on agents.recipes",
               base::NotNegative());
  schema.Field("end_wait_s", &o.end_wait_s, "seconds that the end of an episode waits for its aborted calls",
               base::Positive());
  schema.Field(
      "engine_wait_s", &o.engine_wait_s,
      "seconds that a call waits while no engine accepts it, such as while the only server restarts, before it fails "
      "with a 503; 0: it fails at once",
      base::NotNegative());
  schema.Choice("history_thinking", &o.history_thinking, {"template", "keep"},
                "what happens to earlier turns' reasoning if the chat template removes it: template: it is removed; "
                "keep: it stays in the context");
  schema.Field("template_variables", &o.template_variables,
               "chat template variables for all requests, data.sft, and data.dpo, such as {enable_thinking: false}; a "
               "request's or line's own variables take precedence");
  schema.Field("auto_episodes", &o.auto_episodes,
               "true: an unknown API key opens a session, which is recorded but not trained on; false: it gets a 401");
  schema.Field("admin_key_file", &o.admin_key_file,
               "file with the key that can open any episode, reward it, and end it; empty: only this run's "
               "agents.recipes can open episodes, or any client if there are no recipes");
  schema.Field("worker_threads", &o.worker_threads, "threads for parsing, rendering, and admission", base::Positive());
  schema.Field("writer_threads", &o.writer_threads,
               "number of calls recorded in parallel, which share the pool's fsyncs", base::Positive());
  schema.Field("max_queued_work", &o.max_queued_work,
               "maximum number of requests waiting for a worker; further requests get a 503", base::Positive());
  schema.Field(
      "public_url", &o.public_url,
      "URL given to agents; empty: the address that the gateway listens on, or cluster.host if http.host is 0.0.0.0");
}

void BindEvaluation(base::Schema& schema, GatewayOptions& o) {
  schema.Field("max_new_tokens", &o.eval_max_new_tokens,
               "maximum number of sampled tokens per evaluation call; 0: gateway.max_new_tokens", base::NotNegative());
}

bool PinsVersion(const GatewayOptions& options, int64_t version) {
  return std::any_of(options.models.begin(), options.models.end(), [version](const ModelOptions& model) {
    return model.weights == ModelWeights::kPinned && model.version == version;
  });
}

absl::StatusOr<std::string> ReadAdminKey(const GatewayOptions& options) {
  if (options.admin_key_file.empty()) return std::string();
  absl::StatusOr<std::string> key = base::ReadSecret(options.admin_key_file);
  return key.ok() ? std::move(key) : base::Annotate(key.status(), "admin_key_file");
}

absl::Status GatewayOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(*this, BindEvaluation), "evaluation"));
  if (model_name.empty()) return absl::InvalidArgumentError("model_name is empty: set it to the trained model's name");
  INGOT_RETURN_IF_ERROR(ValidateModels(*this));
  if (train_sampling.temperature == 0) {
    return absl::InvalidArgumentError(
        "train_sampling.temperature is 0: greedy sampling has no gradient; set a temperature above 0 to train");
  }
  return base::Annotate(text::CheckTemplateVariables(template_variables), "template_variables");
}

}  // namespace ingot::gateway
