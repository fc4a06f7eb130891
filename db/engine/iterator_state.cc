// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/engine/iterator_state.h"

#include "db/engine/db_iterator.h"
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// Offset of the iterator after its state.
constexpr size_t kPlaceOffset =
    (sizeof(IteratorState) + ThreadArena::kAlignment - 1) &
    ~(ThreadArena::kAlignment - 1);

size_t StateBytes() { return kPlaceOffset + DbIteratorBytes(); }

}  // namespace

IteratorState* IteratorState::Take(bool fresh, const IteratorTreeKey& key) {
  if (fresh) {
    CountPath(CurrentThreadRecord(), PathCounter::kFreshArena);
    return new (::operator new(StateBytes())) IteratorState(nullptr, key);
  }
  ThreadArena* const memory =
      ThreadArena::Take(ArenaKind::kIterator, [&key](const void* root) {
        const auto* const kept = static_cast<const IteratorState*>(root);
        return kept == nullptr || kept->key_.db == key.db;
      });
  auto* const kept = static_cast<IteratorState*>(memory->root());
  if (kept != nullptr && kept->tree_ != nullptr && kept->key_ == key) {
    return kept;
  }
  memory->Reset();
  CountPath(CurrentThreadRecord(), PathCounter::kKeptArena);
  auto* const made =
      new (memory->Allocate(StateBytes())) IteratorState(memory, key);
  memory->SetRoot(made, [](void* root) {
    static_cast<IteratorState*>(root)->~IteratorState();
  });
  return made;
}

void IteratorState::ResetForReuse() {
  if (memory_ == nullptr || tree_ == nullptr || !tree_->ResetForReuse()) {
    tree_.reset();
  } else {
    saved_key.Trim();
    saved_value.Trim();
    target.Trim();
    inner_target.Trim();
    reseek_target.Trim();
    walk_begin.Trim();
  }
}

void IteratorState::GiveBack() {
  if (memory_ != nullptr) {
    memory_->GiveBack();
    return;
  }
  this->~IteratorState();
  ::operator delete(this);
}

void* IteratorState::place() {
  return reinterpret_cast<char*>(this) + kPlaceOffset;
}

IteratorState* IteratorState::OfPlace(void* place) {
  return reinterpret_cast<IteratorState*>(static_cast<char*>(place) -
                                          kPlaceOffset);
}

}  // namespace varve
