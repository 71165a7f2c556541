// Implements ExternalEngine's requests.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "engines/external/external_engine.h"
#include "rollout/engine/request_check.h"

namespace ingot::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr nanoseconds kAbortTimeout = seconds(30);

}  // namespace

class ExternalEngine::Handle final : public Client::Request {
 public:
  Handle(std::shared_ptr<Link> link, std::shared_ptr<ExternalCall> call, std::shared_ptr<rollout::ChunkGate> gate)
      : link_(std::move(link)), call_(std::move(call)), gate_(std::move(gate)) {}
  ~Handle() override {
    gate_->Close();
    if (call_ == nullptr) return;
    base::MutexLock lock(link_->mu);
    if (link_->engine != nullptr) link_->engine->Cancel(call_);
  }

 private:
  const std::shared_ptr<Link> link_;
  const std::shared_ptr<ExternalCall> call_;  // null = it was rejected
  const std::shared_ptr<rollout::ChunkGate> gate_;
};

ExternalCall::Engine ExternalEngine::CallsEngine() {
  return {
      .api = *api_,
      .clock = clock_,
      .live_version =
          [this] {
            base::MutexLock lock(mu_);
            if (candidate_.has_value()) return candidate_->version;
            return live_.has_value() ? live_->version : -1;
          },
      .version_of = [this](const std::string& label) -> std::optional<int64_t> {
        base::MutexLock lock(mu_);
        const auto found = labels_.find(label);
        return found == labels_.end() ? std::nullopt : std::optional(found->second);
      },
      .verifying =
          [this] {
            base::MutexLock lock(mu_);
            return candidate_.has_value();
          },
      .abort = [this](const std::string& id) { AbortAtServer(id); },
      .check_grammar = [this](const ExternalCall& call, const AnswerEvent& whole) { return CheckGrammar(call, whole); },
      .score = [this](ExternalCall& call, const v1::GenerateRequest& score) { return SendScores(call, score); },
      .on_tokens = [this](int64_t tokens) { CountTokens(tokens); },
      .on_end = [this](ExternalCall& call, bool foreign_label) { OnCallEnd(call, foreign_label); }};
}

std::unique_ptr<rollout::Client::Request> ExternalEngine::Generate(v1::GenerateRequest request, OnChunk on_chunk) {
  auto gate = std::make_shared<rollout::ChunkGate>(std::move(on_chunk));
  absl::StatusOr<std::shared_ptr<ExternalCall>> call = Admit(std::move(request), gate);
  if (!call.ok()) {
    gate->Deliver(call.status());
    return std::make_unique<Handle>(link_, nullptr, gate);
  }
  auto handle = std::make_unique<Handle>(link_, *call, gate);
  if (const absl::Status routed = Route(*call); !routed.ok()) (*call)->Reject(routed);
  return handle;
}

absl::Status ExternalEngine::Check(const v1::GenerateRequest& request) const {
  INGOT_RETURN_IF_ERROR(rollout::CheckRequest(request, {.vocab_size = model_.vocab_size,
                                                        .context_length = model_.context_length,
                                                        .has_tokenizer = tokenizer_ != nullptr}));
  // Finds an unsupported part before the request waits. Until the kind of log-probs is known, either may be right.
  std::optional<LogprobKind> known;
  {
    base::MutexLock lock(mu_);
    known = logprobs_;
  }
  const absl::Status fits =
      api_->Generate(request, {.model = model_, .logprobs = known.value_or(LogprobKind::kRaw)}).status();
  if (fits.ok() || known.has_value()) return fits;
  return api_->Generate(request, {.model = model_, .logprobs = LogprobKind::kProcessed}).status();
}

absl::StatusOr<std::shared_ptr<ExternalCall>> ExternalEngine::Admit(v1::GenerateRequest request,
                                                                    std::shared_ptr<rollout::ChunkGate> gate) {
  INGOT_RETURN_IF_ERROR(Check(request));
  const nanoseconds deadline = options_.request_deadline_ms == 0
                                   ? nanoseconds::max()
                                   : clock_.Now() + nanoseconds(milliseconds(options_.request_deadline_ms));
  AnswerReader reader(request, model_, tokenizer_, options_.halt);
  std::shared_ptr<const AnswerGrammar> grammar = grammars_.Of(request.sampling());
  return std::make_shared<ExternalCall>(calls_engine_, std::move(request), std::move(reader), std::move(grammar),
                                        std::move(gate), deadline);
}

absl::Status ExternalEngine::Route(const std::shared_ptr<ExternalCall>& call) {
  base::MutexLock lock(mu_);
  if (stopping_ || draining_) return ShuttingDown();
  INGOT_RETURN_IF_ERROR(fault_);
  INGOT_RETURN_IF_ERROR(aside_);
  if (lost_) return absl::UnavailableError("the rollout server has lost its weights, which are being reloaded");
  const size_t most = static_cast<size_t>(options_.max_running) + static_cast<size_t>(options_.max_waiting);
  if (running_.size() + waiting_.size() >= most) {
    return absl::ResourceExhaustedError(absl::StrCat("the rollout engine is full: it has ", most,
                                                     " requests, the limit of rollout.max_running + max_waiting; "
                                                     "retry later or on another engine"));
  }
  if (waiting_.empty() && MaySend()) return SendCall(call);
  waiting_.push_back(call);
  return absl::OkStatus();
}

