#include "reward/verifiers/math.h"

#include <re2/re2.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "reward/number.h"
#include "reward/verifiers/answer_verifier.h"
#include "reward/verifiers/math_workers.h"

namespace ingot::reward {
namespace {

using Rational = boost::multiprecision::cpp_rational;
using Integer = boost::multiprecision::cpp_int;
using sandbox::Template;

constexpr size_t kLongestRational = 1000;

bool IsDigit(char c) { return absl::ascii_isdigit(c); }

// Parses [+-]digits[.digits] without thousands separators.
std::optional<Rational> Decimal(std::string_view text) {
  static const RE2* const form = new RE2(R"(([+-]?)(\d*)(?:\.(\d*))?)");
  std::string sign, whole, part;
  if (text.size() > kLongestRational ||
      !RE2::FullMatch(re2::StringPiece(text.data(), text.size()), *form, &sign, &whole, &part)) {
    return std::nullopt;
  }
  if (whole.empty() && part.empty()) return std::nullopt;
  // The library reads "012" as octal.
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

// A box in `text`: text[begin, end) is \boxed{..}.
struct Box {
  size_t begin, end;
  std::string_view inside;
};

// Returns the last closed box, unless an unclosed box follows it.
std::optional<Box> LastBox(std::string_view text) {
  constexpr std::string_view kBoxed = "\\boxed{";
  const size_t begin = text.rfind(kBoxed);
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t inside = begin + kBoxed.size();
  int depth = 1;
  for (size_t i = inside; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;  // \{ and \} are not braces
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return Box{begin, i + 1, text.substr(inside, i - inside)};
    }
  }
  return std::nullopt;
}

// Returns whether the boxes around `between` are one answer: `between` is "and", "or", or a comma, with math markup.
bool Joins(std::string_view between) {
  static const RE2* const joint =
      new RE2(R"((?:[\s$]|\\[()\[\],; ])*(?:,|,?\s*(?:\\text\{)?\s*(?:and|or)\s*\}?)(?:[\s$]|\\[()\[\],; ])*)");
  return RE2::FullMatch(re2::StringPiece(between.data(), between.size()), *joint);
}

// Removes the marks around **strong emphasis**, and around the whole string if it is `code` or *emphasis*. A mark
// counts only if no letter or digit is next to it on the outside, so 2**3**4 keeps its powers.
std::string WithoutEmphasis(std::string text) {
  static const RE2* const strong[] = {new RE2(R"((?s)(^|[\s(:,$])\*\*([^\s*](?:[^*]*[^\s*])?)\*\*($|[\s).,;:!?$]))"),
                                      new RE2(R"((?s)(^|[\s(:,$])__([^\s_](?:[^_]*[^\s_])?)__($|[\s).,;:!?$]))")};
  static const RE2* const whole = new RE2(R"((?s)[`*]([^`*\s](?:[^`*]*[^`*\s])?)[`*]\.?)");
  for (const RE2* const mark : strong) {
    for (int pass = 0; pass < 2; ++pass) RE2::GlobalReplace(&text, *mark, R"(\1\2\3)");  // neighbors share a space
  }
  std::string inside;
  return RE2::FullMatch(text, *whole, &inside) ? inside : text;
}

// Removes the spaces between groups of digits in "1 234 567", but not in "1 1/2" or "12 345 6".
std::string WithoutGroupSpaces(std::string_view text) {
  std::string plain;
  for (size_t from = 0, to = 0; from < text.size(); from = to) {
    to = from + 1;
    if (!IsDigit(text[from])) {
      plain += text[from];
      continue;
    }
    bool is_one = text[from] != '0' && (from == 0 || (text[from - 1] != '.' && text[from - 1] != ','));
    size_t group = 1, groups = 1;  // digits in the last group; number of groups
    for (; to < text.size(); ++to) {
      if (IsDigit(text[to])) {
        ++group;
      } else if (text[to] == ' ' && to + 1 < text.size() && IsDigit(text[to + 1])) {
        is_one = is_one && (groups == 1 ? group <= 3 : group == 3);
        group = 0;
        ++groups;
      } else {
        break;
      }
    }
    is_one = is_one && groups > 1 && group == 3;
    for (const char c : text.substr(from, to - from)) {
      if (c != ' ' || !is_one) plain += c;
    }
  }
  return plain;
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
    return absl::InternalError("comparing mathematics needs a sandbox");
  }
  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const override {
    INGOT_RETURN_IF_ERROR(ExpectedVerifier::Preflight(input).status());
    return workers_->CommandOf(PythonIn(input.cwd));
  }
  absl::Status TryProgram(sandbox::Substrate& substrate, const std::string& cwd) const override {
    return workers_->Compare(substrate, PythonIn(cwd), "x+1", "1+x", nullptr).status();
  }
  absl::StatusOr<Verdict> CompareIn(const VerifierInput& input, const std::string& answer,
                                    const std::string& expected) const override {
    const std::string said = PlainMath(MathAnswerOf(answer)), right = PlainMath(MathAnswerOf(expected));
    const std::string words = absl::StrCat("answered ", Quoted(said), ", expected ", Quoted(right));
    if (said.empty()) return Malformed("the answer is empty");
    const std::string said_plain = NormalisedMath(said), right_plain = NormalisedMath(right);
    if (said_plain == right_plain) return Judged(true, words);
    if (const auto equal = EqualRationals(said_plain, right_plain)) return Judged(*equal, words);
    if (input.substrate == nullptr) return absl::InternalError("there is no substrate to compare mathematics on");
    auto compared = workers_->Compare(*input.substrate, PythonIn(input.cwd), right, said, input.cancel);
    if (absl::IsInvalidArgument(compared.status())) {
      return base::Annotate(compared.status(), absl::StrCat("verifier.expected ", Quoted(expected)));
    }
    INGOT_RETURN_IF_ERROR(compared.status());
    if (compared->answer_unreadable) return Malformed(words + ": no mathematics in the answer");
    Verdict verdict = Judged(compared->equal,
                             compared->killed ? words + ": the comparison exceeded its time or memory limit" : words);
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
  std::vector<Box> joined;  // from last to first
  for (std::optional<Box> box = LastBox(text); box.has_value(); box = LastBox(text.substr(0, joined.back().begin))) {
    if (!joined.empty() && !Joins(text.substr(box->end, joined.back().begin - box->end))) break;
    joined.push_back(*box);
  }
  if (joined.empty()) return Trimmed(std::string(text));
  std::string all;
  for (auto box = joined.rbegin(); box != joined.rend(); ++box) {
    absl::StrAppend(&all, all.empty() ? "" : ", ", Trimmed(std::string(box->inside)));
  }
  return all;
}

std::string PlainMath(std::string_view text) {
  std::string plain = WithPlainMarks(text);
  plain = absl::StrReplaceAll(plain, {{"\\$", ""}, {"\\textdollar", ""}});
  if (std::count(plain.begin(), plain.end(), '$') == 1) plain.erase(plain.find('$'), 1);
  return WithoutGroupSpaces(WithoutEmphasis(Trimmed(plain)));
}

std::string NormalisedMath(std::string_view text) {
  std::string plain = absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{"\\dfrac", "\\frac"},
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
                                                                                        {"$", ""}});
  while (!plain.empty() && (plain.back() == '.' || absl::ascii_isspace(plain.back()))) plain.pop_back();
  // Spaces are significant between two digits ("1 1/2") and after a command ("\pi r").
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
