// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/write_buffer_manager.h"

#include <utility>

#include "db/memtable/write_buffer_budget.h"

namespace varve {

WriteBufferManager::WriteBufferManager(size_t buffer_size,
                                       std::shared_ptr<Cache> cache,
                                       bool allow_stall)
    : budget_(std::make_shared<WriteBufferBudget>(
          buffer_size, std::move(cache), allow_stall, Env::Default())) {}

WriteBufferManager::~WriteBufferManager() = default;

bool WriteBufferManager::cost_to_cache() const { return budget_->has_cache(); }

size_t WriteBufferManager::memory_usage() const { return budget_->usage(); }

size_t WriteBufferManager::mutable_memtable_memory_usage() const {
  return budget_->active();
}

size_t WriteBufferManager::dummy_entries_in_cache_usage() const {
  return budget_->charged_to_cache();
}

size_t WriteBufferManager::buffer_size() const {
  return budget_->buffer_size();
}

void WriteBufferManager::SetBufferSize(size_t buffer_size) {
  budget_->SetBufferSize(buffer_size);
}

void WriteBufferManager::SetAllowStall(bool allow_stall) {
  budget_->SetAllowStall(allow_stall);
}

bool WriteBufferManager::ShouldFlush() const { return budget_->ShouldFlush(); }

bool WriteBufferManager::ShouldStall() const { return budget_->ShouldStall(); }

}  // namespace varve
