// An engine that answers what a test says.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "rollout/client.h"
#include "text/chat/chat.h"

namespace ingot::gateway {

inline std::shared_ptr<const text::Tokenizer> TestTokenizer() {
  return text::MakeByteTokenizer({"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>"});
}
inline std::shared_ptr<const text::ChatFormat> TestFormat() {
  return text::MakeChatFormat("hermes", TestTokenizer()).value();
}

// What the engine samples for one request.
struct Script {
  std::string text;               // encoded with special tokens recognized
  std::vector<int32_t> ids = {};  // instead of text
  bool end_of_turn = true;        // <|im_end|> follows
  int chunk = 3;                  // ids per chunk
  v1::FinishReason finish = v1::FINISH_STOP;
  std::string stop_string;
  absl::Status error;         // instead of the final chunk
  bool hold = false;          // everything but the final chunk: Release sends it
  int slice = 0;              // pauses after this many ids, with the last one; 0 = never
  bool bad_logprobs = false;  // the second chunk lacks a log-prob
  int64_t first_version = 0;  // version of the first 4 ids
  // The versions of the chunks are provisional. The final chunk has this version for the whole answer; -1 = for none.
  std::optional<int64_t> answer_version = {};
};

inline Script Say(const std::string& text, bool hold = false) {
  Script script;
  script.text = text;
  script.hold = hold;
  return script;
}

// Answers from a thread per request, or, with `inline_chunks`, from inside Generate. Log-probs are -(1 + id % 7) / 8;
// the version changes after every 4 ids. A destroyed request gets no more calls, as the engine's contract requires.
class ScriptedEngine final : public rollout::Client {
 public:
  using Author = std::function<Script(const v1::GenerateRequest&)>;
  explicit ScriptedEngine(Author author) : author_(std::move(author)) {}
  ~ScriptedEngine() override {
    Release();
    for (std::thread& thread : threads_) thread.join();
  }

  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override {
    auto state = std::make_shared<State>(std::move(on_chunk));
    Script script = author_(request);
    const auto first = static_cast<size_t>(request.first_index());
    {
      base::MutexLock lock(mu_);
      requests_.push_back(std::move(request));
      changed_.SignalAll();
    }
    if (inline_chunks) {
      Play(script, *state, first);
    } else if (hold_without_thread) {
      bool released = false;  // the waiter for this request may have been faster
      {
        base::MutexLock lock(mu_);
        released = released_;
        if (!released) held_states_.push_back(state);
      }
      if (released) Play(script, *state, first);
    } else {
      base::MutexLock lock(mu_);
      threads_.emplace_back([this, script, state, first] { Play(script, *state, first); });
    }
    return std::make_unique<Handle>(state, aborted_);
  }