bool ExternalEngine::MaySend() const {
  return sending_ && aside_.ok() && running_.size() < static_cast<size_t>(options_.max_running);
}

absl::StatusOr<ExternalEngine::Live> ExternalEngine::VersionFor(const v1::GenerateRequest& request) const {
  const int64_t pinned = request.pinned_version();
  if (pinned >= 0 && pinned != live_->version) {
    const AdapterVersions::Adapter* held = adapters_.Find(pinned);
    if (held != nullptr) {
      const weights::Snapshot& snapshot = *held->version.snapshot;
      return Live{snapshot.version(), snapshot.checksum(), held->version.label, held->loaded_unix_ns};
    }
    return absl::NotFoundError(absl::StrCat("the server's version is ", live_->version,
                                            ", and it does not hold version ", pinned, ", which the request pins"));
  }
  if (pinned < 0 && live_->version < request.min_version()) {
    return absl::UnavailableError(absl::StrCat("the server's version is ", live_->version,
                                               ", but the request needs at least ", request.min_version()));
  }
  return *live_;
}

absl::Status ExternalEngine::SendCall(const std::shared_ptr<ExternalCall>& call) {
  const v1::GenerateRequest& request = call->request();
  INGOT_ASSIGN_OR_RETURN(const Live version, VersionFor(request));
  const ServedWeights weights = WeightsOf(version.label);
  INGOT_ASSIGN_OR_RETURN(const ServerRequest sent, api_->Generate(request, {.model = model_,
                                                                            .salt = weights.salt,
                                                                            .logprobs = *logprobs_,
                                                                            .seeds = external_.seeds,
                                                                            .adapter = weights.adapter}));
  running_.insert(call);
  status_.set_prompt_tokens(status_.prompt_tokens() + request.prompt_ids_size());
  adapters_.Begin(version.label);
  call->set_label(version.label);
  const AnswerReader::VersionRules rules{.pinned = request.pinned_version(),
                                         .at_least = request.min_version(),
                                         .sent_as = adapters_only_ ? base_label_ : version.label,
                                         .keeps_cache = external_.swap == SwapMode::kKeep,
                                         .adapter = adapters_only_ ? version.version : -1};
  call->set_stream(streams_->Start(call->Send(sent, workers_.url(), key_, rules)));
  return absl::OkStatus();
}

absl::Status ExternalEngine::CheckGrammar(const ExternalCall& call, const AnswerEvent& whole) const {
  const auto outside = [this](int32_t id) { return id < 0 || id >= model_.vocab_size; };
  if (std::any_of(whole.ids.begin(), whole.ids.end(), outside)) return absl::OkStatus();  // the reader rejects them
  const bool stopped = whole.finish == ServerFinish::kStop;
  const absl::Status follows = grammars_.Check(*call.grammar(), call.request(), whole.ids, stopped, model_.eos_ids);
  if (!follows.ok()) INGOT_LOG(warn, "rollout: {}: {}", workers_.name(), std::string(follows.message()));
  return follows;
}

absl::Status ExternalEngine::SendScores(ExternalCall& call, const v1::GenerateRequest& score) {
  const ServedWeights weights = WeightsOf(call.label());
  base::MutexLock lock(mu_);
  if (stopping_) return ShuttingDown();
  INGOT_RETURN_IF_ERROR(call.failed());
  INGOT_ASSIGN_OR_RETURN(
      const ServerRequest sent,
      api_->Generate(score,
                     {.model = model_, .salt = weights.salt, .logprobs = *logprobs_, .adapter = weights.adapter}));
  call.set_stream(streams_->Start(call.SendScores(sent)));
  return absl::OkStatus();
}

void ExternalEngine::SendWaiting() {
  std::vector<std::pair<std::shared_ptr<ExternalCall>, absl::Status>> rejected;
  {
    base::MutexLock lock(mu_);
    while (MaySend() && !waiting_.empty()) {
      const std::shared_ptr<ExternalCall> call = waiting_.front();
      waiting_.pop_front();
      if (const absl::Status sent = SendCall(call); !sent.ok()) rejected.emplace_back(call, sent);
    }
  }
  for (const auto& [call, why] : rejected) call->Reject(why);
}

