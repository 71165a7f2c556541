#include "app/run/record_options.h"

#include "base/config.h"

namespace ingot::app {

void Bind(base::Schema& schema, LoggerOptions& o) {
  schema.Field("mlflow.url", &o.mlflow_url, "MLflow server to send the run's record to, http://HOST:PORT; empty: none");
  schema.Field("mlflow.experiment", &o.mlflow_experiment, "the run's experiment; created if it does not exist");
  schema.Field("mlflow.key_file", &o.mlflow_key_file, "file with the server's bearer key; empty: none");
  schema.Field("trackio.url", &o.trackio_url, "Trackio server to send the run's record to; empty: none");
  schema.Field("trackio.project", &o.trackio_project, "the run's project");
  schema.Field("trackio.key_file", &o.trackio_key_file,
               "file with the server's write token, or a Space's Hugging Face token (hf_...); empty: none");
  schema.Field("otlp.url", &o.otlp_url,
               "OpenTelemetry collector to send a span to for each step, episode, call, and grading (OTLP/HTTP, JSON); "
               "empty: none");
  schema.Field("otlp.key_file", &o.otlp_key_file, "file with the collector's bearer key; empty: none");
  schema.Field("wandb.project", &o.wandb_project,
               "W&B project that gets the record, through the package wandb of the interpreter in python; empty: none");
  schema.Field("wandb.entity", &o.wandb_entity, "user or team of the project; empty: the account's default");
  schema.Choice("wandb.mode", &o.wandb_mode, {"auto", "online", "offline"},
                "offline: only files in RUN/wandb, which `wandb sync` sends; auto: the variable WANDB_MODE, or online");
  schema.Field("wandb.key_file", &o.wandb_key_file,
               "file with the W&B API key; empty: the variable WANDB_API_KEY, or the login of `wandb login`");
}

void Bind(base::Schema& schema, PageOptions& o) {
  schema.Field("dashboard", &o.enabled,
               "serve a page about the run on its own port, protected by a key; the run prints its link");
  schema.Field("dashboard_host", &o.host, "address where the page listens; needs TLS in the same cases as http.host");
  schema.Field("dashboard_port", &o.port, "port of the page; 0: any free port", base::Port());
}

void Bind(base::Schema& schema, MetricsConfig& o) {
  schema.Field("host", &o.host, "address where metrics.port listens");
  schema.Field("port", &o.port,
               "TCP port of /metrics, for clients with the key in gateway.admin_key_file; with `ingot launch`, the "
               "first role's port, and the other roles use the ports after it; 0: only the socket files "
               "RUN/sockets/metrics-ROLE.sock, for this user",
               base::Port());
  schema.Field("max_labels", &o.max_labels,
               "maximum number of values of a metric label; further values are counted as \"other\"", base::Positive());
}

}  // namespace ingot::app
