// Engines in processes of their own that are killed at any time: a prefill engine, and an engine that pulls prompts from
// it and samples. Every call ends with the right answer, no engine leaks a block, and nothing waits longer than its
// limits. Also, an engine in a new process reads what an earlier one wrote to a store in a directory.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <thread>

#include "kv/memory_store.h"
#include "rollout/cache/grpc_kv_store.h"
#include "rollout/cache/kv_pull_service.h"
#include "rollout/engine/service.h"
#include "rollout/grpc_client.h"
#include "rollout/kv_store_rig.h"
#include "rollout/routing/engine_set.h"
#include "trials.h"

namespace ingot::rollout {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kChild[] = "--engine";
constexpr milliseconds kPrefillWait{500}, kPullTimeout{300};
constexpr milliseconds kFirstWait{2000};  // a new engine's first requests wait so long for chunks (kv_fetcher.h)
constexpr milliseconds kSlack{8000};      // of a machine that runs other tests

// ---- the child ----

enum class Kind { kPrefill, kDecode, kDirectory };

EngineOptions ChildOptions(Kind kind, const std::string& path) {
  EngineOptions options = Options();
  options.kv_cache_tokens = kind == Kind::kDirectory ? 9000 : 2000;
  options.context_length = kind == Kind::kDirectory ? 4200 : 900;
  options.kv_store.chunk_tokens = kind == Kind::kDirectory ? 256 : 32;
  options.kv_store.path = kind == Kind::kDirectory ? path : std::string(kv::kMemoryPath);
  options.router.prefill_engines = kind == Kind::kPrefill ? 1 : 0;
  if (kind == Kind::kDecode) options.kv_store.write = kv::Write::kNone;
  return options;
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& socket) {
  grpc::ChannelArguments arguments;
  for (const char* backoff :
       {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS}) {
    arguments.SetInt(backoff, 20);
  }
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

// A clock on which the pauses after errors are short.
class FastClock final : public base::Clock {
 public:
  std::chrono::nanoseconds Now() const override { return 100 * Real().Now(); }
  int64_t UnixNanos() const override { return Real().UnixNanos(); }
  bool WaitUntil(base::CondVar& changed, base::Mutex& mu, std::chrono::nanoseconds deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return Real().WaitUntil(changed, mu, deadline / 100);
  }
};

// Serves an engine on a socket until it is killed. `other` is the prefill engine's socket, or the store's directory.
[[noreturn]] void ServeEngine(Kind kind, const std::string& socket, const std::string& other) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const EngineOptions options = ChildOptions(kind, other);
  static const FastClock clock;
  grpc::ServerBuilder builder;
  std::unique_ptr<grpc::Service> pulled;
  std::shared_ptr<kv::Store> store;
  if (kind == Kind::kPrefill) {
    auto kept = std::make_shared<kv::MemoryStore>(1 << 24);
    pulled = NewKvPullService(kept);
    builder.RegisterService(pulled.get());
    store = kept;
  } else if (kind == Kind::kDecode) {
    store = NewPulledStore({{"the prefill engine", ChannelTo(other)}}, kPullTimeout, clock);
  } else {
    store = OpenStore(options);
  }
  const std::unique_ptr<Rig> rig = StoreRig(options, store);
  // Passes take long enough to be interrupted, and for pulling to be faster than computing.
  if (kind != Kind::kDirectory) {
    rig->runner->before_forward = [](const ForwardBatch&) { std::this_thread::sleep_for(milliseconds(3)); };
  }
  const std::unique_ptr<grpc::Service> service = NewRolloutService(*rig->engine);
  unlink(socket.c_str());
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) _exit(3);
  server->Wait();
  _exit(4);
}

// ---- the test ----

class EngineProcess {
 public:
  EngineProcess(Kind kind, std::string socket, std::string other)
      : kind_(kind), socket_(std::move(socket)), other_(std::move(other)), client_(NewGrpcClient(ChannelTo(socket_))) {
    Start();
  }
  ~EngineProcess() { Kill(); }

