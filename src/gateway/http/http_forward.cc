#include "gateway/http/http_forward.h"

#include <optional>
#include <utility>

#include "base/mutex.h"
#include "gateway/api/api_error.h"
#include "gateway/http/http_api.h"

namespace ingot::gateway {
namespace {

void SetFields(const http::Fields& fields, google::protobuf::RepeatedPtrField<v1::HttpField>& to) {
  for (const auto& [name, value] : fields) {
    v1::HttpField& field = *to.Add();
    field.set_name(name);
    field.set_value(value);
  }
}

http::Fields FieldsOf(const google::protobuf::RepeatedPtrField<v1::HttpField>& fields) {
  http::Fields made;
  for (const v1::HttpField& field : fields) made.emplace_back(field.name(), field.value());
  return made;
}

v1::ForwardResponse PartOf(http::Reply reply) {
  v1::ForwardResponse part;
  part.set_status(reply.status);
  part.set_content_type(std::move(reply.content_type));
  SetFields(reply.fields, *part.mutable_fields());
  part.set_data(std::move(reply.body));
  part.set_done(true);
  return part;
}

http::Output OutputOf(v1::ForwardResponse part) {
  http::Output output;
  if (part.status() > 0) {
    output.reply = http::Reply{.status = part.status(),
                               .content_type = part.content_type(),
                               .fields = FieldsOf(part.fields()),
                               .body = std::move(*part.mutable_data())};
    return output;
  }
  if (part.begins()) {
    output.stream = http::StreamHead{
        .content_type = part.content_type(), .fields = FieldsOf(part.fields()), .filler = part.filler()};
  }
  output.data = std::move(*part.mutable_data());
  output.done = part.done();
  output.broken = part.broken();
  return output;
}

// An exchange for an answer from another gateway. Used by one thread at a time, except for OnPart, which other threads
// call.
class PassedOn final : public http::Exchange, public std::enable_shared_from_this<PassedOn> {
 public:
  PassedOn(Peers& peers, std::string role, v1::ForwardRequest request, std::function<bool()> client_gone,
           std::function<http::Reply(const absl::Status&)> reject)
      : peers_(peers),
        role_(std::move(role)),
        request_(std::move(request)),
        client_gone_(std::move(client_gone)),
        reject_(std::move(reject)) {}

  void Body(std::string body, std::function<void()> wake) override {
    wake_ = std::move(wake);
    request_.set_body(std::move(body));
    forwarded_ = peers_.Forward(role_, std::move(request_), client_gone_, [weak = weak_from_this()](auto part) {
      if (const auto self = weak.lock()) self->OnPart(std::move(part));
    });
  }

  http::Output Send() override {
    std::optional<absl::StatusOr<v1::ForwardResponse>> part;
    {
      base::MutexLock lock(mu_);
      part.swap(part_);
    }
    if (!part.has_value()) return {};
    if (!part->ok()) return Broken(part->status());
    streams_ = streams_ || (*part)->begins();
    const bool more = !(*part)->done();
    http::Output output = OutputOf(**std::move(part));
    if (more) forwarded_->Next();
    return output;
  }

  void Closed(http::Side) override { forwarded_.reset(); }

 private:
  void OnPart(absl::StatusOr<v1::ForwardResponse> part) {
    {
      base::MutexLock lock(mu_);
      part_ = std::move(part);
    }
    wake_();
  }

  // The other gateway failed. Clients retry a request that gets no response or whose stream ends early.
  http::Output Broken(const absl::Status& why) const {
    http::Output output;
    if (streams_) {
      output.done = output.broken = true;
    } else {
      output.reply = reject_(ApiError(503, "gateway_lost", "",
                                      absl::StrCat(role_, " serves this episode but is unreachable (", why.message(),
                                                   "): send the request again")));
    }
    return output;
  }

  Peers& peers_;
  const std::string role_;
  v1::ForwardRequest request_;  // moved from in Body
  const std::function<bool()> client_gone_;
  const std::function<http::Reply(const absl::Status&)> reject_;
  std::function<void()> wake_;
  std::unique_ptr<Peers::ForwardedCall> forwarded_;
  bool streams_ = false;  // the stream's head was sent
  base::Mutex mu_;
  std::optional<absl::StatusOr<v1::ForwardResponse>> part_ ABSL_GUARDED_BY(mu_);
};

// Finds the episode's gateway on a worker, and then streams that gateway's answer.
class PlacedExchange final : public http::Exchange, public std::enable_shared_from_this<PlacedExchange> {
 public:
  PlacedExchange(Gateway& gateway, PlacedParts parts) : gateway_(gateway), parts_(std::move(parts)) {}

