#include "app/run/role_schemas.h"

namespace ingot::app {

void BindLoggers(base::Schema& schema, LoggerOptions& o) {
  schema.Field("loggers.mlflow.url", &o.mlflow_url,
               "MLflow server that gets the record, http://HOST:PORT; empty: none");
  schema.Field("loggers.mlflow.experiment", &o.mlflow_experiment, "experiment of the run; made if it is missing");
  schema.Field("loggers.mlflow.key_file", &o.mlflow_key_file, "file with the server's bearer key; empty: none");
  schema.Field("loggers.trackio.url", &o.trackio_url, "Trackio server that gets the record; empty: none");
  schema.Field("loggers.trackio.project", &o.trackio_project, "project of the run");
  schema.Field("loggers.trackio.key_file", &o.trackio_key_file,
               "file with the server's write token, or a Space's Hugging Face token (hf_...); empty: none");
  schema.Field("loggers.otlp.url", &o.otlp_url,
               "OpenTelemetry collector that gets a span for each step, episode, call and grading, over OTLP/HTTP in "
               "JSON; empty: none");
  schema.Field("loggers.otlp.key_file", &o.otlp_key_file, "file with the collector's bearer key; empty: none");
}

}  // namespace ingot::app
