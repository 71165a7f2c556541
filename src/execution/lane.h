// Runs one session's requests on the session's own threads, where they wait for its guest agent and programs. If a
// session's guest agent does not answer, other sessions are not delayed. A thread starts when there is work and exits
// after a few idle seconds.
//
// TryPost never blocks. The destructor blocks until all accepted tasks have finished, so a task must not destroy its
// own Lane. Thread safe.
#pragma once

#include <cstddef>
#include <deque>

#include "base/executor.h"
#include "base/mutex.h"

namespace ingot::execution {

class Lane {
 public:
  // Runs at most `threads` tasks at a time and queues up to `queued` more.
  Lane(int threads, size_t queued) : most_threads_(threads), most_queued_(queued) {}
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Returns false, and drops the task, if too many tasks are queued or no thread can be started.
  bool TryPost(base::Task task);

 private:
  void Run();
  // Returns null if the queue stays empty. The thread must then exit.
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
