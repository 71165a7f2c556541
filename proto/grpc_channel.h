// The channel to a role that may restart at another address. Clients ask for it again for each call.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace ingot::v1 {

// Cheap to copy. Thread safe.
class RoleChannel {
 public:
  // An address that never changes.
  RoleChannel(std::shared_ptr<grpc::Channel> channel)  // NOLINT(google-explicit-constructor)
      : now_([channel = std::move(channel)] { return channel; }) {}
  // `now` never blocks. The channels that it returns outlive the rpcs on them.
  explicit RoleChannel(std::function<std::shared_ptr<grpc::Channel>()> now) : now_(std::move(now)) {}

  // The channel to the role's current address.
  std::shared_ptr<grpc::Channel> Now() const { return now_(); }

 private:
  std::function<std::shared_ptr<grpc::Channel>()> now_;
};

// The stub of a service at the role's current address. Thread safe.
template <typename Service>
class Stubs {
 public:
  explicit Stubs(RoleChannel channel) : channel_(std::move(channel)) {}

  std::shared_ptr<typename Service::Stub> Now() const {
    std::shared_ptr<grpc::Channel> channel = channel_.Now();
    std::lock_guard<std::mutex> lock(mu_);
    if (channel != used_) {
      stub_ = Service::NewStub(channel);
      used_ = std::move(channel);
    }
    return stub_;
  }

 private:
  const RoleChannel channel_;
  mutable std::mutex mu_;
  mutable std::shared_ptr<grpc::Channel> used_;  // of stub_
  mutable std::shared_ptr<typename Service::Stub> stub_;
};

}  // namespace ingot::v1
