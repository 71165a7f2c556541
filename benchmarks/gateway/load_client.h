// Agents that hold conversations with a server. Each request repeats the whole history with one more turn, and its
// answer is streamed. One thread, no blocking. Open loop: only the rate sets the time at which a request is due, and
// latency counts from that time, however late a connection was free to send it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gateway/api.h"

namespace ingot::bench {

struct LoadOptions {
  int agents = 512;             // dialogues at a time, one connection each
  size_t first_bytes = 20'000;  // size of a dialogue's first body, most of it its system message and tools
  size_t last_bytes = 140'000;  // a dialogue that reached it ends, and the next one begins
  size_t turn_bytes = 1'300;    // text of a tool's result, so what a body grows by is about 300 more
  bool poisson = false;         // times between requests: exponential; otherwise all equal
};

// Milliseconds of each request, in the order they ended.
struct LoadResult {
  std::vector<float> first_byte, terminal;
  int64_t bytes_sent = 0;
  double seconds = 0;
  int64_t unsent = 0;  // requests that were due but had no free agent until the end
};

class LoadClient {
 public:
  // Connects and opens the first conversations. Each takes turns until bodies are spread over [first_bytes,
  // last_bytes), so that the measurement sees a steady state. Ends the program with a message on an unexpected answer.
  LoadClient(int port, const LoadOptions& options, const Api& api);
  ~LoadClient();

  LoadResult Run(double rate, double seconds);
  // One answer's stream of events, in `pieces` parts with about as many events each.
  std::vector<std::string> Record(int pieces);

 private:
  using Clock = std::chrono::steady_clock;
  struct Agent;

  void Open(Agent& agent);
  void Ask(Agent& agent, Clock::time_point due);
  // The pieces of the body outlive its sending.
  void Post(Agent& agent, const std::string& target, const std::vector<std::string_view>& body);
  void Write(Agent& agent);
  void Read(Agent& agent);
  void Finished(Agent& agent);
  // Waits for sockets until `until` at most.
  void Poll(Clock::time_point until);
  void Dispatch();
  std::string Text(size_t bytes);

  const LoadOptions options_;
  const int port_;
  const Api& api_;
  int epoll_ = -1;
  int timer_ = -1;
  std::mt19937_64 random_{11};
  std::vector<std::string> texts_;  // as they stand in JSON
  std::vector<std::unique_ptr<Agent>> agents_;
  std::deque<Agent*> free_;
  std::deque<Clock::time_point> waiting_;  // due times of requests not sent yet
  LoadResult result_;
};

// Streams that have begun and are not read further. Ends the program with a message if one does not begin.
class IdleStreams {
 public:
  IdleStreams(int port, int count);
  ~IdleStreams();
  IdleStreams(const IdleStreams&) = delete;
  IdleStreams& operator=(const IdleStreams&) = delete;

 private:
  std::vector<int> sockets_;
};

}  // namespace ingot::bench
