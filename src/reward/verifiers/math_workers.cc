#include "reward/verifiers/math_workers.h"

#include <utility>

#include "base/json.h"

namespace ingot::reward {
namespace {

using base::json::value;

constexpr int kFloatRounding = 12;  // decimal digits to which numbers are rounded

// Reads one JSON object per line, {"expected", "answer"}, and writes one reply for each, in order. stdout is a socket
// that is used in both directions. math-verify implements its own time limits with signals to the main thread, which do
// not work here, so each comparison is a child process that can be killed.
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

MathWorkers::MathWorkers(MathOptions options)
    : options_(std::move(options)),
      workers_({.processes = options_.workers,
                .most_uses = kMaxComparisons,
                .name = "verifier.math.python",
                .advice = kMathAdvice}) {}

absl::StatusOr<MathComparison> MathWorkers::Compare(sandbox::Substrate& substrate, const std::string& python,
                                                    const std::string& expected, const std::string& answer,
                                                    const sandbox::Cancellation* cancel) {
  const base::json::object pair{{"expected", expected}, {"answer", answer}};
  const LineWorkers::Source source{.key = python, .make = [this, &python]() -> absl::StatusOr<LineWorkers::Program> {
                                     return LineWorkers::Program{.command = CommandOf(python), .files = {}};
                                   }};
  INGOT_ASSIGN_OR_RETURN(const std::string reply, workers_.Ask(substrate, source, base::PrintJson(pair) + "\n",
                                                               5 * options_.timeout_s + 1, cancel));
  return Parse(reply);
}

}  // namespace ingot::reward
