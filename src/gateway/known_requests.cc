#include "gateway/known_requests.h"

#include <algorithm>
#include <cstring>

namespace ingot::gateway {
namespace {

// Goes over JSON that is known to be well formed; on any other it stops somewhere, but within the text.
class Scanner {
 public:
  explicit Scanner(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  size_t at() const { return at_; }
  // The next character that is no white space; 0 at the end.
  char Peek() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != '\0') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  // What stands between quotes, as it is written; nullopt: there is no string here.
  std::optional<std::string_view> String() {
    if (!Take('"')) return std::nullopt;
    const size_t begin = at_;
    SkipString();
    return at_ > begin ? std::optional(text_.substr(begin, at_ - begin - 1)) : std::nullopt;
  }
  // Behind the value that begins here.
  void SkipValue() {
    int depth = 0;
    do {
      const char c = Peek();
      if (c == '\0') return;
      ++at_;
      if (c == '"') {
        SkipString();
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        --depth;
      } else if (c != ',' && c != ':') {
        while (at_ < text_.size() && std::strchr(",:]} \t\r\n", text_[at_]) == nullptr) ++at_;
      }
    } while (depth > 0);
  }

 private:
  // Behind the quote that closes the string in which this stands.
  void SkipString() {
    while (true) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        at_ = text_.size();
        return;
      }
      size_t backslashes = 0;
      while (quote - backslashes > at_ && text_[quote - backslashes - 1] == '\\') ++backslashes;
      at_ = quote + 1;
      if (backslashes % 2 == 0) return;
    }
  }

  const std::string_view text_;
  size_t at_;
};

// Of the elements of a list from here, each behind a comma but the first.
std::vector<size_t> ElementEnds(Scanner& scanner) {
  std::vector<size_t> ends;
  do {
    if (scanner.Peek() == ']' || scanner.Peek() == '\0') break;
    scanner.SkipValue();
    ends.push_back(scanner.at());
  } while (scanner.Take(','));
  return ends;
}

}  // namespace

int64_t KnownRequest::bytes() const {
  // The body, its messages, what a template and the history make of them, and what the template prints of each and of
  // all; and what each message takes however short it is.
  constexpr int64_t kForms = 7, kMessage = 1024;
  const auto messages = static_cast<int64_t>(request == nullptr ? 0 : request->conversation.messages.size());
  return kForms * static_cast<int64_t>(body.size()) + kMessage * messages +
         static_cast<int64_t>(sizeof(GatewayRequest));
}

std::optional<ListPlace> FindList(std::string_view body, std::string_view field) {
  Scanner scanner(body);
  std::optional<ListPlace> list;
  if (!scanner.Take('{')) return std::nullopt;
  do {
    const std::optional<std::string_view> key = scanner.String();
    // An escaped key may be any; of one that is there twice the last counts.
    if (!key.has_value() || key->find('\\') != std::string_view::npos || !scanner.Take(':')) return std::nullopt;
    if (*key != field) {
      scanner.SkipValue();
      continue;
    }
    if (list.has_value() || !scanner.Take('[')) return std::nullopt;
    list.emplace().begin = scanner.at();
    list->ends = ElementEnds(scanner);
    if (list->ends.empty() || !scanner.Take(']')) return std::nullopt;
  } while (scanner.Take(','));
  return list;
}

