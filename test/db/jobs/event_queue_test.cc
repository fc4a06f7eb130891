// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: events are delivered in their order, without the mutex, by one thread
// at a time, which the queue tells of. Method: a listener that looks.

#include "db/jobs/event_queue.h"
#include "test/testing/db/test_db_mutex.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class Listener : public EventListener {
 public:
  void OnBackgroundError(const std::string& where,
                         const Status& /*error*/) override {
    heard.push_back(where);
    if (queue == nullptr) return;
    MutexLock lock(mutex->lockable());
    was_delivering = was_delivering && queue->IsDeliveringLocked();
    queue->DeliverLocked();  // Leaves it to the thread that delivers.
  }
  std::vector<std::string> heard;
  EventQueue* queue = nullptr;
  LoneDbMutex* mutex = nullptr;
  bool was_delivering = true;
};

TEST(EventQueueTest, DeliversInOrderAndSaysSo) {
  LoneDbMutex mutex;
  const auto listener = std::make_shared<Listener>();
  EventQueue queue({listener}, mutex.lockable());
  listener->queue = &queue;
  listener->mutex = &mutex;
  MutexLock lock(mutex.lockable());
  for (const char* where : {"a", "b"}) {
    queue.Add([where](EventListener* l) {
      l->OnBackgroundError(where, Status::OK());
    });
  }
  EXPECT_FALSE(queue.IsDeliveringLocked());
  queue.DeliverLocked();
  EXPECT_FALSE(queue.IsDeliveringLocked());
  queue.FinishLocked();
  EXPECT_TRUE(listener->was_delivering);
  EXPECT_EQ(listener->heard, (std::vector<std::string>{"a", "b"}));
}

TEST(EventQueueTest, KeepsNothingWithoutListeners) {
  LoneDbMutex mutex;
  EventQueue queue({}, mutex.lockable());
  EXPECT_FALSE(queue.HasListeners());
  queue.Add([](EventListener*) { ADD_FAILURE(); });
  MutexLock lock(mutex.lockable());
  queue.DeliverLocked();
}

}  // namespace
}  // namespace varve::test
