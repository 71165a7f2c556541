#include "http/handler.h"

#include <algorithm>

namespace ingot::http {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualsWithoutCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Lower(x) == Lower(y); });
}

class ImmediateExchange final : public Exchange {
 public:
  explicit ImmediateExchange(std::function<Reply(const std::string&)> answer) : answer_(std::move(answer)) {}
  void Body(std::string body, std::function<void()> wake) override {
    reply_ = answer_(body);
    wake();
  }
  Output Send() override {
    Output output;
    output.done = reply_.has_value();
    output.reply = std::exchange(reply_, std::nullopt);
    return output;
  }
  void Closed(Side) override {}

 private:
  const std::function<Reply(const std::string&)> answer_;
  std::optional<Reply> reply_;
};

}  // namespace

std::string_view RequestHead::Find(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const auto& field) { return EqualsWithoutCase(field.first, name); });
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

std::string RequestHead::Key() const {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view authorization = Find("authorization");
  if (!EqualsWithoutCase(authorization.substr(0, kScheme.size()), kScheme)) {
    const std::string_view key = Find("x-api-key");
    return std::string(key.empty() ? Find("x-goog-api-key") : key);
  }
  const size_t begin = authorization.find_first_not_of(' ', kScheme.size());
  if (begin == std::string_view::npos) return "";
  return std::string(authorization.substr(begin, authorization.find_last_not_of(' ') - begin + 1));
}

Reply Handler::Refuse(std::string_view, const Refusal& why) {
  Reply reply{.status = why.status, .content_type = "text/plain; charset=utf-8", .body = why.message + "\n"};
  if (why.status == 503) reply.fields.emplace_back("Retry-After", "1");
  return reply;
}

std::shared_ptr<Exchange> MakeExchange(std::function<Reply(const std::string&)> answer) {
  return std::make_shared<ImmediateExchange>(std::move(answer));
}

}  // namespace ingot::http
