// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/closed_db.h"

#include <array>
#include <cstdio>
#include <mutex>
#include <new>

#include "compat/leveldb/convert.h"
#include "compat/leveldb/own_db.h"

namespace varve::compat {
namespace {

class ClosedDb final : public OwnDb {
 public:
  // Called if the program deletes the DB once more.
  ~ClosedDb() override {
    fputs("leveldb: a database was deleted twice\n", stderr);
  }
  // The memory belongs to the list of LeaveClosedDb.
  static void* operator new(size_t /*bytes*/, void* memory) { return memory; }
  static void operator delete(void* memory) { new (memory) ClosedDb; }

  leveldb::Status Put(const leveldb::WriteOptions& /*options*/,
                      const leveldb::Slice& /*key*/,
                      const leveldb::Slice& /*value*/) override {
    return Error();
  }
  leveldb::Status Delete(const leveldb::WriteOptions& /*options*/,
                         const leveldb::Slice& /*key*/) override {
    return Error();
  }
  leveldb::Status Write(const leveldb::WriteOptions& /*options*/,
                        leveldb::WriteBatch* /*batch*/) override {
    return Error();
  }
  leveldb::Status Get(const leveldb::ReadOptions& /*options*/,
                      const leveldb::Slice& /*key*/,
                      std::string* /*value*/) override {
    return Error();
  }
  leveldb::Status GetPinned(const leveldb::ReadOptions& /*options*/,
                            const leveldb::Slice& /*key*/,
                            PinnableSlice* /*value*/) override {
    return Error();
  }
  leveldb::Iterator* NewIterator(
      const leveldb::ReadOptions& /*options*/) override {
    return leveldb::NewErrorIterator(Error());
  }
  // A snapshot that no database has.
  const leveldb::Snapshot* GetSnapshot() override { return nullptr; }
  // Its memory was freed with the database.
  void ReleaseSnapshot(const leveldb::Snapshot* /*snapshot*/) override {}
  bool GetProperty(const leveldb::Slice& /*property*/,
                   std::string* /*value*/) override {
    return false;
  }
  void GetApproximateSizes(const leveldb::Range* /*ranges*/, int count,
                           uint64_t* sizes) override {
    for (int i = 0; i < count; ++i) sizes[i] = 0;
  }
  void CompactRange(const leveldb::Slice* /*begin*/,
                    const leveldb::Slice* /*end*/) override {}

 private:
  static leveldb::Status Error() {
    return IOError("the database was closed before this call");
  }
};
static_assert(sizeof(ClosedDb) <= kClosedDbBytes);

constexpr size_t kKept = 1024;

}  // namespace

void LeaveClosedDb(void* memory) {
  static constinit std::mutex mutex;
  static constinit std::array<void*, kKept> kept{};
  static size_t next = 0;
  new (memory) ClosedDb;
  const std::lock_guard<std::mutex> lock(mutex);
  ::operator delete(kept[next]);
  kept[next] = memory;
  next = (next + 1) % kKept;
}

}  // namespace varve::compat
