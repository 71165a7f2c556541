// The OpenGate decides when a slot may ask the gateway for the next episode. While the gateway admits, the gate is open
// to every slot. A rejection closes it: one slot asks at a time, at the moment that the rejection named or after a wait
// that doubles; an admission opens it again. Pure: the time is an argument. Not thread safe; Runner calls it under its
// lock.
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

  // True: the caller may ask now, and must report the answer with OnAdmitted or OnRejected. A closed gate lets one
  // caller pass at a time.
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

  // `retry_after`: the wait that the rejection named; nullopt = none.
  void OnRejected(nanoseconds now, std::optional<nanoseconds> retry_after) {
    asking_ = false;
    // Slots that asked before the gate closed are rejected too: these rejections count as one.
    if (closed_ && now < next_) return;
    closed_ = true;
    next_ = now + std::min(longest_, retry_after.value_or(wait_));
    wait_ = std::min(longest_, wait_ * 2);
  }

  bool closed() const { return closed_; }
  nanoseconds next() const { return next_; }  // of a closed gate: the moment at which the next slot may ask

 private:
  const nanoseconds initial_;
  const nanoseconds longest_;
  bool closed_ = false;
  bool asking_ = false;
  nanoseconds next_{0};
  nanoseconds wait_;
};

}  // namespace ingot::agents
