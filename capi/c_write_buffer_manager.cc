// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of the budget of write buffers.

#include "capi/handles.h"
#include "varve/write_buffer_manager.h"

using varve::WriteBufferManager;

namespace {

// Returns what a function of the manager returns, or 0 without a manager.
template <typename T>
T Ask(const varve_write_buffer_manager_t* manager,
      T (WriteBufferManager::*function)() const) {
  return manager != nullptr ? (manager->rep.get()->*function)() : T{};
}

}  // namespace

extern "C" {

varve_write_buffer_manager_t* varve_write_buffer_manager_create(
    size_t buffer_size, uint8_t allow_stall) {
  return varve_write_buffer_manager_create_with_cache(buffer_size, nullptr,
                                                      allow_stall);
}

varve_write_buffer_manager_t* varve_write_buffer_manager_create_with_cache(
    size_t buffer_size, const varve_cache_t* cache, uint8_t allow_stall) {
  return new varve_write_buffer_manager_t{std::make_shared<WriteBufferManager>(
      buffer_size, cache != nullptr ? cache->rep : nullptr, allow_stall != 0)};
}

void varve_write_buffer_manager_destroy(varve_write_buffer_manager_t* manager) {
  delete manager;
}

uint8_t varve_write_buffer_manager_enabled(
    const varve_write_buffer_manager_t* manager) {
  return Ask(manager, &WriteBufferManager::enabled) ? 1 : 0;
}

uint8_t varve_write_buffer_manager_cost_to_cache(
    const varve_write_buffer_manager_t* manager) {
  return Ask(manager, &WriteBufferManager::cost_to_cache) ? 1 : 0;
}

size_t varve_write_buffer_manager_memory_usage(
    const varve_write_buffer_manager_t* manager) {
  return Ask(manager, &WriteBufferManager::memory_usage);
}

size_t varve_write_buffer_manager_mutable_memtable_memory_usage(
    const varve_write_buffer_manager_t* manager) {
  return Ask(manager, &WriteBufferManager::mutable_memtable_memory_usage);
}

size_t varve_write_buffer_manager_dummy_entries_in_cache_usage(
    const varve_write_buffer_manager_t* manager) {
  return Ask(manager, &WriteBufferManager::dummy_entries_in_cache_usage);
}

size_t varve_write_buffer_manager_buffer_size(
    const varve_write_buffer_manager_t* manager) {
  return Ask(manager, &WriteBufferManager::buffer_size);
}

void varve_write_buffer_manager_set_buffer_size(
    varve_write_buffer_manager_t* manager, size_t new_size) {
  if (manager != nullptr) manager->rep->SetBufferSize(new_size);
}

void varve_write_buffer_manager_set_allow_stall(
    varve_write_buffer_manager_t* manager, uint8_t new_allow_stall) {
  if (manager != nullptr) manager->rep->SetAllowStall(new_allow_stall != 0);
}

void varve_options_set_write_buffer_manager(
    varve_options_t* options, varve_write_buffer_manager_t* manager) {
  varve::capi::Set(options, &varve::Options::write_buffer_manager,
                   manager != nullptr ? manager->rep : nullptr);
}

}  // extern "C"
