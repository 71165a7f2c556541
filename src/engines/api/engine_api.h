// Defines the protocol of one kind of rollout server: request bodies, events, errors, and the calls that change its
// weights. Has no threads, connections, or state. Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "http/client.h"
#include "proto/rollout.pb.h"

namespace ingot::engines {

// What happens to a running request when new weights arrive (rollout.external.swap).
enum class SwapMode : uint8_t {
  kKeep,       // the request keeps its KV cache; later tokens count as kv_mixed
  kRecompute,  // its KV cache is recomputed with the new weights
  kDrain,      // the update waits until the request has ended
  kAbort,      // the request is aborted, and its caller retries it
};

// A request to the server, relative to its URL.
struct ServerRequest {
  std::string method = "POST";
  std::string path = {};
  std::string body = {};  // JSON; empty = none
};

// The server's model, as far as Ingot knows it.
struct ServedModel {
  int32_t vocab_size = 0;
  int32_t context_length = 0;    // tokens of prompt and answer together
  std::vector<int32_t> eos_ids;  // ids that end a turn
};

// Tokens [begin, end) of an answer, and the server's label for the weights that sampled them.
struct LabelSpan {
  std::string label;
  int64_t begin = 0, end = 0;
};

enum class ServerFinish : uint8_t { kNone, kStop, kLength, kAborted, kFailed };

// A part of an answer, as the server sent it. Not checked against the model.
struct AnswerEvent {
  std::string request_id;  // the server's id for the request
  std::vector<int32_t> ids;
  std::vector<float> logprobs;                // one per id
  std::vector<v1::TopLogprobs> top_logprobs;  // one per id if requested
  int64_t total = 0;                          // ids of the answer so far, with these; 0 = not reported
  ServerFinish finish = ServerFinish::kNone;
  std::vector<LabelSpan> spans;  // spans for the whole answer; sent with the finish reason
};

// How the server's log-probs relate to the temperature. Determined at startup. Whether penalties, grammars, and
// truncation change them depends on the server (EngineApi::Generate, NeedsScoring).
enum class LogprobKind : uint8_t {
  kRaw,        // for temperature 1, regardless of the request's
  kProcessed,  // for the request's temperature
};

struct GenerateContext {
  const ServedModel& model;
  std::string salt = {};  // separates the versions' prefix caches; empty = the server's shared cache
  LogprobKind logprobs = LogprobKind::kRaw;
  bool seeds = false;        // true = the server receives the request's seed
  std::string adapter = {};  // the name of the adapter that samples; empty = the base model
};

// The server's flags that messages name.
struct ServerFlags {
  std::string context;             // sets the context length
  std::string raw_logprobs;        // makes log-probs LogprobKind::kRaw
  std::string processed_logprobs;  // makes them LogprobKind::kProcessed
};

class EngineApi {
 public:
  virtual ~EngineApi() = default;

  // Returns the server's name for messages.
  virtual std::string name() const = 0;
  virtual ServerFlags flags() const = 0;
  // What is known about real servers; empty = the dialect has been run with one (docs/guide/engines.md).
  virtual std::string caveat() const = 0;
  // Returns the flags with which a server accepts adapters of this rank, and holds this many.
  virtual std::vector<std::string> AdapterFlags(int64_t rank, int64_t held) const = 0;
  // Returns the flags with which a server loads the tokenizer in a folder; empty = no tokenizer. Grammars need one.
  virtual std::vector<std::string> TokenizerFlags(const std::string& tokenizer_dir) const = 0;

  // Returns the request that samples or scores. Returns INVALID_ARGUMENT, with a base::Fault that names the parameter,
  // if the server does not support a field or would report log-probs other than log_softmax(raw logits / temperature).
  virtual absl::StatusOr<ServerRequest> Generate(const v1::GenerateRequest& request,
                                                 const GenerateContext& context) const = 0;
  // Returns whether the log-probs of such an answer are not those of the policy, so that a second request must score
  // it.
  virtual bool NeedsScoring(const v1::SamplingParams& sampling) const = 0;
  // Reads the data of one server-sent event. Returns nullopt if it has no part of an answer. Returns DATA_LOSS if it is
  // not an event, and StatusOf's error if it reports one.
  virtual absl::StatusOr<std::optional<AnswerEvent>> ReadEvent(std::string_view data) const = 0;
  // Reads the response to a request with score_ids. The result's ids are the scored ids.
  virtual absl::StatusOr<AnswerEvent> ReadScores(const v1::GenerateRequest& request, std::string_view body) const = 0;
  // Aborts a request. Its stream still receives a final event with spans and the finish reason kAborted.
  virtual ServerRequest Abort(const std::string& server_request_id) const = 0;

  // Returns INVALID_ARGUMENT if the server cannot swap weights this way.
  virtual absl::Status CheckSwap(SwapMode mode) const = 0;
  // The calls of a swap, in this order. A pause is several calls. REQUIRES: CheckSwap(mode).
  virtual std::vector<ServerRequest> Pause(SwapMode mode) const = 0;
  virtual ServerRequest Load(const std::string& model_dir) const = 0;
  virtual ServerRequest SetLabel(const std::string& label) const = 0;
  virtual ServerRequest Resume() const = 0;

  // Loads an adapter (a PEFT folder) under a name that the server does not have. Requests name it. They continue
  // meanwhile.
  virtual ServerRequest LoadAdapter(const std::string& name, const std::string& adapter_dir) const = 0;
  virtual ServerRequest UnloadAdapter(const std::string& name) const = 0;

  virtual ServerRequest Health() const = 0;
  virtual ServerRequest GetLabel() const = 0;
  virtual absl::StatusOr<std::string> ReadLabel(std::string_view body) const = 0;
  virtual ServerRequest Info() const = 0;
  // Returns the server's context length; 0 = not reported. Returns FAILED_PRECONDITION, naming the flag, if the server
  // was started with settings under which answers or swaps of this kind would be wrong.
  virtual absl::StatusOr<int64_t> ReadContextLength(std::string_view body, SwapMode swap) const = 0;

  // Returns OK for success, or an error with the server's message for any other status.
  //   INVALID_ARGUMENT     the server rejects the request
  //   FAILED_PRECONDITION  the server lacks a route that Ingot needs; the error names the flag
  //   RESOURCE_EXHAUSTED   the server is full
  //   UNAVAILABLE          the server failed
  virtual absl::Status StatusOf(int http_status, std::string_view body) const = 0;
};

// vLLM's /inference/v1/generate and its development routes, as of 0.32.
std::unique_ptr<EngineApi> NewVllmApi();
// SGLang's native API, as of 0.5.23.
std::unique_ptr<EngineApi> NewSglangApi();

}  // namespace ingot::engines
