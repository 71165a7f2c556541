#include "reward/verifiers/math_workers.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "reward/verifiers/answer_verifier.h"

namespace ingot::reward {
namespace {

using base::json::value;

constexpr int kFloatRounding = 12;   // decimal digits to which numbers are rounded
constexpr double kLoadSeconds = 60;  // of Python and SymPy, on a loaded machine

constexpr std::chrono::hours kLongestLife{12};
constexpr size_t kLongestReply = 65536;
constexpr std::chrono::milliseconds kCancelCheck{200};

// One JSON object per line, {"expected", "answer"}; one reply for each, in order. Both directions use the socket that
// is its stdout. math-verify's own time limits do not work here (they are signals of the main thread), so each
// comparison is a child process that can be killed.
constexpr std::string_view kWorker = R"py(
import json, math, os, re, resource, select, signal, socket, sys
seconds, memory, digits = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
try:
    import logging
    logging.disable(logging.CRITICAL)
    from math_verify import parse, verify
except ImportError as error:
    sys.exit('no math-verify: %s' % error)

NAMES = set("""and or pi sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log lg ln exp sqrt max min mod gcd
lcm det inf infty""".split())

def is_math(parts):
    return any(not isinstance(part, str) for part in parts)

def marked(text):
    return '$' in text or '\\boxed' in text or '\\[' in text or '\\(' in text

# Words around a number: "about 12 apples", and not "x = 5 or x = 7".
def is_prose(text):
    words = [word for word in re.findall(r'(?<![\\{A-Za-z])[A-Za-z]{2,}(?![A-Za-z}(])', text) if word.lower() not in NAMES]
    return len(words) > 1 or any(len(word) > 2 for word in words)

# What the text may mean: all of it as LaTeX, or what math-verify finds in it.
def readings(text):
    found = parse(text, parsing_timeout=None)
    if marked(text):
        return [found] if is_math(found) else []
    whole = parse('$' + text + '$', parsing_timeout=None)
    if is_math(whole) and not is_prose(text):
        return [whole]
    return [each for each in (whole, found) if is_math(each)]

def compare(pair):
    expected = readings(pair['expected'])
    if not expected:
        return {'fault': 'expected'}
    answer = readings(pair['answer'])
    if not answer:
        return {'fault': 'answer'}
    return {'equal': any(verify(expected[0], each, float_rounding=digits, timeout_seconds=None) for each in answer)}

def child(pair, out):
    channel.close()
    os.close(1)  # a child answers its parent alone
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds)))
    try:
        result = compare(pair)
    except (MemoryError, RecursionError, OverflowError):
        result = {'killed': True}
    except BaseException as error:
        result = {'crash': '%s: %s' % (type(error).__name__, str(error)[:200])}
    os.write(out, json.dumps(result).encode())

def forked(pair):
    inside, outside = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            child(pair, outside)
        finally:
            os._exit(0)
    os.close(outside)
    text = b''
    ready, _, _ = select.select([inside], [], [], 5 * seconds)
    if ready:
        text = os.read(inside, 65536)
    os.kill(process, signal.SIGKILL)
    os.close(inside)
    _, status = os.waitpid(process, 0)
    if text:
        return json.loads(text)
    if not ready or os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return {'killed': True}
    return {'crash': 'its process ended with status %d' % status}

channel = socket.socket(fileno=os.dup(1))
compare({'expected': '\\frac{1}{2}', 'answer': '0.5'})  # loads what the first comparison loads
channel.sendall(b'ready\n')
for line in channel.makefile('r', encoding='utf-8', newline='\n'):
    channel.sendall((json.dumps(forked(json.loads(line))) + '\n').encode())
)py";

absl::StatusOr<MathComparison> Parse(const std::string& line) {
  INGOT_ASSIGN_OR_RETURN(const value json, base::ParseJson(line));
  if (const value* equal = base::Find(json, "equal")) return MathComparison{.equal = equal->as_bool()};
  if (base::Find(json, "killed") != nullptr) return MathComparison{.killed = true};
  if (const value* fault = base::Find(json, "fault")) {
    if (fault->as_string() == "answer") return MathComparison{.answer_unreadable = true};
    return absl::InvalidArgumentError("math-verify finds no mathematics in it");
  }
  const value* crash = base::Find(json, "crash");
  return absl::InternalError(
      absl::StrCat("the comparison crashed: ", crash == nullptr ? line : base::PrintJson(*crash)));
}

}  // namespace

