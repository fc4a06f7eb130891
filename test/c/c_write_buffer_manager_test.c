/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
/*
 * Goal: the C functions of the budget of write buffers do what the C++ class
 * does. Method: each function once, with and without a cache.
 */
#include "test/c/check.h"

static void TestManagers(void) {
  varve_cache_t* const cache = varve_cache_create_lru(1 << 20);
  varve_write_buffer_manager_t* const plain =
      varve_write_buffer_manager_create(1 << 20, 1);
  varve_write_buffer_manager_t* const charged =
      varve_write_buffer_manager_create_with_cache(0, cache, 0);
  varve_write_buffer_manager_t* const uncharged =
      varve_write_buffer_manager_create_with_cache(5, NULL, 0);
  varve_cache_destroy(cache);

  CHECK(varve_write_buffer_manager_enabled(plain) == 1);
  CHECK(varve_write_buffer_manager_cost_to_cache(plain) == 0);
  CHECK(varve_write_buffer_manager_buffer_size(plain) == 1 << 20);
  CHECK(varve_write_buffer_manager_memory_usage(plain) == 0);
  CHECK(varve_write_buffer_manager_mutable_memtable_memory_usage(plain) == 0);
  CHECK(varve_write_buffer_manager_dummy_entries_in_cache_usage(plain) == 0);
  varve_write_buffer_manager_set_allow_stall(plain, 0);
  varve_write_buffer_manager_set_buffer_size(plain, 2 << 20);
  CHECK(varve_write_buffer_manager_buffer_size(plain) == 2 << 20);
  varve_write_buffer_manager_set_buffer_size(plain, 0);
  CHECK(varve_write_buffer_manager_enabled(plain) == 0);

  CHECK(varve_write_buffer_manager_enabled(charged) == 0);
  CHECK(varve_write_buffer_manager_cost_to_cache(charged) == 1);
  CHECK(varve_write_buffer_manager_dummy_entries_in_cache_usage(charged) == 0);

  CHECK(varve_write_buffer_manager_buffer_size(uncharged) == 5);
  CHECK(varve_write_buffer_manager_cost_to_cache(uncharged) == 0);

  varve_write_buffer_manager_destroy(plain);
  varve_write_buffer_manager_destroy(charged);
  varve_write_buffer_manager_destroy(uncharged);
}

int main(void) {
  BeginTests();
  TEST(TestManagers);
  return EndTests();
}
