#include "reward/terms/scripts.h"

#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace ingot::reward {
namespace {

// Unicode scripts by their RE2 names.
const char* const kScripts[] = {"Latin",   "Han",    "Hiragana", "Katakana", "Hangul",   "Cyrillic", "Greek",
                                "Arabic",  "Hebrew", "Bengali",  "Tamil",    "Telugu",   "Thai",     "Devanagari",
                                "Myanmar", "Khmer",  "Sinhala",  "Georgian", "Armenian", "Ethiopic", "Gujarati"};

// The parts that NaturalLanguage removes, in removal order.
const char* const kNotProse[] = {
    R"re((?s)```.*?(?:```|\z))re",                            // fenced code
    R"re(`[^`\n]*`)re",                                       // inline code
    R"re((?s)\$\$.*?\$\$)re",                                 // TeX
    R"re((?s)\\\[.*?\\\]|\\\(.*?\\\))re",                     // TeX
    R"re(\$[^$\n]+\$)re",                                     // TeX
    R"re(\\[A-Za-z]+)re",                                     // a TeX command outside math
    R"re((?:https?://|ftp://|www\.)[^\s<>"'，。、）」]+)re",  // URLs
    R"re(</?[A-Za-z][^<>\n]*>)re",                            // tags
};
// A JSON list or object without a nested list or object.
constexpr char kInnerJson[] = R"re(\{\s*\}|\{[^{}]*"[^{}]*:[^{}]*\}|\[\s*"[^\[\]{}]*\])re";
constexpr int kJsonDepth = 16;

// Four lowercase words.
constexpr char kLatinRun[] = R"re(((?:[a-zß-öø-ÿ]{2,}[ ,;]+){3,}[a-zß-öø-ÿ]{2,}))re";

// Counts the characters in all matches of the pattern, which has one group.
int64_t CharactersIn(const std::string& text, const RE2& pattern) {
  re2::StringPiece rest(text), match;
  int64_t count = 0;
  while (RE2::FindAndConsume(&rest, pattern, &match))
    count += static_cast<int64_t>(base::CountCharacters({match.data(), match.size()}));
  return count;
}

const std::map<std::string, std::set<std::string>>& Languages() {
  static const auto* const languages = [] {
    auto* of = new std::map<std::string, std::set<std::string>>;
    for (const char* code : {"en", "de", "fr", "es", "it", "pt", "nl", "pl", "cs", "sv", "da", "no", "fi", "hu", "ro",
                             "tr", "vi", "id", "ms"}) {
      (*of)[code] = {"Latin"};
    }
    for (const char* code : {"ru", "uk", "bg", "mk", "be", "kk"}) (*of)[code] = {"Cyrillic"};
    for (const char* code : {"ar", "fa", "ur"}) (*of)[code] = {"Arabic"};
    for (const char* code : {"hi", "mr", "ne"}) (*of)[code] = {"Devanagari"};
    (*of)["zh"] = {"Han"};
    (*of)["ja"] = {"Han", "Hiragana", "Katakana"};
    (*of)["ko"] = {"Hangul", "Han"};
    (*of)["sr"] = {"Cyrillic", "Latin"};
    for (const auto& [code, script] : {std::pair("el", "Greek"),
                                       {"he", "Hebrew"},
                                       {"bn", "Bengali"},
                                       {"ta", "Tamil"},
                                       {"te", "Telugu"},
                                       {"th", "Thai"},
                                       {"hy", "Armenian"},
                                       {"ka", "Georgian"}}) {
      (*of)[code] = {script};
    }
    return of;
  }();
  return *languages;
}

}  // namespace

std::string NaturalLanguage(std::string text) {
  static const auto* const patterns = [] {
    auto* made = new std::vector<std::unique_ptr<const RE2>>;
    for (const char* pattern : kNotProse) made->push_back(std::make_unique<const RE2>(pattern));
    return made;
  }();
  static const auto* const json = new RE2(kInnerJson);
  for (const auto& pattern : *patterns) RE2::GlobalReplace(&text, *pattern, " ");
  // Removes JSON from the innermost level outward.
  for (int depth = 0; depth < kJsonDepth && RE2::GlobalReplace(&text, *json, " ") > 0; ++depth) {
  }
  return text;
}

LetterCounts CountLetters(const std::string& text) {
  static const auto* const patterns = [] {
    auto* made = new std::map<std::string, std::unique_ptr<const RE2>>;
    for (const char* script : kScripts) {
      (*made)[script] = std::make_unique<const RE2>(absl::StrCat("([\\p{", script, "}]+)"));
    }
    return made;
  }();
  static const auto* const any = new RE2(R"((\pL+))");
  LetterCounts letters;
  int64_t known = 0;
  for (const auto& [script, pattern] : *patterns) {
    const int64_t count = CharactersIn(text, *pattern);
    if (count > 0) letters[script] = count;
    known += count;
  }
  const int64_t other = CharactersIn(text, *any) - known;
  if (other > 0) letters["other"] = other;
  return letters;
}

std::set<std::string> ScriptsOf(const std::string& language) {
  const auto found = Languages().find(language);
  return found == Languages().end() ? std::set<std::string>() : found->second;
}

std::string KnownLanguages() {
  std::string codes;
  for (const auto& [code, scripts] : Languages()) absl::StrAppend(&codes, codes.empty() ? "" : ", ", code);
  return codes;
}

std::set<std::string> ScriptsIn(const LetterCounts& letters) {
  int64_t all = 0;
  for (const auto& [script, count] : letters) all += count;
  std::set<std::string> scripts;
  for (const auto& [script, count] : letters) {
    if (10 * count >= all) scripts.insert(script);
  }
  if (scripts.contains("Hiragana") || scripts.contains("Katakana")) scripts.merge(ScriptsOf("ja"));
  if (scripts.contains("Hangul")) scripts.merge(ScriptsOf("ko"));
  return scripts;
}

double ForeignShare(const std::string& text, const std::set<std::string>& expected) {
  static const auto* const latin_run = new RE2(kLatinRun);
  static const auto* const greek_word = new RE2(R"((\p{Greek}{2,}))");
  const std::string prose = NaturalLanguage(text);
  int64_t all = 0, foreign = 0;
  for (const auto& [script, count] : CountLetters(prose)) {
    all += count;
    if (expected.contains(script)) continue;
    foreign += script == "Latin"   ? CharactersIn(prose, *latin_run)
               : script == "Greek" ? CharactersIn(prose, *greek_word)
                                   : count;
  }
  return all == 0 ? 0 : std::min(1.0, static_cast<double>(foreign) / static_cast<double>(all));
}

}  // namespace ingot::reward
