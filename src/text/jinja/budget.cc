#include "text/jinja/budget.h"

#include "absl/strings/str_cat.h"
#include "text/jinja/error.h"

namespace ingot::text::jinja {
namespace {

thread_local Budget* current = nullptr;

}  // namespace

Budget::Budget(uint64_t steps, uint64_t bytes) : steps_(steps), bytes_(bytes), outer_(current) { current = this; }
Budget::~Budget() { current = outer_; }

void ChargeSteps(uint64_t count) {
  Budget* const budget = current;
  if (budget == nullptr) return;
  if (count > budget->steps_) {
    FailLimit("the template takes too many steps to render: it loops too long for this conversation");
  }
  budget->steps_ -= count;
}

void ChargeBytes(uint64_t count) {
  Budget* const budget = current;
  if (budget == nullptr) return;
  if (count > budget->bytes_) {
    FailLimit("the template renders more text than the limit allows");
  }
  budget->bytes_ -= count;
}

}  // namespace ingot::text::jinja
