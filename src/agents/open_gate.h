// Decides when a slot may request the next episode from the gateway. As long as the gateway admits episodes, the gate
// is open to all slots. A rejection closes it. After that, only one slot at a time makes a request, either at the time
// given by the rejection or after a delay that doubles each time. An admission opens the gate. Pure: the time is an
// argument. Not thread safe: Runner holds its lock while calling it.
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

  // Returns true if the caller may make a request now. If so, it must report the answer with OnAdmitted or OnRejected.
  // A closed gate lets only one caller pass at a time.
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

  // `retry_after` is the delay given by the rejection; nullopt = none.
  void OnRejected(nanoseconds now, std::optional<nanoseconds> retry_after) {
    asking_ = false;
    // Slots with pending requests when the gate closed are rejected as well. These rejections count as one.
    if (closed_ && now < next_) return;
    closed_ = true;
    next_ = now + std::min(longest_, retry_after.value_or(wait_));
    wait_ = std::min(longest_, wait_ * 2);
  }

  bool closed() const { return closed_; }
  nanoseconds next() const { return next_; }  // if the gate is closed, the time when the next slot may make a request

 private:
  const nanoseconds initial_;
  const nanoseconds longest_;
  bool closed_ = false;
  bool asking_ = false;
  nanoseconds next_{0};
  nanoseconds wait_;
};

}  // namespace ingot::agents