  void Start() {
    const std::string kind = std::to_string(static_cast<int>(kind_));
    child_ = fork();
    if (child_ == 0) {
      execl("/proc/self/exe", "prefill_kill_test", kChild, kind.c_str(), socket_.c_str(), other_.c_str(), nullptr);
      _exit(2);
    }
    ASSERT_GT(child_, 0);
  }
  void Stop() { kill(child_, SIGSTOP); }
  void Kill() {
    kill(child_, SIGKILL);
    int status = 0;
    waitpid(child_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the engine ended by itself: " << status;
  }
  absl::StatusOr<v1::EngineStatusResponse> Status() { return client_->Status(); }
  const std::shared_ptr<Client>& client() const { return client_; }

  // Waits until the engine has no request. Returns its status, whose held blocks would be leaked ones.
  v1::EngineStatusResponse AwaitIdle() {
    v1::EngineStatusResponse idle;
    AwaitTrue([&] {
      const auto status = Status();
      if (!status.ok() || status->running() > 0 || status->waiting() > 0) return false;
      idle = *status;
      return idle.kv_blocks_used() == 0;
    });
    return idle;
  }

 private:
  const Kind kind_;
  const std::string socket_, other_;
  const std::shared_ptr<Client> client_;
  pid_t child_ = -1;
};

class PrefillKillTest : public testing::Test {
 protected:
  struct Call {
    v1::GenerateRequest ask;
    std::unique_ptr<Collect> result;
    std::unique_ptr<Client::Request> handle;
    steady_clock::time_point start, end;
  };

  PrefillKillTest() : reference_(ChildOptionsAlone(), FakeSnapshot(1, 1001)) {}

  static EngineOptions ChildOptionsAlone() {
    EngineOptions options = ChildOptions(Kind::kPrefill, "");
    options.kv_store = {};
    options.router = {};
    return options;
  }

