// How sessions of the store end: by disuse, and while a request still holds them.
#include "execution/store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "sandbox/test_room.h"

namespace ingot::execution {
namespace {

TEST(SessionStoreTest, TheEndOfARequestCountsAsAUse) {
  const sandbox::TestFolder folder;
  const auto substrate = sandbox::SharedUidSubstrate(folder.path() + "/work");
  ASSERT_NE(substrate, nullptr);
  sandbox::ImageStore images(folder.path() + "/images");
  const std::chrono::milliseconds idle(400), longer(500);
  SessionStore store(*substrate, images, {.idle = idle});
  const sandbox::Cancellation nobody;
  auto opened = store.Open({}, nobody);
  ASSERT_TRUE(opened.ok()) << opened.status();
  std::shared_ptr<Held> request = store.Find((*opened)->id);
  opened->reset();
  std::this_thread::sleep_for(longer);
  store.RemoveEnded();
  request.reset();
  store.RemoveEnded();
  EXPECT_EQ(store.List().size(), 1u) << "its last use was the request's end";
  std::this_thread::sleep_for(longer);
  store.RemoveEnded();
  EXPECT_TRUE(store.List().empty());
}

}  // namespace
}  // namespace ingot::execution
