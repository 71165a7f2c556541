#include "engines/external/external_call.h"

#include <algorithm>
#include <utility>

#include "base/secret.h"

namespace ingot::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr size_t kMostBody = 16 << 20;  // maximum size of a response that is not a stream

}  // namespace

ExternalCall::ExternalCall(const Engine& engine, v1::GenerateRequest request, AnswerReader reader,
                           std::shared_ptr<const AnswerGrammar> grammar, std::shared_ptr<rollout::ChunkGate> gate,
                           nanoseconds deadline)
    : engine_(engine),
      request_(std::move(request)),
      grammar_(std::move(grammar)),
      gate_(std::move(gate)),
      deadline_(deadline),
      arrived_(engine.clock.Now()),
      heard_at_(arrived_),
      reader_(std::move(reader)) {
  times_.set_arrival_unix_ns(engine_.clock.UnixNanos());
  times_.set_queued_unix_ns(times_.arrival_unix_ns());
}

http::Streams::Request ExternalCall::Send(const ServerRequest& sent, const std::string& url, const std::string& key,
                                          const AnswerReader::VersionRules& rules) {
  rules_ = rules;
  url_ = url;
  key_ = key;
  if (request_.score_ids() == 0 && engine_.api.NeedsScoring(request_.sampling())) whole_.emplace();
  return StreamOf(sent);
}

http::Streams::Request ExternalCall::StreamOf(const ServerRequest& sent) {
  heard_at_ = engine_.clock.Now();
  http::Streams::Request stream;
  stream.head = {.url = url_ + sent.path, .method = sent.method, .key = key_};
  stream.head.headers["Content-Type"] = "application/json";
  if (!request_.lineage().empty()) stream.head.headers["X-Session-Id"] = request_.lineage();  // for a load balancer
  if (deadline_ != nanoseconds::max()) {
    stream.head.timeout =
        std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline_ - engine_.clock.Now()));
  }
  stream.head.on_head = [self = shared_from_this()](const http::Answer& head) { self->status_ = head.status; };
  stream.head.on_bytes = [self = shared_from_this()](std::string_view bytes) { return self->OnBytes(bytes); };
  stream.on_end = [self = shared_from_this()](absl::StatusOr<http::Answer> answer) { self->OnEnd(std::move(answer)); };
  stream.body = sent.body;
  return stream;
}

uint64_t ExternalCall::Fail(absl::Status why) {
  base::MutexLock lock(mu_);
  if (fail_.ok()) fail_ = std::move(why);
  return stream_;
}

absl::Status ExternalCall::failed() const {
  base::MutexLock lock(mu_);
  return fail_;
}

void ExternalCall::Reject(const absl::Status& why) {
  engine_.on_end(*this, false);
  gate_->Deliver(why);
}

bool ExternalCall::OnBytes(std::string_view bytes) {
  heard_at_ = engine_.clock.Now();
  if (done_ || gate_->closed() || !failed().ok()) return false;
  if (kept_.has_value()) return true;  // only the end of the stream follows
  if (status_ != 200 || !streams()) {
    if (body_.size() + bytes.size() > kMostBody) return false;
    body_ += bytes;
    return true;
  }
  const absl::Status taken = events_.Push(bytes, [this](std::string_view data) { return OnEvent(data); });
  if (!taken.ok()) Deliver(taken, /*last=*/true);
  return taken.ok();
}

absl::Status ExternalCall::OnEvent(std::string_view data) {
  if (done_) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const std::optional<AnswerEvent> event, engine_.api.ReadEvent(data));
  if (!event.has_value()) return absl::OkStatus();
  return whole_.has_value() ? Gather(*event) : TakeEvent(*event);
}

absl::Status ExternalCall::Gather(const AnswerEvent& event) {
  if (event.logprobs.size() != event.ids.size()) return absl::DataLossError("the server sent ids without log-probs");
  whole_->ids.insert(whole_->ids.end(), event.ids.begin(), event.ids.end());
  whole_->logprobs.insert(whole_->logprobs.end(), event.logprobs.begin(), event.logprobs.end());
  whole_->top_logprobs.insert(whole_->top_logprobs.end(), event.top_logprobs.begin(), event.top_logprobs.end());
  whole_->request_id = event.request_id;
  whole_->finish = event.finish;
  whole_->total = std::max(whole_->total, event.total);
  if (event.finish != ServerFinish::kNone) whole_->spans = event.spans;
  return absl::OkStatus();
}

absl::Status ExternalCall::Score() {
  const bool natural = whole_->finish == ServerFinish::kStop || whole_->finish == ServerFinish::kLength;
  if (!natural || whole_->ids.empty()) return TakeEvent(*whole_);  // which rejects it
  if (grammar_ != nullptr) INGOT_RETURN_IF_ERROR(engine_.check_grammar(*this, *whole_));
  v1::GenerateRequest score;
  score.set_request_id(request_.request_id());
  *score.mutable_prompt_ids() = request_.prompt_ids();
  score.mutable_prompt_ids()->Add(whole_->ids.begin(), whole_->ids.end());
  score.set_score_ids(static_cast<int32_t>(whole_->ids.size()));
  score.mutable_sampling()->set_temperature(1);
  score_ = std::move(score);
  scoring_ = true;
  status_ = 0;
  return engine_.score(*this, score_);
}

