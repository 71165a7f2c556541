// `ingot serve`: serves a model with only a gateway and an engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::app {

struct ServeArgs {
  std::string model_dir;
  std::string host = "127.0.0.1";
  int port = 8000;
  // PEM files; empty = plaintext, which requires a loopback address unless allow_plaintext is set
  std::string tls_certificate, tls_key;
  bool allow_plaintext = false;
  std::vector<std::string> allow_hosts, allow_origins;  // see http::Options
  std::string model_name;                               // empty = the folder's name
  std::vector<std::string> also;      // NAME=DIR: more models with the same tokenizer, each with its own engine
  std::vector<std::string> adapters;  // NAME=DIR: PEFT adapters of the model, all in its engine
  bool any_model_name = false;        // true = requests for unknown models go to this model; false = 404
  // Jinja file instead of the folder's templates; empty = the folder's own.
  std::string chat_template;
  // NAME=VALUE: chat template variables for all requests; VALUE is parsed by base::WordValue
  std::vector<std::string> template_variables;
  // Port for the engine's gRPC service, which runs' gateways call (proto/rollout.proto, token ids in and out). 0 = any
  // free port, -1 = disabled.
  int rollout_port = -1;
  std::string token_file;           // file with the token that this gRPC service requires
  std::string chat_format;          // empty = auto (text_parts.h)
  int max_tokens = 0;               // maximum tokens in a response; 0 = limited only by the context
  int64_t kv_cache_tokens = 65536;  // also limits the context
  std::string script;               // file with scripted responses (gateway/script.h); empty = the model generates them
  std::string metrics_socket;       // Unix socket that serves /metrics to this user; empty = none
  std::string record;               // folder that stores every call (served_record.h); empty = calls are not stored
  int threads = 0;                  // 0 = all cores
  std::string device = "auto";
};
int Serve(const ServeArgs& args);

}  // namespace ingot::app
