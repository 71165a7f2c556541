#include "app/run/record_options.h"

#include "base/config.h"

namespace ingot::app {

void Bind(base::Schema& schema, LoggerOptions& o) {
  schema.Field("mlflow.url", &o.mlflow_url, "MLflow server that gets the record, http://HOST:PORT; empty: none");
  schema.Field("mlflow.experiment", &o.mlflow_experiment, "experiment of the run; made if it is missing");
  schema.Field("mlflow.key_file", &o.mlflow_key_file, "file with the server's bearer key; empty: none");
  schema.Field("trackio.url", &o.trackio_url, "Trackio server that gets the record; empty: none");
  schema.Field("trackio.project", &o.trackio_project, "project of the run");
  schema.Field("trackio.key_file", &o.trackio_key_file,
               "file with the server's write token, or a Space's Hugging Face token (hf_...); empty: none");
  schema.Field("otlp.url", &o.otlp_url,
               "OpenTelemetry collector that gets a span for each step, episode, call and grading, over OTLP/HTTP in "
               "JSON; empty: none");
  schema.Field("otlp.key_file", &o.otlp_key_file, "file with the collector's bearer key; empty: none");
}

void Bind(base::Schema& schema, PageOptions& o) {
  schema.Field("dashboard", &o.enabled,
               "serve a page about the run, on its own listener and protected by a key; the link is printed");
  schema.Field("dashboard_host", &o.host, "address of the page; TLS as for http.host");
  schema.Field("dashboard_port", &o.port, "port of the page; 0: a free one", base::Port());
}

void Bind(base::Schema& schema, MetricsConfig& o) {
  schema.Field("host", &o.host, "address of metrics.port");
  schema.Field("port", &o.port,
               "TCP port of /metrics, for clients with the key in gateway.admin_key_file; `ingot launch`: the first "
               "role's, the others follow; 0: only the socket files RUN/sockets/metrics-ROLE.sock, for this user only",
               base::Port());
  schema.Field("max_labels", &o.max_labels, "most values of a metric's label; more are counted as other",
               base::Positive());
}

}  // namespace ingot::app