  // Random prompts of 24 to 424 tokens. Half of them begin with an earlier one's tokens.
  v1::GenerateRequest NewAsk() {
    const uint64_t draw = base::DeriveSeed(5, number_++);
    return Ask(LongPrompt(24 + draw % 400, static_cast<int32_t>(draw >> 32) % 4), 8, draw);
  }
  void Start(Call& call) {
    call.result = std::make_unique<Collect>();
    call.start = steady_clock::now();
    call.handle = set_->Generate(call.ask, [&call, on_chunk = call.result->OnChunk()](auto chunk) {
      if (!chunk.ok() || chunk->finish() != v1::FINISH_UNSPECIFIED) call.end = steady_clock::now();
      on_chunk(std::move(chunk));
    });
  }
  // Waits for the answer, and repeats a call that lost its engine, as the gateway does.
  void Finish(Call& call) {
    for (int attempt = 0;; ++attempt) {
      const absl::Status ended = call.result->Wait();
      longest_ = std::max(longest_, std::chrono::duration_cast<milliseconds>(call.end - call.start));
      if (ended.ok()) break;
      ASSERT_TRUE(absl::IsUnavailable(ended) && attempt < 1000) << ended;
      ++repeated_;
      std::this_thread::sleep_for(milliseconds(10));
      clock_.Advance(std::chrono::seconds(20));  // no engine stays set aside
      Start(call);
    }
    const Answer expected = AnswerOf(*reference_.engine, call.ask);
    EXPECT_EQ(call.result->ids, expected.ids);
    EXPECT_EQ(call.result->logprobs, expected.logprobs);
  }
  void Round(const std::function<void()>& interrupt) {
    std::deque<Call> calls(3);
    for (Call& call : calls) {
      call.ask = NewAsk();
      Start(call);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(base::DeriveSeed(7, number_) % 80'000));
    interrupt();
    for (Call& call : calls) Finish(call);
    clock_.Advance(std::chrono::seconds(20));
  }

  const StoreFolder folder_;
  const std::string prefill_socket_ = folder_.path() + "/p", decode_socket_ = folder_.path() + "/d";
  Rig reference_;
  base::ManualClock clock_;
  std::unique_ptr<EngineSet> set_;
  uint64_t number_ = 0;
  int repeated_ = 0;
  milliseconds longest_{0};
};

TEST_F(PrefillKillTest, EveryCallEndsRight) {
  EngineProcess prefiller(Kind::kPrefill, prefill_socket_, ""), decoder(Kind::kDecode, decode_socket_, prefill_socket_);
  set_ = std::make_unique<EngineSet>(
      std::vector{prefiller.client(), decoder.client()}, clock_,
      RouterOptions{.prefill_engines = 1, .prefill_min_tokens = 64, .prefill_wait_ms = kPrefillWait.count()});
  AwaitTrue([&] { return prefiller.Status().ok() && decoder.Status().ok(); });
  const int kills = Trials(5, 100);
  int64_t pulled = 0;
  for (int round = 0; round < kills && !HasFailure(); ++round) {
    Round([&] {  // every eighth time, the prefill engine hangs before it dies
      if (round % 8 == 3) {
        prefiller.Stop();
        std::this_thread::sleep_for(kPrefillWait + milliseconds(200));
      }
      prefiller.Kill();
      prefiller.Start();
    });
    prefiller.AwaitIdle();
    const int64_t fetched = decoder.AwaitIdle().kv_store().fetched_tokens();
    Round([] {});
    pulled += decoder.AwaitIdle().kv_store().fetched_tokens() - fetched;
    Round([&] {
      decoder.Kill();
      decoder.Start();
    });
    prefiller.AwaitIdle();
    decoder.AwaitIdle();
  }
  std::printf("%d kills of each engine: %d calls repeated, %lld tokens pulled between kills, longest call %lld ms\n",
              kills, repeated_, static_cast<long long>(pulled), static_cast<long long>(longest_.count()));
  std::printf("%s", set_->MetricsText().c_str());
  EXPECT_GT(repeated_, 0);
  EXPECT_GT(pulled, 0) << "nothing was pulled";
  EXPECT_LT(longest_, kPrefillWait + kFirstWait + kSlack);
  decoder.AwaitIdle();
  // A prompt that needs almost all blocks: no block was leaked.
  Call last{.ask = Ask(LongPrompt(880), 8), .result = nullptr, .handle = nullptr, .start = {}, .end = {}};
  Start(last);
  Finish(last);
  set_.reset();
}

TEST_F(PrefillKillTest, ANewProcessComputesNoWholeChunkOfALongPrompt) {
  constexpr int64_t kTokens = 4096;
  const v1::GenerateRequest ask = Ask(LongPrompt(kTokens + 3), 16);
  Answer first, second;
  for (Answer* answer : {&first, &second}) {
    EngineProcess engine(Kind::kDirectory, prefill_socket_, folder_.path() + "/kv");
    AwaitTrue([&] { return engine.Status().ok(); });
    *answer = AnswerOf(*engine.client(), ask);
    if (answer == &first) {
      AwaitTrue([&] { return engine.Status()->kv_store().put_chunks() == kTokens / 256; });
    } else {
      EXPECT_EQ(engine.Status()->kv_store().fetched_tokens(), kTokens);
    }
  }
  EXPECT_EQ(first.cached, 0);
  EXPECT_EQ(second.cached, kTokens) << "it computes only the 3 tokens after the last whole chunk";
  EXPECT_EQ(second, first);
}

}  // namespace

int RunChild(char** argv) { ServeEngine(static_cast<Kind>(std::atoi(argv[2])), argv[3], argv[4]); }

}  // namespace ingot::rollout

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "--engine") return ingot::rollout::RunChild(argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
