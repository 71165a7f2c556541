// The threads of one session. Its requests wait here, for the guest agent and for programs, so that a session whose
// guest agent does not answer does not delay other sessions' requests. A thread starts with work and ends after some
// seconds without any.
//
// TryPost never blocks. The destructor blocks until the tasks that were taken are done: no task may run it. Thread
// safe.
#pragma once

#include <cstddef>
#include <deque>

#include "base/executor.h"
#include "base/mutex.h"

namespace ingot::execution {

class Lane {
 public:
  // At most `threads` tasks run at a time, and `queued` more wait.
  Lane(int threads, size_t queued) : most_threads_(threads), most_queued_(queued) {}
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // False: too many tasks wait, or the machine gives no thread. The task is then dropped.
  bool TryPost(base::Task task);

 private:
  void Run();
  // Null: there is nothing left to do, and the thread has left.
  base::Task NextTask();

  const int most_threads_;
  const size_t most_queued_;
  base::Mutex mu_;
  base::CondVar changed_;
  std::deque<base::Task> queue_ ABSL_GUARDED_BY(mu_);
  int threads_ ABSL_GUARDED_BY(mu_) = 0;
  int idle_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ingot::execution
