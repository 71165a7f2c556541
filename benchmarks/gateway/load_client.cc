#include "gateway/load_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "gateway/sse_reader.h"

namespace ingot::bench {
namespace {

constexpr std::chrono::seconds kTimeout(20);  // for a server that does not answer

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "gateway_bench: %s\n", what.c_str());
  std::exit(1);
}

std::string Quoted(const std::string& text) { return base::PrintJson(base::json::value(text)); }

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    Die(std::string("cannot connect: ") + std::strerror(errno));
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

double Milliseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

struct LoadClient::Agent {
  explicit Agent(const Api& api) : reader(api) {}

  enum class Phase { kOpening, kIdle, kAsking, kEnding };
  int fd = -1;
  Phase phase = Phase::kOpening;
  std::string episode, key;
  std::string dialogue;               // as it stands in the body
  std::string head;                   // of the request that is being sent
  std::vector<std::string_view> out;  // the bytes still to be sent; pieces are sent without a copy
  bool writing = false;               // epoll reports when more can be written
  size_t first_wait = 0;              // its first dialogue grows to this size before it waits for its time
  Clock::time_point due;
  bool measured = false;
  bool first_seen = false;
  SseReader reader;
};

LoadClient::LoadClient(int port, const LoadOptions& options, const Api& api)
    : options_(options), port_(port), api_(api) {
  epoll_ = epoll_create1(0);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &event);
  for (int i = 0; i < 400; ++i) texts_.push_back(Text(options_.turn_bytes));
  for (int i = 0; i < options_.agents; ++i) {
    auto agent = std::make_unique<Agent>(api_);
    agent->fd = Connect(port_);
    epoll_event watch{.events = EPOLLIN, .data = {.ptr = agent.get()}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, agent->fd, &watch);
    agent->first_wait = options_.first_bytes + (options_.last_bytes - options_.first_bytes) * i / options_.agents;
    Open(*agent);
    agents_.push_back(std::move(agent));
  }
  while (free_.size() < agents_.size()) Poll(Clock::now() + kTimeout);
  result_ = {};
}

LoadClient::~LoadClient() {
  for (const auto& agent : agents_) close(agent->fd);
  close(timer_);
  close(epoll_);
}

// Words, punctuation, indentation and line ends, roughly as in a program.
std::string LoadClient::Text(size_t bytes) {
  static const char* const kWords[] = {"const",   "return", "std::string", "value", "auto",   "request", "if (",
                                       ") {",     "}",      "for",         "index", "the",    "status",  "= ",
                                       "0;",      "//",     "\"name\"",    "->",    "size()", "buffer",  "std::move(",
                                       "message", "not",    "found",       "in",    "line",   "error:"};
  std::string text;
  int column = 0;
  while (text.size() < bytes) {
    const auto draw = random_();
    text += kWords[draw % std::size(kWords)];
    if (draw % 13 == 0) absl::StrAppend(&text, "_", (draw >> 8) % 1000);
    text += ' ';
    if (++column > 8 + static_cast<int>((draw >> 20) % 5)) {
      text += "\n  ";
      column = 0;
    }
  }
  const std::string quoted = Quoted(text);
  return quoted.substr(1, quoted.size() - 2);
}

void LoadClient::Open(Agent& agent) {
  agent.phase = Agent::Phase::kOpening;
  Post(agent, "/ingot/v1/episodes", {R"({"scaffold":"bench"})"});
}

void LoadClient::Ask(Agent& agent, Clock::time_point due) {
  agent.phase = Agent::Phase::kAsking;
  agent.due = due;
  agent.first_seen = false;
  Post(agent, std::string(api_.target()), {api_.head(), agent.dialogue, api_.tail()});
}

void LoadClient::Post(Agent& agent, const std::string& target, const std::vector<std::string_view>& body) {
  agent.reader.Reset();
  size_t size = 0;
  for (const std::string_view piece : body) size += piece.size();
  agent.head = absl::StrCat("POST ", target, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
                            "Authorization: Bearer ", agent.key, "\r\nContent-Length: ", size, "\r\n\r\n");
  agent.out = {agent.head};
  agent.out.insert(agent.out.end(), body.begin(), body.end());
  result_.bytes_sent += static_cast<int64_t>(agent.head.size() + size);
  Write(agent);
}

void LoadClient::Write(Agent& agent) {
  while (!agent.out.empty()) {
    std::vector<iovec> pieces;
    for (const std::string_view piece : agent.out) pieces.push_back({const_cast<char*>(piece.data()), piece.size()});
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t sent = sendmsg(agent.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) break;
    if (sent <= 0) Die(std::string("the server closed a connection: ") + std::strerror(errno));
    size_t left = static_cast<size_t>(sent);
    while (left > 0 && left >= agent.out.front().size()) {
      left -= agent.out.front().size();
      agent.out.erase(agent.out.begin());
    }
    if (left > 0) agent.out.front().remove_prefix(left);
  }
  const bool writing = !agent.out.empty();
  if (writing == agent.writing) return;
  agent.writing = writing;
  epoll_event watch{.events = EPOLLIN, .data = {.ptr = &agent}};
  if (writing) watch.events |= EPOLLOUT;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, agent.fd, &watch);
}

void LoadClient::Read(Agent& agent) {
  char bytes[16384];
  const ssize_t got = recv(agent.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) Die("the server closed a connection");
  if (agent.phase == Agent::Phase::kAsking && !agent.first_seen) {
    agent.first_seen = true;
    if (agent.measured) result_.first_byte.push_back(static_cast<float>(Milliseconds(Clock::now() - agent.due)));
  }
  if (!agent.reader.Push({bytes, static_cast<size_t>(got)})) Die("a response that cannot be read");
  if (agent.reader.done()) Finished(agent);
}