sandbox::Command MathWorkers::CommandOf(const std::string& python) const {
  sandbox::Command command;
  command.argv = {python,
                  "-I",
                  "-c",
                  std::string(kWorker),
                  absl::StrCat(options_.timeout_s),
                  absl::StrCat(options_.memory_bytes),
                  absl::StrCat(kFloatRounding)};
  command.env = sandbox::InheritedEnvironment({"PATH", "LANG", "LC_ALL"});
  return command;
}

class MathWorkers::Worker {
 public:
  static absl::StatusOr<std::unique_ptr<Worker>> Start(sandbox::Substrate& substrate, sandbox::Command command) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return sandbox::ErrnoStatus(errno, "socketpair");
    }
    auto worker = std::unique_ptr<Worker>(new Worker(substrate, command.argv[0], sandbox::Fd(ends[0])));
    sandbox::Fd far(ends[1]);
    INGOT_ASSIGN_OR_RETURN(worker->sandbox_, substrate.Prepare());
    command.env["HOME"] = worker->sandbox_->home();
    command.env["TMPDIR"] = worker->sandbox_->tmp();
    command.working_dir = worker->sandbox_->work();
    command.channel = far.get();
    worker->thread_ = std::thread([own = worker.get(), command = std::move(command), far = std::move(far)]() mutable {
      own->Run(command);
      far.Reset();  // the reader sees the end
    });
    return worker;
  }

  ~Worker() {
    near_.Reset();
    end_.Cancel();
    if (thread_.joinable()) thread_.join();
  }

  bool Serves(const sandbox::Substrate& substrate, const std::string& python) const {
    return &substrate_ == &substrate && python_ == python;
  }
  bool used_up() const { return comparisons_ >= kMostComparisons; }
  bool is_new() const { return comparisons_ == 0; }

  // UNAVAILABLE: the process has ended, and HowItEnded says how. DEADLINE_EXCEEDED, CANCELLED.
  absl::StatusOr<std::string> Ask(const std::string& line, double seconds, const sandbox::Cancellation* cancel) {
    const auto deadline = std::chrono::steady_clock::now() + base::FromSeconds(seconds);
    if (!ready_) {
      INGOT_RETURN_IF_ERROR(ReadLine(deadline, cancel).status());
      ready_ = true;
    }
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t n = send(near_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) {
        sent += static_cast<size_t>(n);
      } else if (errno == EAGAIN || errno == EINTR) {
        INGOT_RETURN_IF_ERROR(Await(POLLOUT, deadline, cancel));
      } else {
        return absl::UnavailableError("it has ended");
      }
    }
    ++comparisons_;
    return ReadLine(deadline, cancel);
  }

  // Waits for the process to end, and ends it if it still runs.
  std::string HowItEnded() {
    near_.Reset();
    thread_.join();
    if (!outcome_.ok()) return std::string(outcome_.status().message());
    return absl::StrCat(sandbox::Describe(*outcome_, limits_), "; its stderr: ", Quoted(Trimmed(outcome_->err)));
  }
  absl::Status failure() const { return outcome_.status(); }

 private:
  Worker(sandbox::Substrate& substrate, std::string python, sandbox::Fd near)
      : substrate_(substrate), python_(std::move(python)), near_(std::move(near)) {
    limits_.wall_time = kLongestLife;
    limits_.term_grace = std::chrono::nanoseconds(0);
  }

  void Run(const sandbox::Command& command) { outcome_ = sandbox_->Run(command, limits_, &end_); }

  absl::StatusOr<std::string> ReadLine(std::chrono::steady_clock::time_point deadline,
                                       const sandbox::Cancellation* cancel) {
    while (true) {
      if (const size_t end = unread_.find('\n'); end != std::string::npos) {
        std::string line = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        return line;
      }
      if (unread_.size() > kLongestReply) return absl::InternalError("its answer is too long");
      std::array<char, 4096> bytes;
      const ssize_t n = recv(near_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n > 0) {
        unread_.append(bytes.data(), static_cast<size_t>(n));
      } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        INGOT_RETURN_IF_ERROR(Await(POLLIN, deadline, cancel));
      } else {
        return absl::UnavailableError("it has ended");
      }
    }
  }

  // Waits for the socket, at most a moment. DEADLINE_EXCEEDED, CANCELLED.
  absl::Status Await(short events, std::chrono::steady_clock::time_point deadline,
                     const sandbox::Cancellation* cancel) const {
    if (cancel != nullptr && cancel->cancelled()) return absl::CancelledError("the comparison was cancelled");
    if (std::chrono::steady_clock::now() >= deadline) return absl::DeadlineExceededError("it did not answer in time");
    pollfd ready{.fd = near_.get(), .events = events, .revents = 0};
    poll(&ready, 1, static_cast<int>(kCancelCheck.count()));
    return absl::OkStatus();
  }

  const sandbox::Substrate& substrate_;
  const std::string python_;
  sandbox::Limits limits_;
  sandbox::Cancellation end_;
  std::unique_ptr<sandbox::Sandbox> sandbox_;
  sandbox::Fd near_;
  std::string unread_;
  bool ready_ = false;
  int comparisons_ = 0;
  absl::StatusOr<sandbox::Outcome> outcome_ = absl::UnknownError("it runs");  // written by thread_
  std::thread thread_;
};