  absl::StatusOr<v1::EngineStatusResponse> Status() override {
    v1::EngineStatusResponse status;
    status.set_context_length(context_length);
    if (!gone.ok()) return gone;
    for (const auto& [version, loaded_unix_s] : held) {
      status.set_version(version);  // the newest is the last
      status.add_held_versions(version);
      status.add_held_loaded_unix_ns(loaded_unix_s * 1'000'000'000);
    }
    return status;
  }

  // Forgets past requests, so that a long run stays small.
  void Forget() {
    base::MutexLock lock(mu_);
    requests_.clear();
  }
  std::vector<v1::GenerateRequest> requests() const {
    base::MutexLock lock(mu_);
    return requests_;
  }
  // Blocks until `count` requests came.
  void WaitForRequests(size_t count) {
    base::MutexLock lock(mu_);
    while (requests_.size() < count) changed_.Wait(mu_);
  }
  // Blocks until a held request has sent all but its last chunk.
  void WaitForHeld(int count) {
    base::MutexLock lock(mu_);
    while (held_ < count) changed_.Wait(mu_);
  }
  void Release() {
    std::vector<std::shared_ptr<State>> held;
    {
      base::MutexLock lock(mu_);
      released_ = true;
      held.swap(held_states_);
      changed_.SignalAll();
    }
    for (const std::shared_ptr<State>& state : held) {
      v1::GenerateChunk last;
      last.set_finish(v1::FINISH_STOP);
      state->Send(std::move(last), true);
    }
  }
  int aborted() const { return *aborted_; }
  // Waits until so many requests were given up.
  void WaitForAborted(int count) const {
    for (int now = *aborted_; now < count; now = *aborted_) aborted_->wait(now);
  }

  std::shared_ptr<const text::Tokenizer> tokenizer = TestTokenizer();
  bool inline_chunks = false;
  bool hold_without_thread = false;  // every request waits for Release, and gets no token
  int context_length = 100000;
  std::map<int64_t, int64_t> held;  // Status: Unix seconds of loading, by version
  absl::Status gone;                // what Status answers, if it is an error

 private:
  struct State {
    explicit State(OnChunk callback) : on_chunk(std::move(callback)) {}
    base::Mutex mu;
    OnChunk on_chunk ABSL_GUARDED_BY(mu);
    bool finished ABSL_GUARDED_BY(mu) = false;
    bool Send(absl::StatusOr<v1::GenerateChunk> chunk, bool last) {
      base::MutexLock lock(mu);
      if (!on_chunk) return false;
      finished = last;
      on_chunk(std::move(chunk));
      return true;
    }
  };
  class Handle final : public Request {
   public:
    Handle(std::shared_ptr<State> state, std::shared_ptr<std::atomic<int>> aborted)
        : state_(std::move(state)), aborted_(std::move(aborted)) {}
    ~Handle() override {
      base::MutexLock lock(state_->mu);
      if (!state_->finished) {
        ++*aborted_;
        aborted_->notify_all();
      }
      state_->on_chunk = nullptr;
    }

   private:
    std::shared_ptr<State> state_;
    std::shared_ptr<std::atomic<int>> aborted_;
  };

  // Sends the ids from the index `first` on.
  void Play(const Script& script, State& state, size_t first) {
    std::vector<int32_t> ids = script.ids.empty() ? tokenizer->Encode(script.text, true) : script.ids;
    if (script.end_of_turn) ids.push_back(*tokenizer->SpecialId("<|im_end|>"));
    size_t at = std::min(first, ids.size());
    const size_t pause = script.slice > 0 ? at + static_cast<size_t>(script.slice) : ids.size() + 1;
    while (at < ids.size()) {
      v1::GenerateChunk chunk;
      for (int i = 0; i < script.chunk && at < std::min(ids.size(), pause); ++i, ++at) {
        chunk.add_token_ids(ids[at]);
        chunk.add_logprobs(-(1 + ids[at] % 7) / 8.0f);
        v1::TopLogprobs* top = chunk.add_top_logprobs();
        top->add_entries()->set_token_id(ids[at]);
        v1::VersionRun* run = chunk.add_versions();
        run->set_version(script.first_version + at / 4);
        run->set_count(1);
      }
      chunk.set_provisional(script.answer_version.has_value());
      if (script.bad_logprobs && at > static_cast<size_t>(script.chunk)) chunk.mutable_logprobs()->RemoveLast();
      if (at == pause) chunk.set_finish(v1::FINISH_PAUSED);
      if (!state.Send(std::move(chunk), at == pause) || at == pause) return;
    }
    if (script.hold) {
      base::MutexLock lock(mu_);
      ++held_;
      changed_.SignalAll();
      while (!released_) changed_.Wait(mu_);
    }
    if (!script.error.ok()) {
      state.Send(script.error, true);
      return;
    }
    v1::GenerateChunk last;
    last.set_finish(script.finish);
    last.set_stop_string(script.stop_string);
    last.set_cached_tokens(2);
    if (script.answer_version.value_or(-1) >= 0) {
      v1::VersionRun* run = last.add_answer_versions();
      run->set_version(*script.answer_version);
      run->set_count(static_cast<int32_t>(ids.size()));
    }
    state.Send(std::move(last), true);
  }

  const Author author_;
  const std::shared_ptr<std::atomic<int>> aborted_ = std::make_shared<std::atomic<int>>(0);
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<State>> held_states_ ABSL_GUARDED_BY(mu_);
  int held_ ABSL_GUARDED_BY(mu_) = 0;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ingot::gateway