void ExternalEngine::OnCallEnd(ExternalCall& call, bool foreign_label) {
  base::MutexLock lock(mu_);
  running_.erase(call.shared_from_this());
  adapters_.End(call.label());
  suspect_ = suspect_ || foreign_label;
  server_.set_foreign_labels(server_.foreign_labels() + (foreign_label ? 1 : 0));
  server_.set_corrected_answers(server_.corrected_answers() + (call.answer().corrected() ? 1 : 0));
  server_.set_cut_tokens(server_.cut_tokens() + call.answer().dropped());
  if (MaySend() && !waiting_.empty()) streams_->Post([this] { SendWaiting(); });
  changed_.SignalAll();
}

void ExternalEngine::CountTokens(int64_t tokens) {
  base::MutexLock lock(mu_);
  status_.set_sampled_tokens(status_.sampled_tokens() + tokens);
  if (!swapped_in_.has_value() || !sending_) return;
  swapped_in_->set_first_token_ms(std::chrono::duration<double, std::milli>(clock_.Now() - swapped_at_).count());
  *status_.mutable_first_token() = *std::exchange(swapped_in_, std::nullopt);
}

void ExternalEngine::Cancel(const std::shared_ptr<ExternalCall>& call) {
  base::MutexLock lock(mu_);
  std::erase(waiting_, call);
  if (running_.contains(call)) streams_->Close(call->stream());
  changed_.SignalAll();
}

void ExternalEngine::EndAll(const absl::Status& why) {
  std::deque<std::shared_ptr<ExternalCall>> waiting;
  {
    base::MutexLock lock(mu_);
    waiting.swap(waiting_);
    for (const std::shared_ptr<ExternalCall>& call : running_) streams_->Close(call->Fail(why));
  }
  for (const std::shared_ptr<ExternalCall>& call : waiting) call->Reject(why);
  SettleAll();
}

void ExternalEngine::EndSilent(nanoseconds since, const absl::Status& why) {
  {
    base::MutexLock lock(mu_);
    for (const std::shared_ptr<ExternalCall>& call : running_) {
      if (call->heard_at() < since) streams_->Close(call->Fail(why));
    }
  }
  SettleAll();
}

void ExternalEngine::SettleAll() {
  std::vector<std::shared_ptr<ExternalCall>> calls;
  {
    base::MutexLock lock(mu_);
    calls.assign(running_.begin(), running_.end());
  }
  streams_->Post([calls = std::move(calls)] {
    for (const std::shared_ptr<ExternalCall>& call : calls) call->Settle();
  });
}

void ExternalEngine::AbortAtServer(const std::string& server_request_id) {
  const ServerRequest abort = api_->Abort(server_request_id);
  for (const auto& worker : workers_.all()) {  // which of them has it is the load balancer's choice
    http::Streams::Request request;
    request.head = {.url = worker->control.url() + abort.path, .method = abort.method, .key = key_};
    request.head.headers["Content-Type"] = "application/json";
    request.head.timeout = std::chrono::duration_cast<milliseconds>(kAbortTimeout);
    request.body = abort.body;
    streams_->Start(std::move(request));  // if it fails, the server samples in vain until the request's own end
  }
}

bool ExternalEngine::Drain(nanoseconds timeout) {
  const nanoseconds deadline = clock_.Now() + timeout;
  base::MutexLock lock(mu_);
  draining_ = true;
  while (!(running_.empty() && waiting_.empty()) && !stopping_) {
    if (!clock_.WaitUntil(changed_, mu_, deadline) && clock_.Now() >= deadline) break;
  }
  return running_.empty() && waiting_.empty();
}

absl::StatusOr<v1::EngineStatusResponse> ExternalEngine::Status() {
  base::MutexLock lock(mu_);
  if (stopping_) return ShuttingDown();
  v1::EngineStatusResponse status = status_;
  status.set_running(static_cast<int32_t>(running_.size()));
  status.set_waiting(static_cast<int32_t>(waiting_.size()));
  status.set_context_length(model_.context_length);
  status.set_alive_seconds(std::chrono::duration<double>(clock_.Now() - started_).count());
  if (tokenizer_ != nullptr) status.set_tokenizer_fingerprint(tokenizer_->fingerprint());
  *status.add_servers() = server_;
  status.mutable_servers(0)->set_name(api_->name());
  status.mutable_servers(0)->set_url(workers_.url());
  status.set_version(-1);
  if (!live_.has_value() || !aside_.ok()) return status;
  status.set_version(live_->version);
  const auto add = [&status](int64_t version, uint64_t checksum, int64_t loaded_unix_ns) {
    status.add_held_versions(version);
    status.add_held_checksums(checksum);
    status.add_held_loaded_unix_ns(loaded_unix_ns);
  };
  add(live_->version, live_->checksum, live_->loaded_unix_ns);
  for (const AdapterVersions::Adapter& held : adapters_.Held()) {
    const weights::Snapshot& snapshot = *held.version.snapshot;
    if (held.loaded && snapshot.version() != live_->version) {
      add(snapshot.version(), snapshot.checksum(), held.loaded_unix_ns);
    }
  }
  return status;
}

}  // namespace ingot::engines
