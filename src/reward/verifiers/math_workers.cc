#include "reward/verifiers/math_workers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/json.h"
#include "reward/verifiers/answer_verifier.h"

namespace ingot::reward {
namespace {

using base::json::value;

constexpr size_t kBatch = 32;
constexpr double kLoadSeconds = 60;  // of Python and SymPy, on a loaded machine

// One JSON object per line on stdin, {"expected", "answer"}; one on stdout for each, in order. Its own limits of time do
// not hold (they are signals of the main thread), so each comparison is a child that is killed.
constexpr std::string_view kWorker = R"py(
import json, math, os, resource, select, signal, sys
seconds, memory, digits = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
try:
    import logging
    logging.disable(logging.CRITICAL)
    from math_verify import parse, verify
except ImportError as error:
    sys.exit('no math-verify: %s' % error)

def read(text):
    if '$' not in text and '\\boxed' not in text and '\\[' not in text and '\\(' not in text:
        text = '$' + text + '$'
    return parse(text, parsing_timeout=None)

def compare(pair):
    expected = read(pair['expected'])
    if not any(not isinstance(part, str) for part in expected):
        return {'fault': 'expected'}
    answer = read(pair['answer'])
    if not any(not isinstance(part, str) for part in answer):
        return {'fault': 'answer'}
    return {'equal': bool(verify(expected, answer, float_rounding=digits, timeout_seconds=None))}

def child(pair, out):
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

compare({'expected': '\\frac{1}{2}', 'answer': '0.5'})  # loads what the first comparison loads
for line in sys.stdin:
    print(json.dumps(forked(json.loads(line))), flush=True)
)py";

absl::StatusOr<MathComparison> Parse(const std::string& line) {
  INGOT_ASSIGN_OR_RETURN(const value json, base::ParseJson(line));
  if (const value* equal = base::Find(json, "equal")) return MathComparison{.equal = equal->as_bool()};
  if (base::Find(json, "killed") != nullptr) return MathComparison{.killed = true};
  if (const value* fault = base::Find(json, "fault")) {
    if (fault->as_string() == "answer") return MathComparison{.answer_unreadable = true};
    return absl::InvalidArgumentError("math-verify reads no mathematics in it");
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
                  absl::StrCat(options_.float_rounding)};
  command.env = sandbox::InheritedEnvironment({"PATH", "LANG", "LC_ALL"});
  return command;
}

absl::StatusOr<MathComparison> MathWorkers::Compare(sandbox::Substrate& substrate, const std::string& python,
                                                    const std::string& expected, const std::string& answer,
                                                    const sandbox::Cancellation* cancel) {
  Question question{.expected = expected, .answer = answer};
  mu_.Lock();
  pending_.push_back(&question);
  while (!question.done) {
    if (running_ >= options_.workers || pending_.empty()) {
      changed_.Wait(mu_);
      continue;
    }
    // This thread runs the next process, for its own question or not.
    const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(std::min(pending_.size(), kBatch));
    const std::vector<Question*> batch(pending_.begin(), end);
    pending_.erase(pending_.begin(), end);
    ++running_;
    mu_.Unlock();
    Answer(substrate, python, batch, cancel);
    mu_.Lock();
    --running_;
    for (Question* answered : batch) answered->done = true;
    changed_.SignalAll();
  }
  mu_.Unlock();
  return std::move(question.result);
}

void MathWorkers::Answer(sandbox::Substrate& substrate, const std::string& python, const std::vector<Question*>& batch,
                         const sandbox::Cancellation* cancel) {
  const absl::Status asked = Ask(substrate, python, batch, cancel);
  if (asked.ok()) return;
  for (Question* question : batch) {
    if (absl::IsUnknown(question->result.status())) question->result = asked;
  }
}

absl::Status MathWorkers::Ask(sandbox::Substrate& substrate, const std::string& python,
                              const std::vector<Question*>& batch, const sandbox::Cancellation* cancel) {
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Room> room, substrate.Prepare());
  sandbox::Command command = CommandOf(python);
  command.env["HOME"] = room->home();
  command.env["TMPDIR"] = room->tmp();
  command.working_dir = room->work();
  for (const Question* question : batch) {
    base::json::object pair{{"expected", question->expected}, {"answer", question->answer}};
    absl::StrAppend(&command.stdin_text, base::PrintJson(pair), "\n");
  }
  sandbox::Limits limits;
  const double seconds = kLoadSeconds + static_cast<double>(batch.size()) * (5 * options_.timeout_s + 1);
  limits.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  const auto outcome = room->Run(command, limits, cancel);
  if (!outcome.ok()) return base::Annotate(outcome.status(), "verifier.math.python did not run");
  if (outcome->ending == sandbox::Ending::kCancelled) return absl::CancelledError("the comparison was cancelled");
  const std::vector<std::string> lines = absl::StrSplit(outcome->out, '\n', absl::SkipEmpty());
  for (size_t i = 0; i < std::min(lines.size(), batch.size()); ++i) batch[i]->result = Parse(lines[i]);
  if (outcome->ok() && lines.size() >= batch.size()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("verifier.math.python (", python, ") ", sandbox::Describe(*outcome, limits),
                                          " after ", lines.size(), " of ", batch.size(),
                                          " comparisons; its stderr: ", Quoted(Trimmed(outcome->err)),
                                          "; scripts/setup.sh installs math-verify into .venv"));
}

}  // namespace ingot::reward
