// A dialect whose requests repeat a list that grows from one to the next: `messages`, `input`. Reading is in steps, of
// which a request that goes on from a known one skips what it shares with that.
#pragma once

#include <optional>

#include "gateway/dialect.h"
#include "gateway/fields.h"

namespace ingot::gateway {

class ListDialect : public Dialect {
 public:
  std::string_view growing_list() const override { return list_; }
  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const final;
  absl::StatusOr<GatewayRequest> ParseChange(const GatewayRequest& known, size_t kept, const base::json::array& added,
                                             const RawRequest* rest) const final;

 protected:
  // `list`: the field's name; it has at most `max` elements.
  ListDialect(const char* list, size_t max) : list_(list), max_(max) {}

  // All fields but the list, with the messages that they make: those come first.
  virtual absl::Status ReadFields(const Headers& headers, Fields& body, GatewayRequest& request) const = 0;
  // Elements of the list, behind those that were read (GatewayRequest::elements). UNAVAILABLE: the first of them has to
  // be read together with those.
  virtual absl::Status ReadElements(const base::json::array& elements, GatewayRequest& request) const = 0;
  // When all is read: whether it can be answered.
  virtual absl::Status Finish(GatewayRequest& request) const = 0;
  // Null: the field is not there, or is something else that ReadFields read.
  virtual const base::json::array* ListIn(Fields& body) const { return body.List(list_, max_); }

 private:
  const char* const list_;
  const size_t max_;
};

}  // namespace ingot::gateway