void LoadClient::Finished(Agent& agent) {
  const SseReader& reader = agent.reader;
  if (reader.status() / 100 != 2) Die(absl::StrCat("status ", reader.status(), ": ", reader.body()));
  if (agent.phase == Agent::Phase::kOpening) {
    const auto opened = base::ParseJson(reader.body());
    agent.episode = std::string(opened->at("episode_id").as_string());
    agent.key = std::string(opened->at("api_key").as_string());
    std::string system = texts_[0];
    while (system.size() + api_.head().size() + options_.turn_bytes < options_.first_bytes) {
      system += texts_[system.size() % texts_.size()];
    }
    agent.dialogue = api_.Opening(system, absl::StrCat("Task ", random_() % 1000000, "."));
  } else if (agent.phase == Agent::Phase::kEnding) {
    agent.key.clear();
    return Open(agent);
  } else {
    if (agent.measured) result_.terminal.push_back(static_cast<float>(Milliseconds(Clock::now() - agent.due)));
    if (reader.answer().call_id.empty()) Die("an answer without the tool call that was scripted");
    agent.dialogue += api_.Turn(reader.answer(), texts_[random_() % texts_.size()]);
    if (agent.dialogue.size() + api_.head().size() > options_.last_bytes) {
      agent.phase = Agent::Phase::kEnding;
      agent.first_wait = 0;
      return Post(agent, absl::StrCat("/ingot/v1/episodes/", agent.episode, "/end"), {R"({"status":"finished"})"});
    }
  }
  if (agent.dialogue.size() + api_.head().size() < agent.first_wait) return Ask(agent, Clock::now());
  agent.first_wait = 0;
  agent.phase = Agent::Phase::kIdle;
  free_.push_back(&agent);
}

void LoadClient::Poll(Clock::time_point until) {
  const auto left = std::max<std::chrono::nanoseconds>(until - Clock::now(), std::chrono::nanoseconds(1));
  itimerspec when{};
  when.it_value.tv_sec = left.count() / 1'000'000'000;
  when.it_value.tv_nsec = left.count() % 1'000'000'000;
  timerfd_settime(timer_, 0, &when, nullptr);
  epoll_event events[64];
  const int count = epoll_wait(epoll_, events, 64, kTimeout / std::chrono::milliseconds(1));
  if (count == 0) Die("the server answers nothing for 20 s");
  for (int i = 0; i < count; ++i) {
    auto* agent = static_cast<Agent*>(events[i].data.ptr);
    if (agent == nullptr) continue;
    if (events[i].events & EPOLLOUT) Write(*agent);
    if (events[i].events & ~EPOLLOUT) Read(*agent);
  }
}

void LoadClient::Dispatch() {
  while (!waiting_.empty() && !free_.empty()) {
    Agent& agent = *free_.front();
    free_.pop_front();
    agent.measured = true;
    Ask(agent, waiting_.front());
    waiting_.pop_front();
  }
}

LoadResult LoadClient::Run(double rate, double seconds) {
  result_ = {};
  waiting_.clear();
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = start + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  std::exponential_distribution<double> gap(rate);
  const auto next_gap = [&] {
    return std::chrono::nanoseconds(static_cast<int64_t>((options_.poisson ? gap(random_) : 1 / rate) * 1e9));
  };
  Clock::time_point next = start + next_gap();
  while (Clock::now() < end) {
    while (next <= Clock::now()) {
      waiting_.push_back(next);
      next += next_gap();
    }
    Dispatch();
    Poll(std::min(next, end));
  }
  result_.seconds = Milliseconds(Clock::now() - start) / 1000;
  result_.unsent = static_cast<int64_t>(waiting_.size());
  waiting_.clear();
  while (free_.size() < agents_.size()) Poll(Clock::now() + kTimeout);
  return std::move(result_);
}

std::vector<std::string> LoadClient::Record(int pieces) {
  Agent& agent = *free_.front();
  free_.pop_front();
  agent.phase = Agent::Phase::kAsking;
  Ask(agent, Clock::now());
  agent.reader.KeepEvents();
  while (free_.size() < agents_.size()) Poll(Clock::now() + kTimeout);
  const std::string& stream = agent.reader.stream();
  std::vector<std::string> parts(static_cast<size_t>(pieces));
  size_t at = 0;
  const size_t events = [&] {
    size_t count = 0;
    for (size_t end = 0; (end = stream.find("\n\n", end)) != stream.npos; end += 2) ++count;
    return count;
  }();
  for (size_t i = 0; i < events; ++i) {
    const size_t end = stream.find("\n\n", at) + 2;
    parts[i * parts.size() / events].append(stream, at, end - at);
    at = end;
  }
  return parts;
}

IdleStreams::IdleStreams(int port, int count) {
  const std::string body = R"({"model":"bench","stream":true,"messages":[{"role":"user","content":"hello"}]})";
  const std::string request =
      absl::StrCat("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer idle\r\n",
                   "Content-Length: ", body.size(), "\r\n\r\n", body);
  for (int i = 0; i < count; ++i) {
    sockets_.push_back(Connect(port));
    if (send(sockets_.back(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
      Die("a request could not be sent");
    }
  }
  for (const int socket : sockets_) {
    char bytes[4096];
    const ssize_t got = recv(socket, bytes, sizeof(bytes), 0);
    if (got < 12 || std::string_view(bytes, 12) != "HTTP/1.1 200") Die("a stream did not begin");
  }
}

IdleStreams::~IdleStreams() {
  for (const int socket : sockets_) close(socket);
}

}  // namespace ingot::bench
