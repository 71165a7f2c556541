// tests/engines/fake_server.py as processes of the test, and the weights that they understand.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/json.h"
#include "engines/external/external_options.h"
#include "engines/server/exchange_folder.h"
#include "engines/verification/weight_reference.h"
#include "http/client.h"
#include "test_paths.h"
#include "weights/snapshot.h"

namespace ingot::engines::testing {

inline constexpr int32_t kVocab = 24;

// Waits until `holds`. Returns false after a time that only a broken engine reaches.
inline bool Await(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// A version's only tensor holds its seed.
inline std::shared_ptr<const weights::Snapshot> Seeded(int64_t version, uint32_t seed) {
  const auto bytes = std::as_bytes(std::span(&seed, 1));
  return *weights::Snapshot::Copy(version, {{"w", "F32", {1}, bytes}});
}
// A version of a base model with an adapter, whose factor holds the seed.
inline std::shared_ptr<const weights::Snapshot> Adapted(int64_t version, uint32_t seed, uint32_t base = 1) {
  const auto factor = std::as_bytes(std::span(&seed, 1)), given = std::as_bytes(std::span(&base, 1));
  return *weights::Snapshot::Copy(version, {{"a.lora_A.weight", "F32", {1}, factor}, {"w", "F32", {1}, given}});
}
inline uint32_t SeedIn(const weights::Snapshot& snapshot) {
  uint32_t seed = 0;
  std::memcpy(&seed, snapshot.bytes(0).data(), sizeof(seed));
  return seed;
}
inline absl::Status WriteSeed(const std::string& dir, const std::shared_ptr<const weights::Snapshot>& snapshot) {
  std::ofstream(dir + "/model.safetensors") << SeedIn(*snapshot);
  return absl::OkStatus();
}
// The fake model's log-prob of any id at a position of prompt and answer.
inline float LogprobOf(uint64_t seed, int64_t position) {
  return static_cast<float>(-0.1 - static_cast<double>((seed * 1000003 + position * 7919) % 2000000) / 1e6);
}

// What a fake server with the snapshot's weights reports.
class SeededReference final : public WeightReference {
 public:
  explicit SeededReference(int32_t vocab = kVocab) : vocab_(vocab) {}
  absl::StatusOr<std::vector<PromptScores>> Score(const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                  const std::vector<std::vector<int32_t>>& prompts) override {
    std::vector<PromptScores> all;
    for (const std::vector<int32_t>& prompt : prompts) {
      PromptScores& scores = all.emplace_back();
      const auto size = static_cast<int64_t>(prompt.size());
      for (int64_t i = 1; i < size; ++i) scores.logprobs.push_back(LogprobOf(SeedIn(*snapshot), i));
      scores.next.assign(static_cast<size_t>(vocab_), LogprobOf(SeedIn(*snapshot), size));
    }
    return all;
  }
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Perturb(
      const std::shared_ptr<const weights::Snapshot>& snapshot) override {
    const uint32_t other = SeedIn(*snapshot) + 500000;
    return snapshot->size() > 1 ? Adapted(snapshot->version(), other) : Seeded(snapshot->version(), other);
  }

 private:
  const int32_t vocab_;
};

inline std::string FakeProgram() { return std::string(INGOT_SOURCE_DIR) + "/tests/engines/fake_server.py"; }

// The kind of servers of the current test.
inline EngineKind& Kind() {
  static EngineKind kind = EngineKind::kVllm;
  return kind;
}
inline std::string Dialect() { return EngineKindNames()[static_cast<size_t>(Kind())]; }
inline bool IsVllm() { return Kind() == EngineKind::kVllm; }

// Starts servers as forks of one process, because starting Python takes most of the time of a test.
class Spawner {
 public:
  static Spawner& Get() {
    static Spawner spawner;
    return spawner;
  }
  // Returns a line with the server's process id and URL.
  std::string Start(const std::string& words) {
    const std::string line = words + "\n";
    if (::write(in_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
    std::string started;
    for (char c = 0; ::read(out_, &c, 1) == 1 && c != '\n';) started += c;
    return started;
  }

 private:
  Spawner() {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      const std::string program = FakeProgram();
      ::execlp("python3", "python3", program.c_str(), "--spawn", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    out_ = out[0];
  }
  int in_ = -1, out_ = -1;
};

class FakeServer {
 public:
  explicit FakeServer(int port = 0, const std::string& words = "")
      : FakeServer("--dialect " + Dialect() + " --port " + std::to_string(port) + " " + words) {}
  // A load balancer in front of these servers.
  static std::unique_ptr<FakeServer> Front(const std::vector<std::string>& urls) {
    std::string words = "--front";
    for (const std::string& url : urls) words += " " + url;
    return std::unique_ptr<FakeServer>(new FakeServer(words));
  }
  ~FakeServer() { Kill(); }

  const std::string& url() const { return url_; }
  int port() const { return std::atoi(url_.substr(url_.rfind(':') + 1).c_str()); }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::kill(pid_, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pid_ = -1;
  }

  void Post(const std::string& path, const base::json::value& body) const { PostTo(url_, path, body); }
  void Fault(const std::string& name, const base::json::value& value) const {
    Post("/fake/faults", base::json::object{{name, value}});
  }
  base::json::value State() const { return StateOf(url_); }
  int64_t State(const char* name) const { return State().at(name).to_number<int64_t>(); }

  static void PostTo(const std::string& url, const std::string& path, const base::json::value& body) {
    const std::string text = base::PrintJson(body);
    http::Client client;
    (void)client.Send({.url = url + path, .method = "POST", .body = text});
  }
  static base::json::value StateOf(const std::string& url) { return *TryStateOf(url); }
  // Returns nullopt if the server is gone.
  static std::optional<base::json::value> TryStateOf(const std::string& url) {
    http::Client client;
    const absl::StatusOr<http::Answer> answer = client.Send({.url = url + "/fake/state"});
    if (!answer.ok()) return std::nullopt;
    return *base::ParseJson(answer->body);
  }

 private:
  explicit FakeServer(const std::string& line) {
    const std::string started = Spawner::Get().Start(line);
    pid_ = std::atoi(started.c_str());
    if (pid_ > 0) url_ = started.substr(started.find("http"));
  }

  pid_t pid_ = -1;
  std::string url_;
};

}  // namespace ingot::engines::testing
