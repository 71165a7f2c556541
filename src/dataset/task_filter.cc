#include "dataset/task_filter.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace ingot::dataset {
namespace {

using base::json::value;

std::string TextAt(const value& task, const std::string& field) {
  const value* found = base::Find(task, field);
  if (found == nullptr) return "";
  return found->is_string() ? std::string(found->get_string()) : base::PrintJson(*found);
}

// Returns the letters that label options, at the beginning of a line or after a space: "A)", "(A)", "A." or "A:".
std::set<char> OptionLabels(const std::string& question) {
  std::set<char> labels;
  for (size_t i = 0; i + 1 < question.size(); ++i) {
    const char letter = question[i];
    if (letter < 'A' || letter > 'F') continue;
    const char after = question[i + 1];
    const char before = i == 0 ? '\n' : question[i - 1];
    const bool parenthesised = before == '(' && after == ')';
    const bool line = before == '\n' && (after == ')' || after == '.' || after == ':');
    const bool inline_label = absl::ascii_isspace(before) && after == ')';
    if (parenthesised || line || inline_label) labels.insert(letter);
  }
  return labels;
}

bool AsksForProof(const std::string& lower) {
  static constexpr const char* kBeginnings[] = {"prove ", "show that", "prove:", "give a proof"};
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings), [&](const char* words) {
    for (size_t at = lower.find(words); at != std::string::npos; at = lower.find(words, at + 1)) {
      if (at == 0 || !absl::ascii_isalnum(lower[at - 1])) return true;
    }
    return false;
  });
}

}  // namespace

std::optional<std::string> GuessableFormat(const std::string& question, const std::string& answer) {
  const std::string lower = absl::AsciiStrToLower(question);
  const std::string said = absl::AsciiStrToLower(std::string(absl::StripAsciiWhitespace(answer)));
  for (const char* word : {"true", "false", "yes", "no"}) {
    if (said == word) return "true or false";
  }
  if (absl::StrContains(lower, "true or false")) return "true or false";
  const std::set<char> labels = OptionLabels(question);
  if (labels.contains('A') && labels.contains('B')) return "multiple choice";
  if (AsksForProof(lower)) return "proof";
  return std::nullopt;
}

std::optional<std::string> ReasonToDrop(const value& task, const TaskTries* rated, const TaskTries* guessed,
                                        const TaskFilterOptions& options) {
  if (options.formats) {
    auto format = GuessableFormat(TextAt(task, options.question_field), TextAt(task, options.answer_field));
    if (format.has_value()) return format;
  }
  if (rated != nullptr && rated->tries > 0) {
    if (rated->rate() >= options.max_rate) return "trivial";
    if (rated->rate() <= options.min_rate) return "impossible";
  }
  if (guessed != nullptr && guessed->right > 0) return "guessable";
  return std::nullopt;
}

FilteredCases FilterCases(const std::vector<std::vector<std::optional<std::string>>>& outputs,
                          const CaseFilterOptions& options) {
  FilteredCases filtered;
  const size_t cases = outputs.empty() ? 0 : outputs.front().size();
  for (size_t c = 0; c < cases; ++c) {
    std::map<std::string, int64_t> votes;
    for (const auto& submission : outputs) {
      if (submission[c].has_value()) ++votes[*submission[c]];
    }
    const auto most =
        std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != votes.end() && most->second >= options.min_agreeing) filtered.kept.push_back({c, most->first});
  }
  for (const auto& submission : outputs) {
    filtered.passing += std::all_of(filtered.kept.begin(), filtered.kept.end(), [&](const FilteredCases::Case& kept) {
      return submission[kept.index] == kept.output;
    });
  }
  if (std::ssize(filtered.kept) < options.min_cases) {
    filtered.dropped = absl::StrCat(filtered.kept.size(), " of ", cases, " cases kept, fewer than ", options.min_cases);
  } else if (filtered.passing < options.min_passing) {
    filtered.dropped =
        absl::StrCat(filtered.passing, " of ", outputs.size(), " submissions pass, fewer than ", options.min_passing);
  }
  return filtered;
}

}  // namespace ingot::dataset