namespace {

// The elements that stand in body[at, end), behind others. nullopt: that is no list of elements.
std::optional<base::json::array> ReadElements(std::string_view body, size_t at, size_t end) {
  Scanner scanner(body.substr(0, end), at);
  if (scanner.Peek() == '\0' && scanner.at() == end) return base::json::array();
  if (!scanner.Take(',')) return std::nullopt;
  // As deep as it stands in the body. What is no list of elements is no JSON so either.
  const std::string_view text = body.substr(scanner.at(), end - scanner.at());
  auto parsed = base::ParseJson(absl::StrCat("{\"\":[", base::View(text), "]}"));
  if (!parsed.ok() || !parsed->is_object() || parsed->get_object().size() != 1) return std::nullopt;
  base::json::value& list = parsed->get_object().begin()->value();
  if (!list.is_array() || list.get_array().empty()) return std::nullopt;
  return std::move(list.get_array());
}

// How many elements of a list are those of the other, byte for byte.
size_t SameElements(std::string_view a, const ListPlace& in_a, std::string_view b, const ListPlace& in_b) {
  size_t same = 0, at_a = in_a.begin, at_b = in_b.begin;
  for (; same < std::min(in_a.ends.size(), in_b.ends.size()); ++same) {
    const size_t end_a = in_a.ends[same], end_b = in_b.ends[same];
    if (a.substr(at_a, end_a - at_a) != b.substr(at_b, end_b - at_b)) break;
    at_a = end_a;
    at_b = end_b;
  }
  return same;
}

// Where nothing but the end of the list differs, which is told without going over all of the body.
std::optional<RequestChange> FindChangeAtEnd(const KnownRequest& known, std::string_view body) {
  const std::string_view before = known.body, tail = before.substr(known.list.ends.back());
  RequestChange change;
  size_t same = 0;
  for (const size_t end : known.list.ends) {
    if (end > body.size() || before.substr(same, end - same) != body.substr(same, end - same)) break;
    same = end;
    ++change.kept;
  }
  if (change.kept == 0 || body.size() - same < tail.size() || !body.ends_with(tail)) return std::nullopt;
  const size_t end = body.size() - tail.size();
  auto added = ReadElements(body, same, end);
  if (!added.has_value()) return std::nullopt;
  change.added = *std::move(added);
  change.list.begin = known.list.begin;
  change.list.ends.assign(known.list.ends.begin(), known.list.ends.begin() + static_cast<std::ptrdiff_t>(change.kept));
  if (change.added.empty()) return change;
  Scanner scanner(body.substr(0, end), same);
  scanner.Take(',');
  const std::vector<size_t> ends = ElementEnds(scanner);
  // All of it, and no list that ends and a field that begins.
  if (ends.size() != change.added.size() || scanner.Peek() != '\0' || scanner.at() != end) return std::nullopt;
  change.list.ends.insert(change.list.ends.end(), ends.begin(), ends.end());
  return change;
}

}  // namespace

std::optional<RequestChange> FindChange(const KnownRequest& known, std::string_view body, std::string_view field) {
  if (auto change = FindChangeAtEnd(known, body)) return change;
  auto list = FindList(body, field);
  if (!list.has_value()) return std::nullopt;
  RequestChange change;
  change.kept = SameElements(known.body, known.list, body, *list);
  if (change.kept == 0) return std::nullopt;
  auto added = ReadElements(body, list->ends[change.kept - 1], list->ends.back());
  if (!added.has_value() || added->size() != list->ends.size() - change.kept) return std::nullopt;
  change.added = *std::move(added);
  change.rest = absl::StrCat(base::View(body.substr(0, list->begin)), base::View(body.substr(list->ends.back())));
  change.list = *std::move(list);
  return change;
}

std::shared_ptr<const KnownRequest> KnownRequests::Find(const std::string& caller) {
  base::MutexLock lock(mu_);
  const auto found = by_caller_.find(caller);
  if (found == by_caller_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return found->second->request;
}

KnownRequests::Forgotten KnownRequests::Keep(const std::string& caller, std::shared_ptr<const KnownRequest> request) {
  Forgotten forgotten;
  base::MutexLock lock(mu_);
  if (const auto found = by_caller_.find(caller); found != by_caller_.end()) Forget(found->second, forgotten);
  const int64_t bytes = request->bytes();
  if (bytes > max_bytes_) return forgotten;
  while (bytes_ + bytes > max_bytes_) Forget(std::prev(recent_.end()), forgotten);
  recent_.push_front({caller, std::move(request)});
  by_caller_[caller] = recent_.begin();
  const std::string& episode = recent_.front().request->episode;
  if (!episode.empty()) by_episode_[episode].insert(&recent_.front());
  bytes_ += bytes;
  return forgotten;
}

void KnownRequests::Forget(Recent::iterator at, Forgotten& forgotten) {
  bytes_ -= at->request->bytes();
  by_caller_.erase(at->caller);
  if (const auto episode = by_episode_.find(at->request->episode); episode != by_episode_.end()) {
    episode->second.erase(&*at);
    if (episode->second.empty()) by_episode_.erase(episode);
  }
  forgotten.push_back(std::move(at->request));
  recent_.erase(at);
}

KnownRequests::Forgotten KnownRequests::ForgetEpisode(const std::string& id) {
  Forgotten forgotten;
  base::MutexLock lock(mu_);
  const auto episode = by_episode_.extract(id);
  if (episode.empty()) return forgotten;
  for (const Known* const known : episode.mapped()) Forget(by_caller_.at(known->caller), forgotten);
  return forgotten;
}

int64_t KnownRequests::bytes() const {
  base::MutexLock lock(mu_);
  return bytes_;
}

}  // namespace ingot::gateway