absl::Status ExternalCall::TakeScores(const AnswerEvent& scores) {
  const auto moved = [&](const LabelSpan& span) { return span.label != scores.spans[0].label; };
  if (scores.spans.size() != 1 || std::any_of(whole_->spans.begin(), whole_->spans.end(), moved)) {
    return absl::UnavailableError("the server's weights changed before its answer was scored: retry the request");
  }
  if (scores.ids.size() != whole_->ids.size()) return absl::DataLossError("the server did not score all ids");
  whole_->logprobs = scores.logprobs;
  return TakeEvent(*whole_);
}

absl::Status ExternalCall::TakeEvent(const AnswerEvent& event) {
  if (event.finish == ServerFinish::kNone || !engine_.verifying()) return Deliver(event);
  kept_ = event;
  return absl::OkStatus();
}

void ExternalCall::Settle() {
  if (done_ || !kept_.has_value() || (engine_.verifying() && failed().ok())) return;
  const AnswerEvent last = *std::exchange(kept_, std::nullopt);
  if (const absl::Status taken = Deliver(last); !taken.ok()) Deliver(taken, /*last=*/true);
}

absl::Status ExternalCall::Deliver(const AnswerEvent& event) {
  const int64_t before = reader_.size();
  const int64_t version = rules_.adapter >= 0 ? rules_.adapter : engine_.live_version();
  INGOT_ASSIGN_OR_RETURN(v1::GenerateChunk chunk, reader_.Take(event, version, rules_, engine_.version_of));
  const int64_t now = times_.arrival_unix_ns() + (engine_.clock.Now() - arrived_).count();
  if (reader_.size() > before) {
    if (times_.first_token_unix_ns() == 0) times_.set_first_token_unix_ns(now);
    times_.set_end_unix_ns(now);
    engine_.on_tokens(reader_.size() - before);
  }
  if (chunk.finish() != v1::FINISH_UNSPECIFIED) {
    *chunk.mutable_times() = times_;
    Deliver(std::move(chunk), /*last=*/true);
    return absl::OkStatus();
  }
  if (reader_.ended() && !std::exchange(abort_sent_, true)) engine_.abort(event.request_id);
  if (chunk.token_ids_size() > 0) Deliver(std::move(chunk), /*last=*/false);
  return absl::OkStatus();
}

void ExternalCall::OnEnd(absl::StatusOr<http::Answer> answer) {
  if (done_ || (kept_.has_value() && failed().ok())) return;
  const bool was_scoring = scoring_;
  const absl::Status end = EndOf(answer);
  if (end.ok() && scoring_ && !was_scoring) return;  // the second request follows
  if (!done_ && (!kept_.has_value() || !end.ok())) Deliver(end, /*last=*/true);
}

absl::Status ExternalCall::EndOf(const absl::StatusOr<http::Answer>& answer) {
  INGOT_RETURN_IF_ERROR(failed());
  if (!answer.ok() && absl::IsDeadlineExceeded(answer.status())) {
    return absl::DeadlineExceededError(absl::StrCat(
        "request ", request_.request_id(), ": rollout.request_deadline_ms passed before the server finished it"));
  }
  if (!answer.ok()) {
    return absl::UnavailableError(absl::StrCat("the connection to the rollout server: ", answer.status().message()));
  }
  if (status_ != 200) return engine_.api.StatusOf(status_ == 0 ? answer->status : status_, body_);
  if (streams()) {
    if (whole_.has_value() && whole_->finish != ServerFinish::kNone) return Score();
    return absl::UnavailableError("the rollout server's stream ended without a finish reason: retry the request");
  }
  INGOT_ASSIGN_OR_RETURN(const AnswerEvent scores, engine_.api.ReadScores(scoring_ ? score_ : request_, body_));
  INGOT_RETURN_IF_ERROR(scoring_ ? TakeScores(scores) : TakeEvent(scores));
  return done_ || kept_.has_value() ? absl::OkStatus() : absl::UnavailableError("the server did not return all scores");
}

void ExternalCall::Deliver(absl::StatusOr<v1::GenerateChunk> chunk, bool last) {
  // After Fail has returned, no part of the answer is delivered.
  if (const absl::Status why = failed(); !why.ok()) {
    chunk = why;
    last = true;
  }
  if (!chunk.ok()) chunk = base::WithoutKey(chunk.status(), key_);  // the server's message may repeat it
  if (last) {
    done_ = true;
    engine_.on_end(*this, reader_.saw_foreign_label());
  }
  gate_->Deliver(std::move(chunk));
}

}  // namespace ingot::engines
