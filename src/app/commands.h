// What the command line does. Every command returns a process exit code: 0 done, 1 the run or request failed, 2 the
// command line or the configuration is wrong. Errors are printed to stderr, one clear line each.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct RunArgs {
  std::string config;                  // run.yaml
  std::vector<std::string> overrides;  // KEY=VALUE
  bool resume = false;
};

int Train(const RunArgs& args);
// One role of a run as this process: gateway, rollout, datapool, scheduler, trainer or agents. `index`: which engine,
// or which rank of the trainer. `supervised`: as a child of `ingot launch`, who tells it when to end.
int RunRole(const std::string& role, const RunArgs& args, int index, bool supervised);
int Launch(const RunArgs& args);
int ShowStatus(const RunArgs& args);
int Evaluate(const std::string& checkpoint, const RunArgs& args);

struct ServeArgs {
  std::string model_dir;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string tls_certificate, tls_key;  // PEM files; empty: plain text, on loopback only unless allow_plaintext
  bool allow_plaintext = false;
  std::string model_name;         // empty: the folder's name
  std::vector<std::string> also;  // NAME=DIR: further models, each with an engine of its own; the same tokenizer
  int rollout_port = -1;    // token ids in and out over gRPC (proto/rollout.proto), for the gateways of runs; 0: a free
                            // one, -1: not offered
  std::string chat_format;  // empty: what the folder says
  int max_tokens = 0;       // of an answer; 0: as many as the context has room for
  int64_t kv_cache_tokens = 65536;  // also bounds the context
  std::string script;               // file of what calls sample instead of drawing (gateway/script.h); empty: they draw
  std::string record;               // folder that keeps every call (served_record.h); empty: none is kept
  int threads = 0;                  // 0: all cores
  std::string device = "auto";
};
int Serve(const ServeArgs& args);

struct InspectArgs {
  std::string run_dir;
  std::string episode;  // id or group/sample; empty: a list
  int limit = 20;
  bool json = false;
  bool journal = false;  // the run's journal, one JSON record per line
};
int Inspect(const InspectArgs& args);

int ConfigCheck(const RunArgs& args);
int ConfigExplain(const std::string& key);

}  // namespace ingot::app
