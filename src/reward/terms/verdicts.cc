#include "reward/terms/verdicts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/json.h"

namespace ingot::reward {
namespace {

std::string LineOf(const base::Key128& key, const JudgeVerdict& verdict) {
  base::json::object line;
  line["key"] = absl::BytesToHexString(std::string(base::KeyBytes(key)));
  line["unsure"] = verdict.unsure;
  line["score"] = verdict.score;
  line["reasoning"] = verdict.reasoning;
  return base::PrintJson(line) + "\n";
}

// Returns nullopt if the line was truncated.
std::optional<std::pair<base::Key128, JudgeVerdict>> VerdictOf(const std::string& line) {
  const auto json = base::ParseJson(line);
  if (!json.ok()) return std::nullopt;
  const base::json::value* key = base::Find(*json, "key");
  const base::json::value* unsure = base::Find(*json, "unsure");
  const base::json::value* score = base::Find(*json, "score");
  const base::json::value* reasoning = base::Find(*json, "reasoning");
  if (key == nullptr || !key->is_string() || unsure == nullptr || !unsure->is_bool() || score == nullptr ||
      !score->is_number() || reasoning == nullptr || !reasoning->is_string()) {
    return std::nullopt;
  }
  const auto of = base::KeyOfBytes(absl::HexStringToBytes(std::string(key->get_string())));
  if (!of.has_value()) return std::nullopt;
  return std::pair(*of, JudgeVerdict{.unsure = unsure->get_bool(),
                                     .score = score->to_number<double>(),
                                     .reasoning = std::string(reasoning->get_string())});
}

}  // namespace

absl::StatusOr<std::shared_ptr<Verdicts>> Verdicts::Open(const std::string& path) {
  auto verdicts = std::make_shared<Verdicts>();
  verdicts->path_ = path;
  const absl::StatusOr<std::string> text = base::ReadFile(path);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  base::MutexLock lock(verdicts->mu_);
  verdicts->file_ = sandbox::Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!verdicts->file_.valid()) {
    return absl::UnavailableError(absl::StrCat("cannot open '", path, "': ", std::strerror(errno)));
  }
  if (text.ok()) {
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(*text, '\n'))) {
      if (auto verdict = VerdictOf(line)) verdicts->verdicts_.insert(*std::move(verdict));
    }
    // Ends a truncated line so that it does not corrupt the next line.
    if (!text->empty() && text->back() != '\n') INGOT_RETURN_IF_ERROR(verdicts->Append("\n"));
  }
  return verdicts;
}

std::optional<JudgeVerdict> Verdicts::Find(const base::Key128& key) const {
  base::MutexLock lock(mu_);
  const auto found = verdicts_.find(key);
  return found == verdicts_.end() ? std::nullopt : std::optional(found->second);
}

absl::Status Verdicts::Add(const base::Key128& key, const JudgeVerdict& verdict) {
  base::MutexLock lock(mu_);
  if (verdicts_.size() >= kMax) {
    verdicts_.clear();
    if (file_.valid() && ftruncate(file_.get(), 0) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot empty '", path_, "': ", std::strerror(errno)));
    }
  }
  if (!verdicts_.emplace(key, verdict).second || !file_.valid()) return absl::OkStatus();
  return Append(LineOf(key, verdict));
}

absl::Status Verdicts::Append(const std::string& text) {
  const ssize_t written = write(file_.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size()) && fdatasync(file_.get()) == 0) return absl::OkStatus();
  const std::string reason =
      written >= 0 && written < static_cast<ssize_t>(text.size()) ? "it was only partly written" : std::strerror(errno);
  return absl::UnavailableError(absl::StrCat("cannot write '", path_, "': ", reason));
}

}  // namespace ingot::reward
