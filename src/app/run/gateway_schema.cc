#include "app/run/role_schemas.h"

namespace ingot::app {
namespace {

void BindServedModel(base::Schema& schema, gateway::ModelOptions& o) {
  schema.Field("name", &o.name, "name in the requests of clients");
  schema.Choice(
      "weights", &o.weights, {"follow", "pinned", "external"},
      "follow: the trained weights; pinned: one version, which the engines retain; external: another server's");
  schema.Field("version", &o.version, "pinned: the version");
  schema.Field("address", &o.address, "external: host:port of a rollout role with this run's tokenizer; or else a url");
  schema.Field(
      "url", &o.url,
      "external: base URL of a server of OpenAI's chat completions; its answers are text, which is encoded here");
  schema.Field("served_model", &o.served_model, "url: the model's name there; empty: name");
  schema.Field("key_file", &o.key_file, "url: file with its bearer key");
  schema.Field("stream", &o.stream, "url: ask for a stream of server-sent events");
  schema.Field("timeout_s", &o.timeout_s, "url: seconds of one request");
  schema.Field("concurrency", &o.concurrency, "url: requests at a time");
  schema.Field(
      "token_file", &o.token_file,
      "external: file with the token that the role requires: its run's cluster.token_file, or `ingot serve`'s");
  schema.Field("ca", &o.ca, "external: PEM file; the role speaks TLS, and its certificate is verified against this");
}

}  // namespace

void BindGateway(base::Schema& schema, gateway::GatewayOptions& o, http::Options& http, PageOptions& page) {
  schema.Field("gateway.model_name", &o.model_name, "first model of /v1/models; follows training");
  schema.List<gateway::ModelOptions>(
      "gateway.models", &o.models, BindServedModel,
      "more models by name; calls to models that do not follow training are not trained on");
  for (auto* pin : {&o.train_sampling, &o.eval_sampling}) {
    const std::string prefix = pin == &o.train_sampling ? "gateway.train_sampling." : "gateway.eval_sampling.";
    schema.Field(prefix + "temperature", &pin->temperature, "replaces the client's value; training: > 0");
    schema.Field(prefix + "top_p", &pin->top_p, "in (0, 1]; 1: off");
    schema.Field(prefix + "top_k", &pin->top_k, "0: off");
    schema.Field(prefix + "min_p", &pin->min_p, "in [0, 1); 0: off");
  }
  schema.Field("gateway.max_new_tokens", &o.max_new_tokens, "greatest number of tokens sampled per call");
  schema.Field("gateway.default_max_tokens", &o.default_max_tokens,
               "tokens for a call whose client names no limit; 0: gateway.max_new_tokens");
  schema.Field("gateway.max_active_calls", &o.max_active_calls, "calls in flight; beyond: 429");
  schema.Field("gateway.max_open_episodes", &o.max_open_episodes, "episodes and served sessions held; beyond: 429");
  schema.Field("gateway.max_calls_per_episode", &o.max_calls_per_episode, "beyond: 400, which no client tries again");
  schema.Field("gateway.max_tokens_per_episode", &o.max_tokens_per_episode,
               "tokens of an episode's calls, prompts counted whole; beyond: the same; 0: no limit");
  schema.Field("gateway.max_tokens_per_session", &o.max_tokens_per_session,
               "tokens in the history of a served session, shared ones once; then it begins a new one");
  schema.Field("gateway.episode_deadline_s", &o.episode_deadline_s,
               "seconds from an episode's opening until it fails; 0: none");
  schema.Field("gateway.max_remembered_ends", &o.max_remembered_ends, "ended episodes whose late calls get 410");
  schema.Field("gateway.call_deadline_s", &o.call_deadline_s, "seconds from arrival to the last token; 0: none");
  schema.Field("gateway.episode_idle_s", &o.episode_idle_s, "seconds without a call until an episode fails; 0: never");
  schema.Field("gateway.session_idle_s", &o.session_idle_s, "the same for served sessions; 0: never");
  schema.Field("gateway.end_wait_s", &o.end_wait_s, "seconds that ending an episode waits for its aborted calls");
  schema.Field("gateway.retry_after_s", &o.retry_after_s, "seconds that a 429 or 503 response asks the client to wait");
  schema.Choice("gateway.history_thinking", &o.history_thinking, {"template", "keep"},
                "reasoning of earlier turns that the chat template leaves out: left out of the context, or kept in it");
  schema.Field("gateway.template_variables", &o.template_variables,
               "variables of the chat template for all requests, data.sft and data.dpo, such as {enable_thinking: "
               "false}; a client's or a line's own win");
  schema.Field("gateway.auto_episodes", &o.auto_episodes,
               "an unknown API key opens a session, recorded and not trained on, instead of 401");
  schema.Field(
      "gateway.admin_key_file", &o.admin_key_file,
      "file with the key that opens episodes, and rewards and ends any; empty: only this run's agents.recipes open "
      "them, or any client if there are none");
  schema.Field("gateway.worker_threads", &o.worker_threads, "threads for parsing, rendering and admission");
  schema.Field("gateway.writer_threads", &o.writer_threads,
               "calls that are recorded at a time, sharing the pool's fsyncs");
  schema.Field("gateway.max_queued_work", &o.max_queued_work, "requests waiting for a worker; beyond: 503");
  schema.Field("gateway.public_url", &o.public_url,
               "address given to agents; empty: the one listened on, by cluster.host where http.host is 0.0.0.0");
  schema.Field("http.host", &http.host, "address to listen on");
  schema.Field("http.port", &http.port, "0: a free one");
  schema.Field("http.io_threads", &http.io_threads, "threads for sockets");
  schema.Field("http.max_connections", &http.max_connections,
               "beyond, a new one replaces an idle one of the client with the most, or gets 503; each takes an open "
               "file; 0: 10240, or as many as the hard limit of open files leaves");
  schema.Field("http.max_body_bytes", &http.max_body_bytes, "beyond: 413");
  schema.Field("http.max_buffered_bytes", &http.max_buffered_bytes, "bodies of all requests in flight; beyond: 503");
  schema.Field("http.allow_hosts", &http.allow_hosts,
               "host names accepted at a loopback address besides localhost, addresses and "
               "gateway.public_url, such as a proxy's; \"*\": every one");
  schema.Field("http.allow_origins", &http.allow_origins,
               "origins whose web pages may ask gateway and page, such as http://localhost:3000; \"*\": every one");
  schema.Field("http.dashboard", &page.enabled,
               "serve a page about the run, on its own listener and protected by a key; the link is printed");
  schema.Field("http.dashboard_host", &page.host, "address of the page; TLS as for http.host");
  schema.Field("http.dashboard_port", &page.port, "port of the page; 0: a free one");
  schema.Field("gateway.tls.certificate", &http.tls_certificate,
               "PEM file, with the certificates that signed it; empty: no TLS");
  schema.Field("gateway.tls.key", &http.tls_key, "PEM file of the certificate's private key");
  schema.Field("gateway.tls.allow_plaintext", &http.allow_plaintext,
               "allows an http.host that other machines reach without TLS: for private networks");
  schema.Field("http.max_header_bytes", &http.max_header_bytes, "beyond: 431");
  schema.Field("http.idle_timeout_s", &http.idle_timeout_s, "seconds of silence between requests");
  schema.Field("http.head_timeout_s", &http.head_timeout_s,
               "seconds from a request's first byte, or a new connection, to the end of its head");
  schema.Field("http.request_timeout_s", &http.request_timeout_s,
               "seconds from a request's head to its last byte, and at most of the head");
  schema.Field("http.write_timeout_s", &http.write_timeout_s, "seconds one write may wait for a slow reader");
  schema.Field("http.keepalive_s", &http.keepalive_s,
               "seconds of silence in a stream after which a comment is sent; 0: none");
  schema.Field("http.shutdown_grace_s", &http.shutdown_grace_s, "seconds that stopping leaves requests in flight");
}

}  // namespace ingot::app
