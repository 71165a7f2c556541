// When a slot may ask the gateway for the next episode. While the gateway admits, everyone may at any time; after a
// refusal one slot asks at a time, at the moment the refusal named or after a wait that doubles, and its success lets
// everyone through again. Pure: time is passed in. Not thread safe; Runner calls it under its lock.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace ingot::agents {

class OpenGate {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  // REQUIRES: 0 < initial <= longest.
  OpenGate(nanoseconds initial, nanoseconds longest) : initial_(initial), longest_(longest), wait_(initial) {}

  // True: the caller may ask now and must tell the answer (OnAdmitted, OnRefused). While closed it is true for one
  // caller at a time.
  bool TryPass(nanoseconds now) {
    if (!closed_) return true;
    if (asking_ || now < next_) return false;
    asking_ = true;
    return true;
  }

  void OnAdmitted() {
    closed_ = false;
    asking_ = false;
    wait_ = initial_;
  }

  // `retry_after`: what the refusal named, if it did.
  void OnRefused(nanoseconds now, std::optional<nanoseconds> retry_after) {
    asking_ = false;
    // Several may have asked before the gate closed: their refusals are one.
    if (closed_ && now < next_) return;
    closed_ = true;
    next_ = now + std::min(longest_, retry_after.value_or(wait_));
    wait_ = std::min(longest_, wait_ * 2);
  }

  // Something made room: one may ask at once.
  void Nudge() { next_ = nanoseconds::min(); }

  bool closed() const { return closed_; }
  nanoseconds next() const { return next_; }  // when closed: the moment the next one may ask

 private:
  const nanoseconds initial_;
  const nanoseconds longest_;
  bool closed_ = false;
  bool asking_ = false;
  nanoseconds next_{0};
  nanoseconds wait_;
};

}  // namespace ingot::agents
