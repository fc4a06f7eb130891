// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/large_memory.h"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstdint>
#include <new>

#include "util/base/mutex.h"
#include "util/base/process_wide.h"

namespace varve {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kKeeps = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif
#else
constexpr bool kKeeps = true;
#endif

constexpr size_t kAlignment = 64;
constexpr uintptr_t kPageMask = 4095;

constexpr size_t kSteps = 8;  // In each doubling of the size.
constexpr size_t kClasses =
    kSteps * (std::bit_width(kMostLargeBytes / kLeastLargeBytes) - 1) + 1;

struct SizeClass {
  size_t index;
  size_t bytes;
};

constexpr SizeClass ClassOf(size_t size) {
  // The power of two below the size, or the size itself.
  const size_t doublings = std::bit_width(size / kLeastLargeBytes) - 1;
  const size_t base = kLeastLargeBytes << doublings;
  const size_t step = base / kSteps;
  const size_t steps = (size - base + step - 1) / step;
  return {doublings * kSteps + steps, base + steps * step};
}
constexpr size_t BytesOf(size_t index) {
  const size_t base = kLeastLargeBytes << (index / kSteps);
  return base + base / kSteps * (index % kSteps);
}
static_assert(ClassOf(kLeastLargeBytes).index == 0);
static_assert(ClassOf(kLeastLargeBytes + 1).index == 1);
static_assert(ClassOf(2 * kLeastLargeBytes).index == kSteps);
static_assert(ClassOf(2 * kLeastLargeBytes).bytes == 2 * kLeastLargeBytes);
static_assert(ClassOf(kMostLargeBytes).index == kClasses - 1);
static_assert(BytesOf(kSteps + 1) == ClassOf(BytesOf(kSteps + 1)).bytes);

bool IsPooled(size_t bytes) {
  return kKeeps && bytes >= kLeastLargeBytes && bytes <= kMostLargeBytes;
}

// At the start of its memory.
struct Piece {
  Piece* next;
};

void Release(void* memory) {
  ::operator delete(memory, std::align_val_t{kAlignment});
}

// Nobody waits for the mutex: in a child of fork() it may be locked for ever.
class KeptPieces {
 public:
  // Returns null if there is none.
  void* Take(const SizeClass& size_class) {
    if (!mu_.TryLock()) return nullptr;
    Piece* const piece = free_[size_class.index];
    if (piece != nullptr) free_[size_class.index] = piece->next;
    if (piece != nullptr) bytes_ -= size_class.bytes;
    mu_.Unlock();
    return piece;
  }

  // Takes the piece over, unless enough of the size are kept. Pieces of other
  // sizes, which may not be needed any more, give way to it.
  bool Keep(void* memory, const SizeClass& size_class) {
    if (kept_bytes() + size_class.bytes > kMostKeptBytes &&
        !MakeRoom(size_class)) {
      return false;
    }
    // The page with the beginning stays. A hint: without it all stay.
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t from = (begin + sizeof(Piece) + kPageMask) & ~kPageMask;
    const uintptr_t to = (begin + size_class.bytes) & ~kPageMask;
    madvise(reinterpret_cast<void*>(from), to - from, MADV_FREE);
    if (!mu_.TryLock()) return false;
    // Other threads may have filled it since.
    const bool fits = bytes_ + size_class.bytes <= kMostKeptBytes;
    if (fits) {
      bytes_ += size_class.bytes;
      free_[size_class.index] = new (memory) Piece{free_[size_class.index]};
    }
    mu_.Unlock();
    return fits;
  }

  size_t kept_bytes() {
    if (!mu_.TryLock()) return 0;
    const size_t bytes = bytes_;
    mu_.Unlock();
    return bytes;
  }

 private:
  // Frees pieces of other sizes until one of this size fits. Returns false if
  // it cannot.
  bool MakeRoom(const SizeClass& size_class) {
    if (!mu_.TryLock()) return false;
    Piece* victims = nullptr;
    for (size_t tried = 0;
         tried < kClasses && bytes_ + size_class.bytes > kMostKeptBytes;) {
      Piece*& first = free_[victim_];
      if (victim_ == size_class.index || first == nullptr) {
        victim_ = (victim_ + 1) % kClasses;
        ++tried;
        continue;
      }
      Piece* const victim = first;
      first = victim->next;
      bytes_ -= BytesOf(victim_);
      victim->next = victims;
      victims = victim;
    }
    const bool fits = bytes_ + size_class.bytes <= kMostKeptBytes;
    mu_.Unlock();
    while (victims != nullptr) {
      Piece* const victim = victims;
      victims = victim->next;
      Release(victim);
    }
    return fits;
  }

  Mutex mu_;
  std::array<Piece*, kClasses> free_ VARVE_GUARDED_BY(mu_){};
  size_t bytes_ VARVE_GUARDED_BY(mu_) = 0;
  size_t victim_ VARVE_GUARDED_BY(mu_) = 0;  // The next class to give way.
};

// Never destroyed: memory may be freed after everything else.
KeptPieces& Kept() {
  static constinit ProcessWide<KeptPieces> kept;
  return kept.Get();
}

}  // namespace

void* AllocateLarge(size_t bytes) {
  if (IsPooled(bytes)) {
    const SizeClass size_class = ClassOf(bytes);
    if (void* const piece = Kept().Take(size_class)) return piece;
    bytes = size_class.bytes;
  }
  return ::operator new(bytes, std::align_val_t{kAlignment});
}

void FreeLarge(void* memory, size_t bytes) {
  if (IsPooled(bytes) && Kept().Keep(memory, ClassOf(bytes))) return;
  Release(memory);
}

size_t TEST_KeptLargeBytes() { return Kept().kept_bytes(); }

}  // namespace varve
