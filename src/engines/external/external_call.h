// Handles one request to a server: its stream, its answer, and the chunks that its caller receives. Thread safe. Chunks
// are delivered on the thread of http::Streams.
//
// An answer whose log-probs are not the policy's (EngineApi::NeedsScoring), such as those after a grammar's mask, is
// delivered as one chunk. Recorded are the policy's, so the call scores the answer's ids with a second request. If it has
// a grammar, the answer is first checked against it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engines/api/answer_reader.h"
#include "engines/api/engine_api.h"
#include "engines/api/event_stream.h"
#include "engines/verification/answer_grammar.h"
#include "http/streams.h"
#include "rollout/engine/chunk_gate.h"

namespace ingot::engines {

class ExternalCall : public std::enable_shared_from_this<ExternalCall> {
 public:
  // What a call needs from its engine. Its functions are called on the streams' thread, without this object's lock.
  struct Engine {
    const EngineApi& api;
    const base::Clock& clock;
    std::function<int64_t()> live_version;
    AnswerReader::VersionOf version_of;
    // Returns whether the server's weights are still being verified. Answers that end are held until Settle.
    std::function<bool()> verifying;
    std::function<void(const std::string& server_request_id)> abort;  // ends the request at the server
    // Returns DATA_LOSS if a complete answer does not follow the call's grammar.
    std::function<absl::Status(const ExternalCall& call, const AnswerEvent& whole)> check_grammar;
    // Sends a request that scores ids with the call's weights, on the call's stream (SendScores).
    std::function<absl::Status(ExternalCall& call, const v1::GenerateRequest& score)> score;
    std::function<void(int64_t tokens)> on_tokens;
    // Called once, before the caller receives the last chunk or the error.
    std::function<void(ExternalCall& call, bool foreign_label)> on_end;
  };

  // REQUIRES: `engine` outlives the call's stream.
  ExternalCall(const Engine& engine, v1::GenerateRequest request, AnswerReader reader,
               std::shared_ptr<const AnswerGrammar> grammar, std::shared_ptr<rollout::ChunkGate> gate,
               std::chrono::nanoseconds deadline);

  const v1::GenerateRequest& request() const { return request_; }
  const AnswerGrammar* grammar() const { return grammar_.get(); }  // null = answers are not checked
  std::chrono::nanoseconds deadline() const { return deadline_; }
  const std::shared_ptr<rollout::ChunkGate>& gate() const { return gate_; }

  // Returns the stream that sends the request. Applies `rules` to the answer's versions. REQUIRES: called once.
  http::Streams::Request Send(const ServerRequest& sent, const std::string& url, const std::string& key,
                              const AnswerReader::VersionRules& rules);
  // Returns the stream that scores the answer's ids. Called by Engine::score.
  http::Streams::Request SendScores(const ServerRequest& sent) { return StreamOf(sent); }
  // Makes later events fail with this error. The caller then closes the stream, which delivers the error. Returns the
  // stream's id; 0 = not sent.
  uint64_t Fail(absl::Status why) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status failed() const ABSL_LOCKS_EXCLUDED(mu_);  // Fail's error
  // Delivers the end of an answer that was held for verification. Called on the streams' thread.
  void Settle();
  // Ends a call that was not sent.
  void Reject(const absl::Status& why);

  void set_stream(uint64_t id) { stream_ = id; }
  uint64_t stream() const { return stream_; }
  // When the server last sent something, or the request was sent.
  std::chrono::nanoseconds heard_at() const { return heard_at_; }
  // Sets the label of the weights that the call is sent to; empty = not sent. Call before sending.
  void set_label(std::string label) { label_ = std::move(label); }
  const std::string& label() const { return label_; }
  // For Engine::on_end.
  const AnswerReader& answer() const { return reader_; }

 private:
  http::Streams::Request StreamOf(const ServerRequest& sent);
  bool streams() const { return request_.score_ids() == 0 && !scoring_; }  // the response is a stream of events
  // Keeps the event's part of an answer that will be scored.
  absl::Status Gather(const AnswerEvent& event);
  absl::Status Score();
  absl::Status TakeScores(const AnswerEvent& scores);
  bool OnBytes(std::string_view bytes) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status OnEvent(std::string_view data);
  absl::Status TakeEvent(const AnswerEvent& event);
  absl::Status Deliver(const AnswerEvent& event);
  void OnEnd(absl::StatusOr<http::Answer> answer);
  absl::Status EndOf(const absl::StatusOr<http::Answer>& answer);
  void Deliver(absl::StatusOr<v1::GenerateChunk> chunk, bool last);

  const Engine& engine_;
  const v1::GenerateRequest request_;
  const std::shared_ptr<const AnswerGrammar> grammar_;
  const std::shared_ptr<rollout::ChunkGate> gate_;
  const std::chrono::nanoseconds deadline_, arrived_;
  std::atomic<uint64_t> stream_{0};
  std::atomic<std::chrono::nanoseconds> heard_at_;
  std::string label_;

  // Used only by the streams' thread.
  AnswerReader reader_;
  AnswerReader::VersionRules rules_;
  std::string url_, key_;
  std::optional<AnswerEvent> whole_;  // the answer so far, if it will be scored
  bool scoring_ = false;              // the second request has been sent
  v1::GenerateRequest score_;         // it
  EventStream events_;
  v1::CallTimes times_;
  int status_ = 0;                   // HTTP status; 0 = no head yet
  std::string body_;                 // body of a response that is not a stream
  bool abort_sent_ = false;          // true = a rule ended the answer
  bool done_ = false;                // true = the last chunk or the error was delivered
  std::optional<AnswerEvent> kept_;  // the last event, while the weights are being verified

  mutable base::Mutex mu_;
  absl::Status fail_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::engines
