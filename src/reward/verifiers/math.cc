#include "reward/verifiers/math.h"

#include <re2/re2.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "reward/verifiers/answer_verifier.h"
#include "reward/verifiers/math_workers.h"

namespace ingot::reward {
namespace {

using Rational = boost::multiprecision::cpp_rational;
using Integer = boost::multiprecision::cpp_int;
using sandbox::Template;

constexpr size_t kLongestRational = 1000;

bool IsDigit(char c) { return absl::ascii_isdigit(c); }

// [+-]digits[.digits], without thousands marks.
std::optional<Rational> Decimal(std::string_view text) {
  static const RE2* const form = new RE2(R"(([+-]?)(\d*)(?:\.(\d*))?)");
  std::string sign, whole, part;
  if (text.size() > kLongestRational ||
      !RE2::FullMatch(re2::StringPiece(text.data(), text.size()), *form, &sign, &whole, &part)) {
    return std::nullopt;
  }
  if (whole.empty() && part.empty()) return std::nullopt;
  // "012" is octal to the library.
  const std::string digits = whole + part;
  const size_t first = digits.find_first_not_of('0');
  const Integer numerator(first == std::string::npos ? "0" : digits.substr(first));
  const Rational number(numerator, boost::multiprecision::pow(Integer(10), static_cast<unsigned>(part.size())));
  return sign == "-" ? Rational(-number) : number;
}

std::optional<Rational> ParseRational(std::string_view text) {
  if (const auto number = Decimal(text)) return number;
  static const RE2* const latex = new RE2(R"(([+-]?)\\frac\{([^{}]+)\}\{([^{}]+)\})");
  static const RE2* const slash = new RE2(R"(()([+-]?[\d.]+)/([\d.]+))");
  std::string sign, above, below;
  const re2::StringPiece piece(text.data(), text.size());
  if (!RE2::FullMatch(piece, *latex, &sign, &above, &below) && !RE2::FullMatch(piece, *slash, &sign, &above, &below)) {
    return std::nullopt;
  }
  const auto numerator = Decimal(above), denominator = Decimal(below);
  if (!numerator.has_value() || !denominator.has_value() || *denominator == 0) return std::nullopt;
  const Rational ratio = *numerator / *denominator;
  return sign == "-" ? Rational(-ratio) : ratio;
}

class MathVerifier final : public ExpectedVerifier {
 public:
  MathVerifier(VerifierOptions options, Template expected, Template python)
      : ExpectedVerifier(options, std::move(expected)),
        python_(std::move(python)),
        workers_(std::make_unique<MathWorkers>(options.math)) {}

