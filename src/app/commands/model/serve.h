// `ingot serve`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::app {

struct ServeArgs {
  std::string model_dir;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string tls_certificate, tls_key;  // PEM files; empty = plain text, on loopback only unless allow_plaintext
  bool allow_plaintext = false;
  std::vector<std::string> allow_hosts, allow_origins;  // http::Options'
  std::string model_name;                               // empty = the folder's name
  std::vector<std::string> also;      // NAME=DIR: more models, each with its own engine; the same tokenizer
  std::vector<std::string> adapters;  // NAME=DIR: PEFT adapters of the model, all in its engine
  bool any_model_name = false;        // the model answers requests that name an unknown one; false: 404
  // Jinja file instead of the folder's templates; empty = the folder's own.
  std::string chat_template;
  // NAME=VALUE: variables of the chat template for all requests; VALUE is read by base::WordValue.
  std::vector<std::string> template_variables;
  // Port of the engine's gRPC service (proto/rollout.proto: token ids in and out), for the gateways of runs; 0 = a free
  // one, -1 = no such service.
  int rollout_port = -1;
  std::string token_file;           // file with the token that this service asks for
  std::string chat_format;          // empty = auto (text_parts.h)
  int max_tokens = 0;               // of an answer; 0 = as many as fit into the context
  int64_t kv_cache_tokens = 65536;  // also bounds the context
  std::string script;               // file with the calls' answers (gateway/script.h); empty = the model samples them
  std::string metrics_socket;       // file of a socket that serves /metrics to this user; empty = none
  std::string record;               // folder that stores every call (served_record.h); empty = calls are not stored
  int threads = 0;                  // 0 = all cores
  std::string device = "auto";
};
int Serve(const ServeArgs& args);

}  // namespace ingot::app
