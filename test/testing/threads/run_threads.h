// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <thread>
#include <vector>

namespace varve::test {

// Runs body(0) to body(count - 1), each on a thread of its own. Returns when
// all have ended.
template <typename Count, typename Body>
void RunThreads(Count count, const Body& body) {
  std::vector<std::thread> threads;
  for (Count i = 0; i < count; ++i) {
    threads.emplace_back([&body, i] { body(i); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace varve::test