 private:
  absl::Status CheckExpected(const std::string& expected) const override {
    if (!Trimmed(expected).empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("verifier.expected is empty");
  }
  absl::StatusOr<Verdict> Compare(const std::string&, const std::string&) const override {
    return absl::InternalError("the comparison of mathematics needs a sandbox");
  }
  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const override {
    INGOT_RETURN_IF_ERROR(ExpectedVerifier::Preflight(input).status());
    return workers_->CommandOf(PythonIn(input.cwd));
  }
  absl::StatusOr<Verdict> CompareIn(const VerifierInput& input, const std::string& answer,
                                    const std::string& expected) const override {
    const std::string said = MathAnswerOf(answer), right = MathAnswerOf(expected);
    const std::string words = absl::StrCat("answered ", Quoted(said), ", expected ", Quoted(right));
    if (said.empty()) return Malformed("the answer is empty");
    const std::string said_plain = NormalisedMath(said), right_plain = NormalisedMath(right);
    if (said_plain == right_plain) return Judged(true, words);
    if (const auto equal = EqualRationals(said_plain, right_plain)) return Judged(*equal, words);
    if (input.substrate == nullptr)
      return absl::InternalError("the comparison of mathematics has no substrate to run on");
    auto compared = workers_->Compare(*input.substrate, PythonIn(input.cwd), right, said, input.cancel);
    if (absl::IsInvalidArgument(compared.status())) {
      return base::Annotate(compared.status(), absl::StrCat("verifier.expected ", Quoted(expected)));
    }
    INGOT_RETURN_IF_ERROR(compared.status());
    if (compared->answer_unreadable) return Malformed(words + ": no mathematics in the answer");
    Verdict verdict = Judged(compared->equal, compared->killed ? words + ": past the limit of time or memory" : words);
    verdict.signals["verifier_timeout"] = compared->killed ? 1 : 0;
    return verdict;
  }
  std::string PythonIn(const std::string& cwd) const {
    return python_.Render({.text = {{"cwd", cwd}}, .json = {}}).value_or("python3");
  }

  const Template python_;
  const std::unique_ptr<MathWorkers> workers_;
};

}  // namespace

std::string MathAnswerOf(std::string_view text) {
  constexpr std::string_view kBoxed = "\\boxed{";
  const size_t boxed = text.rfind(kBoxed);
  if (boxed != std::string_view::npos) {
    const size_t begin = boxed + kBoxed.size();
    int depth = 1;
    for (size_t i = begin; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;  // \{ and \} are not braces
      } else if (text[i] == '{') {
        ++depth;
      } else if (text[i] == '}' && --depth == 0) {
        return Trimmed(std::string(text.substr(begin, i - begin)));
      }
    }
  }
  return Trimmed(std::string(text));
}

std::string NormalisedMath(std::string_view text) {
  std::string plain =
      absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{"\\dfrac", "\\frac"},
                                                                        {"\\tfrac", "\\frac"},
                                                                        {"\\left(", "("},
                                                                        {"\\right)", ")"},
                                                                        {"\\left[", "["},
                                                                        {"\\right]", "]"},
                                                                        {"\\left\\{", "\\{"},
                                                                        {"\\right\\}", "\\}"},
                                                                        {"\\left|", "|"},
                                                                        {"\\right|", "|"},
                                                                        {"\\,", " "},
                                                                        {"\\;", " "},
                                                                        {"\\!", ""},
                                                                        {"\\(", ""},
                                                                        {"\\)", ""},
                                                                        {"\\[", ""},
                                                                        {"\\]", ""},
                                                                        {"$", ""},
                                                                        {"\xe2\x88\x92", "-"}});  // U+2212
  while (!plain.empty() && (plain.back() == '.' || absl::ascii_isspace(plain.back()))) plain.pop_back();
  // Spaces mean something between two digits ("1 1/2") and after a command ("\pi r").
  std::string out;
  for (size_t i = 0; i < plain.size(); ++i) {
    if (!absl::ascii_isspace(plain[i])) {
      out += plain[i];
      continue;
    }
    while (i + 1 < plain.size() && absl::ascii_isspace(plain[i + 1])) ++i;
    if (out.empty() || i + 1 == plain.size()) continue;
    const bool digits = IsDigit(out.back()) && (IsDigit(plain[i + 1]) || plain[i + 1] == '\\');
    const bool letters = absl::ascii_isalpha(out.back()) && absl::ascii_isalpha(plain[i + 1]);
    if (digits || letters) out += ' ';
  }
  return out;
}

std::optional<bool> EqualRationals(std::string_view a, std::string_view b) {
  const auto left = ParseRational(a), right = ParseRational(b);
  if (!left.has_value() || !right.has_value()) return std::nullopt;
  return *left == *right;
}

absl::StatusOr<std::unique_ptr<const Verifier>> MakeMath(const VerifierOptions& options, Template expected) {
  const MathOptions& math = options.math;
  auto python = Template::Parse(math.python, {"cwd"});
  if (!python.ok()) return base::Annotate(python.status(), "verifier.math.python");
  return std::make_unique<MathVerifier>(options, std::move(expected), std::move(*python));
}

}  // namespace ingot::reward