MathWorkers::MathWorkers(MathOptions options) : options_(std::move(options)) {}

MathWorkers::~MathWorkers() { EndIdle(); }

void MathWorkers::EndIdle() {
  std::vector<std::unique_ptr<Worker>> ended;  // outside the lock: a worker's end waits for its process
  base::MutexLock lock(mu_);
  ended.swap(idle_);
}

int64_t MathWorkers::started() const {
  base::MutexLock lock(mu_);
  return started_;
}

absl::StatusOr<std::unique_ptr<MathWorkers::Worker>> MathWorkers::AcquireWorker(sandbox::Substrate& substrate,
                                                                                const std::string& python,
                                                                                const sandbox::Cancellation* cancel) {
  std::unique_ptr<Worker> other;  // of another substrate or program; it ends outside the lock
  {
    base::MutexLock lock(mu_);
    while (busy_ >= options_.workers) {
      if (cancel != nullptr && cancel->cancelled()) return absl::CancelledError("the comparison was cancelled");
      changed_.WaitFor(mu_, kCancelCheck);
    }
    ++busy_;
    if (!idle_.empty()) {
      other = std::move(idle_.back());
      idle_.pop_back();
      if (other->Serves(substrate, python)) return other;
    }
    ++started_;
  }
  other.reset();
  auto worker = Worker::Start(substrate, CommandOf(python));
  if (!worker.ok()) Return(nullptr);
  return worker;
}

void MathWorkers::Return(std::unique_ptr<Worker> worker) {
  if (worker != nullptr && worker->used_up()) worker.reset();
  base::MutexLock lock(mu_);
  --busy_;
  if (worker != nullptr) idle_.push_back(std::move(worker));
  changed_.SignalAll();
}

absl::StatusOr<MathComparison> MathWorkers::Compare(sandbox::Substrate& substrate, const std::string& python,
                                                    const std::string& expected, const std::string& answer,
                                                    const sandbox::Cancellation* cancel) {
  const base::json::object pair{{"expected", expected}, {"answer", answer}};
  const std::string line = base::PrintJson(pair) + "\n";
  while (true) {
    INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker, AcquireWorker(substrate, python, cancel));
    const bool was_new = worker->is_new();
    const absl::StatusOr<std::string> reply = worker->Ask(line, kLoadSeconds + 5 * options_.timeout_s + 1, cancel);
    if (reply.ok()) {
      absl::StatusOr<MathComparison> result = Parse(*reply);
      Return(std::move(worker));
      return result;
    }
    // A worker may have died since its last comparison: a new one decides.
    if (absl::IsUnavailable(reply.status()) && !was_new) {
      worker.reset();
      Return(nullptr);
      continue;
    }
    std::string how(reply.status().message());
    absl::Status failure;
    if (absl::IsUnavailable(reply.status())) {
      how = worker->HowItEnded();
      failure = worker->failure();
    }
    worker.reset();
    Return(nullptr);
    if (absl::IsCancelled(reply.status())) return reply.status();
    return absl::Status(failure.ok() ? absl::StatusCode::kInternal : failure.code(),
                        absl::StrCat("verifier.math.python (", python, ") did not run: ", how, kMathAdvice));
  }
}

}  // namespace ingot::reward