  void Body(std::string body, std::function<void()> wake) override {
    const bool queued = gateway_.RunOnWorker(
        [self = shared_from_this(), body = std::move(body), wake]() mutable { self->Go(std::move(body), wake); });
    if (queued) return;
    base::MutexLock lock(mu_);
    reply_ =
        parts_.reject(ApiError(503, "overloaded", "", "too many requests are waiting for a worker: try again later"));
    wake();
  }

  http::Output Send() override {
    base::MutexLock lock(mu_);
    if (inner_ != nullptr) return inner_->Send();
    http::Output output;
    output.reply.swap(reply_);
    return output;
  }

  void Closed(http::Side side) override {
    base::MutexLock lock(mu_);
    closed_ = true;
    if (inner_ != nullptr) inner_->Closed(side);
  }

 private:
  void Go(std::string body, const std::function<void()>& wake) {
    const absl::StatusOr<std::string> place = parts_.place();
    base::MutexLock lock(mu_);
    if (closed_) return;
    if (!place.ok()) {
      reply_ = parts_.reject(place.status());
    } else if (place->empty()) {
      http::Opening opening = parts_.here(std::move(parts_.head));
      inner_ = std::move(opening.exchange);
      if (inner_ == nullptr) reply_ = std::move(opening.rejection);
    } else {
      inner_ = std::make_shared<PassedOn>(*gateway_.peers(), *place, Request(), std::move(parts_.head.client_gone),
                                          parts_.reject);
    }
    if (inner_ != nullptr) return inner_->Body(std::move(body), wake);
    wake();
  }

  v1::ForwardRequest Request() {
    v1::ForwardRequest request;
    request.set_method(std::move(parts_.head.method));
    request.set_target(std::move(parts_.head.target));
    SetFields(parts_.head.fields, *request.mutable_fields());
    return request;
  }

  Gateway& gateway_;
  PlacedParts parts_;  // used only on Go's thread
  base::Mutex mu_;
  std::shared_ptr<http::Exchange> inner_ ABSL_GUARDED_BY(mu_);
  std::optional<http::Reply> reply_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

std::shared_ptr<http::Exchange> MakePlacedExchange(Gateway& gateway, PlacedParts parts) {
  return std::make_shared<PlacedExchange>(gateway, std::move(parts));
}

struct ForwardedRequest::State {
  explicit State(Gateway& gateway) : api(gateway) {}

  HttpApi api;
  std::shared_ptr<http::Exchange> exchange;  // null = `rejection` is the response
  std::optional<http::Reply> rejection;
};

ForwardedRequest::ForwardedRequest(Gateway& gateway, const v1::ForwardRequest& request,
                                   std::function<bool()> client_gone, std::function<void()> wake)
    : state_(std::make_unique<State>(gateway)) {
  http::Opening opening = state_->api.Answer({.method = request.method(),
                                              .target = request.target(),
                                              .fields = FieldsOf(request.fields()),
                                              .client_gone = std::move(client_gone)});
  state_->exchange = std::move(opening.exchange);
  if (state_->exchange != nullptr) {
    state_->exchange->Body(request.body(), std::move(wake));
    return;
  }
  state_->rejection = std::move(opening.rejection);
  wake();
}

ForwardedRequest::~ForwardedRequest() = default;

v1::ForwardResponse ForwardedRequest::TakePart() {
  if (state_->exchange == nullptr) {
    return state_->rejection.has_value() ? PartOf(*std::exchange(state_->rejection, std::nullopt))
                                         : v1::ForwardResponse();
  }
  http::Output output = state_->exchange->Send();
  if (output.reply.has_value()) return PartOf(*std::move(output.reply));
  v1::ForwardResponse part;
  if (output.stream.has_value()) {
    part.set_begins(true);
    part.set_content_type(std::move(output.stream->content_type));
    SetFields(output.stream->fields, *part.mutable_fields());
    part.set_filler(std::move(output.stream->filler));
  }
  part.set_data(std::move(output.data));
  part.set_done(output.done);
  part.set_broken(output.broken);
  return part;
}

void ForwardedRequest::Abort() {
  if (state_->exchange != nullptr) state_->exchange->Closed(http::Side::kClient);
}

}  // namespace ingot::gateway
